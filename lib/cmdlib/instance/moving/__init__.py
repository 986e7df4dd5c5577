"""Instances on their way between nodes, and finding out where a guest is (doc/design-migration.rst).

* migrate, migration -- fail-over and live migration: the units, and the tasklet that does either
* anywhere -- to a node that has no copy of the disks yet
* looking, whereabouts -- asking every node about a guest; the table that says what that means
* settling, cleanup -- bringing everything in line with where the guest is
* change_group -- to another node group
"""
