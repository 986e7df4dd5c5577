"""What happens before there is a master, and without one.

::

    init.InitCluster       checks, keys, first configuration, first start        gnt-cluster init
    settings.Settings      what it is to be like
    vote                   what the nodes say of the master                      masterd's start, fail-over
    failover               make this node the master                             gnt-cluster master-failover
    destroy                after the last job: stop, clean up                    gnt-cluster destroy
    join                   what a machine needs to become a node                 gnt-node show-join-data, gnt-node add

Nothing here runs as a job.  Calls to nodes carry no epoch: only the few procedures that noded accepts without one
(doc/design-store.rst, 6).

Glossary

* vote -- a node's answer to the question who its master is; it never chooses one
* join data -- the JSON object that ``node-daemon-setup`` reads on the machine that joins
"""
