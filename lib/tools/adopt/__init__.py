"""adopt: takes a running cluster of the original (2.16, 3.0, 3.1) over while its instances run, and hands it back.

::

    main       command line, and the question before anything changes
    plan       what would happen and what stands in the way, out of what the nodes report (no I/O)
    takeover   the steps, each with its way back; the journal
    remote     one step on many nodes at once, over SSH
    answers    the shapes of what the nodes reply
    node       what one node does: this program there, with a step on its standard input
    records    owners and modes as they were found
    watching   whether a run of the watcher is at work
    boot       what the machine starts by itself: cron table, units of systemd
    release    programs of either release

The original stays installed, beside this release: so each side can be stopped and started by its own programs.
``doc/adopting.rst`` is the administrator's page.

Glossary:

original
    the release that the cluster ran before; its programs lie below a prefix of their own
record
    on each node: what was found there before anything changed
journal
    on the master: which steps are done; what a run that was cut off is continued from
"""
