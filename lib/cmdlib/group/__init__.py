"""Units of node groups.

* life -- adding, removing, renaming, parameters, members
* evacuate -- moving all instances of a group to others
"""
