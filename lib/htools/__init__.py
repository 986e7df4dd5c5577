"""The brain: a model of the cluster and pure functions that choose nodes on it (doc/reference/htools.md).

::

    sources: text, RAPI, LUXI, simulation, request of an allocator  --raw entities-->  loading.Build  -->  Cluster
                                                                                                              |
    model: what fits on a node, how good a state is, what a move makes of it                                  |
    choosing: allocate, balance, evacuate, ...; survival: losses of nodes, and what would help  <-------------+

    answer: an allocator's request; listing, numbers, units, options: what the programs read and write

Nothing here reads a file, a clock or a socket, and nothing is global: a state is a tuple of nodes and one of instances, and
each simulated step returns new ones.

Answers equal those of release 3.0.2 to the printed digit, so the order in which numbers are added and candidates are tried is
part of each function's contract: all loops run in increasing index order unless their docstring says otherwise.

What is fast stands apart, and says why its answers are exact: ``pairs`` (allocations), ``redundancy.Guard`` (can all nodes be
emptied?), ``bounds`` (moves that cannot be the best).

Glossary

* real -- not forthcoming: the instance exists; a forthcoming one is reserved
* shadow -- the twin of a quantity that counts forthcoming instances, too; its name ends in ``_f``
* force -- soft checks are skipped; a state that breaks a hard one cannot exist
* N+1 flag -- should one peer fail, the node could not start all instances that it is the secondary of
"""
