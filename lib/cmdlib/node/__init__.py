"""Units of nodes.

* life -- adding, removing, power cycling
* modify -- flags, roles, addresses, parameters
* migrate -- moving away all instances of a node
* storage -- volumes and storage units of nodes
"""
