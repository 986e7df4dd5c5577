"""The job queue of the master (doc/reference/jobs.md, doc/reference/locking.md 12 and 13).

::

    SubmitJob --> store: job row acknowledged --> scheduler --> worker thread --> execute (mcpu)
                                                     ^  |            |
                  filter rules, limits, dependencies-+  |            +--> store: running, success, error
                                                        |                          |
    Wait --> watches of the job <----- ticker thread <--+------- acknowledged -----+

All durable state is rows of the store: one per job (its file), one for the last id, one for the drain flag.

Glossary

* entry -- what the queue knows of a live job: its draft, its acknowledged version, its log, who waits for it
* draft -- the newest version, on its way into the store; only the committer's thread makes one
* shown, published -- the acknowledged version, which queries and waiting clients see
* transform -- a function from a job to what it becomes; runs on the newest draft
* verdict -- what filter rules and rate limits say of a job
* ticker -- the queue's own thread: time-outs, deliveries, late writing of log entries
* view -- a job as queries see it, archived ones too
"""

from ganeti.jqueue.entry import CancelJob, QueueShutdown
from ganeti.jqueue.job import FIELDS, View
from ganeti.jqueue.queue import JobQueue

__all__ = ["FIELDS", "CancelJob", "JobQueue", "QueueShutdown", "View"]
