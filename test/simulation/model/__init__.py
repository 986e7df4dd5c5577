"""The store's rules as a model that is searched for counterexamples, and as the oracle of simulated runs.

::

    rules   what a node takes, who counts, who may become master     <-- doc/design-store.rst
      |-- steps, search   all states of small clusters: the rules hold, and none of them can be left out
      |-- calls           changing calls on nodes across a change of master
      `-- harness.oracle  each transaction of a simulated run must be one that the rules allow

By hand: ``python test/simulation/model/search.py all``.
"""

from __future__ import annotations
