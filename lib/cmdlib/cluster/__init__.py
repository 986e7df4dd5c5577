"""Units of the cluster as a whole.

* life -- after init, destroy, rename, redistribution of files, the master's address
* modify, values -- ``gnt-cluster modify``: the unit, and the check of each value it may set
* renew -- ``gnt-cluster renew-crypto``
* verify, verify_look, verify_again -- ``gnt-cluster verify``: the jobs, a look at a group, the second one under locks
* verify_nodes, verify_report -- the checks of nodes, the report
* verify_crypto -- nodes with old keys
* verify_disks -- disks that are not up, and sizes that differ from the configuration
"""
