"""ganeti-watcher: keeps running what should run, every five minutes (doc/reference/tools.md 2).

::

    main --> guard     not in a cluster, paused, or another program stops daemons: end
         --> whole     every node: start its daemons (services), hooks, old keys of transfers, nodehealth
               |       master:     RAPI lives?, archive jobs, then one process for each group
               '--> group   rows from the master --> busy       which instances a job has, or is about to have
                               |                 --> decisions  what to start, clean up, leave alone: pure functions
                               |--> state        tries and boot ids, DATA/watcher.UUID.data
                               |--> status       RUN/instance-status
                               |--> verifydisks  one job, and activation of what it reports
                               '--> volumerepair repairs groups that have lost a disk; volumegroups: what it remembers of them

Glossary

* try -- a job submitted to start an instance, or to clean up after its user; five, then the watcher gives up
* busy -- locked by a job, named by one that has not ended, or by one that ended during this run
* boot id -- changes with every boot of a node; a new one means that its disks must be activated again

The watcher submits jobs and does not wait for them; how they end stands in the job queue (D20-LOG-05).
"""
