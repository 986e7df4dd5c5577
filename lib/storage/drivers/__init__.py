"""The drivers, one for each kind of disk: what ``storage.base`` asks for (doc/reference/drivers.md a).

* file -- templates ``file`` and ``sharedfile``; gluster -- files on a Gluster volume
* lvm -- template ``plain``, and the volumes below a mirror; drbd -- mirrors of two nodes
* device -- what is a block device only while it is assembled, and template ``blockdev``; rbd, ext -- two of that kind
* fake -- obeys the contract and needs nothing but files
"""
