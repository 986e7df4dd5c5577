"""Units and tools of instances' disks.

* generate -- disk objects out of what was asked for
* devices -- making, assembling, taking down, wiping, waiting for synchronization
* convert -- another template
* grow, recreate, replace -- the units of these names
"""
