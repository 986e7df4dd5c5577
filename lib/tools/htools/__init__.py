"""The programs that choose nodes: hbal, hspace, hail and the others, over ``ganeti.htools`` (doc/reference/htools.md).

One executable plays all roles; ``main`` finds the role.  ``sources`` gets a cluster's data from wherever the options say.
"""
