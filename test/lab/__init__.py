"""The laboratory: virtual machines as nodes, with real LVM and DRBD in a kernel of their own.

::

    run       the command: stories by name, or a cluster to look around in (test/lab/run --help)
    stories   what is done to a cluster, and what must be true afterwards
    stage     what stories share: instances, power, whether volumes, mirrors and the configuration agree
    writes    whether each write that a guest was promised is on its disk; inside/writer.py and guest.asm are guests
    cluster   nodes with this tree installed, joined by gnt-cluster init and gnt-node add
    site      machines with an SSH daemon that are in no cluster: virtual, or light
    readme    what the README's commands install
    light     a machine made of namespaces, with processes, network and disk of its own, in a second
    machine   one node: QEMU in software emulation, disks of its own, the machine's own system shared read-only
    switch    the networks between nodes, whose links can be cut, one-way or slow
    agent     what runs in the node and does what it is asked over a serial port
    init      the node's first program
    files     kernel, ramdisk and Debian packages, fetched once and kept; this tree as it is installed

A node sees the system of the machine it runs on, below a layer of its own that is lost when it is switched off.  Its
disks stay, and so does what a node must remember: /etc/ganeti, /etc/ssh, /root/.ssh, /var/lib/ganeti and /var/log/ganeti are
on a disk.

``test_stories.py`` plays a sample of the stories on two nodes, chosen by the commit and SEED.  ``test/lab/run --all`` plays all
of them, with ``--nodes 3`` also those that need a third node.  Stories of machines that become a cluster begin with three new
ones each; ``--light`` tells them in namespaces, ``--as-readme`` installs what the README says.
"""
