"""The configuration on the master: reading it, changing it durably, values handed out in advance.

::

    readers --> Snapshot()             acknowledged root: no lock, O(1)
    job     --> Update(obj) ... --> Change --> store: Prepare --> own disk, quorum --> Publish
                                                 |  on the newest draft root             |
    reservations: MAC, volume, secret, uuid,     |  serials, checks, ports, bits     new acknowledged root
    minor, port, address; by job                 v
                                           rows of what changed, one row of the top level

A change is a function on a ``Draft``.  It runs on the committer's thread against the newest root there is,
acknowledged or not, so that none is computed on stale data; the caller waits until the store has acknowledged it.

Glossary:

root
    an ``objects.Snapshot``: the configuration at one moment
draft
    a root under construction, with the objects that the change touched
ec_id
    execution context: the job id; what it reserved is dropped when it ends
reservation
    a value handed out to a job and not stored yet
voter
    a master candidate that is not offline: changes of who is one go through the store, one node at a time
"""

from ganeti.config.draft import Draft
from ganeti.config.writer import ConfigWriter, VotersOf

__all__ = ["ConfigWriter", "Draft", "VotersOf"]
