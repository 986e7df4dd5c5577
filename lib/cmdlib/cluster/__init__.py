"""Units of the cluster as a whole.

* life -- after init, destroy, rename, redistribution of files, the master's address
* modify, values -- ``gnt-cluster modify``: the unit, and the check of each value it may set
* renew -- ``gnt-cluster renew-crypto``
* verify, verify_nodes, verify_report -- ``gnt-cluster verify``: the jobs, the checks of a group, the report
* verify_crypto -- nodes with old keys
* verify_disks -- disks that are not up, and sizes that differ from the configuration
"""
