"""Units of instances.

* base -- what the units of one instance share
* create, life -- making; removing, renaming, reinstalling
* run -- starting, stopping, rebooting, consoles, activating disks
* reservation -- forthcoming instances, and what they keep when they become real
* multi_alloc -- creating several instances at once
* moving -- fail-over, live migration, clean-up after one, other groups; finding out where a guest is
* modify, modify_disks, modify_nics, changes -- ``gnt-instance modify`` and the grammar of its lists of changes
* nicgen -- NICs out of what was asked for
* image -- an image in place of an operating system
* shape, room -- what an allocator gets to know of an instance; memory that other guests of a node can give back
* query -- ``gnt-instance info``
"""
