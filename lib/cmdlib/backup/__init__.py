"""Units of backups: directories on nodes that hold an instance, and instances on their way to another cluster.

* export -- making one, or sending the disks to another cluster
* prepare -- what the source of a move between clusters says first
* remote -- what both sides of such a move must agree on, as pure functions
* remove -- removing exports from all nodes
"""
