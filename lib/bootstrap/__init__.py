"""What runs as no job: before there is a master, without one, and with the keys of this node beside one.

::

    init.InitCluster       checks, keys, first configuration, first start        gnt-cluster init
    settings.Settings      what it is to be like
    vote                   what the nodes say of the master                      masterd's start, fail-over
    failover               make this node the master                             gnt-cluster master-failover
    destroy                after the last job: stop, clean up                    gnt-cluster destroy
    join                   what a machine needs to become a node                 gnt-node show-join-data, gnt-node add
    keys                   keys, certificates and the first files of a cluster   gnt-cluster init, renew-crypto
    releases               the links to the release that is in use               gnt-cluster upgrade, gnt-node add
    daemons                start, stop and await the daemons of this node
    calls                  calls to node daemons without an epoch
    storagedirs            check, and make, what disks of a new cluster lie in   gnt-cluster init

Calls to nodes carry no epoch: only the few procedures that noded accepts without one
(doc/design-store.rst, 6).

Glossary

* vote -- a node's answer to the question who its master is; it never chooses one
* join data -- the JSON object that ``node-daemon-setup`` reads on the machine that joins
"""
