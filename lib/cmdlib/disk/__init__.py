"""Units and tools of instances' disks.

* generate -- disk objects out of what was asked for
* devices -- making, assembling, taking down, wiping, waiting for synchronization
* mirrors -- the two sides of mirrors: which of them count, and what each says of the other
* copies -- whether a node has the data of mirrors before the other side is given up
* advice -- what to do where the sides of mirrors keep disks from being set up
* settle -- deciding which sides count
* reserved -- those of forthcoming instances, and what an interrupted commit has left of them
* convert -- another template
* grow, recreate, replace -- the units of these names
"""
