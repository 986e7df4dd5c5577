"""Units of the cluster as a whole.

* life -- after init, destroy, rename, redistribution of files, the master's address
* modify, values -- ``gnt-cluster modify``: the unit, and the check of each value it may set
* valuechecks -- those of these checks that ``gnt-cluster init`` makes, too
* renew -- ``gnt-cluster renew-crypto``
* tokens -- tokens of the remote interface
* verify, verify_look, verify_again -- ``gnt-cluster verify``: the jobs, a look at a group, the second one under locks
* verify_nodes, verify_report -- the checks of nodes, the report
* verify_crypto, verify_ssh -- nodes with old keys; their files of SSH keys
* verify_storage, verify_lvm, verify_drbd, verify_mirrors -- disks: are they in order, and do nodes, volumes, devices and
  both sides of mirrors agree
* verify_files, verify_tags, verify_losses, verify_calls -- files of nodes; instances that exclude each other; which nodes
  may fail; what node daemons have been working on for long
* verify_disks -- disks that are not up, and sizes that differ from the configuration
"""
