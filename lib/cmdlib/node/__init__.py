"""Units of nodes.

* life -- adding, removing, power cycling
* switch -- the Open vSwitch of a node
* modify -- flags, roles, addresses, parameters
* migrate -- migrating all primary instances of a node
* evacuate -- moving instances, mirrors, or both off a node
* power -- out-of-band programs, restricted commands
* storage -- volumes and storage units of nodes
"""
