"""Units of instances.

* base -- what the units of one instance share
* create, life -- making; removing, renaming, reinstalling
* run -- starting, stopping, rebooting, consoles, activating disks
* reservation -- forthcoming instances, and what they keep when they become real
* multi_alloc -- creating several instances at once
* change_group -- moving to another node group
* migrate, migration -- fail-over and live migration: the units, and the tasklet that does either
* modify, modify_disks, modify_nics, changes -- ``gnt-instance modify`` and the grammar of its lists of changes
* nicgen -- NICs out of what was asked for
* query -- ``gnt-instance info``
"""
