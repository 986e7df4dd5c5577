"""What can be asked: fields of every kind of object, and filters over them; pure, no I/O.

::

    text --(query.text)--> JSON filter --(query.filters)--> test
    fields + filter + snapshot --(query.engine.Plan)--> items and live parts still needed
    plan + live data --> rows of [status, value]

Glossary

* kind -- node, instance, group, network, job, lock, filter, export, cluster, os, extstorage
* live -- known to the nodes only (or to the lock monitor), collected when asked for
* status -- whether a value is normal, unknown, not available, or on an offline node
"""
