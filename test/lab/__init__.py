"""The laboratory: virtual machines as nodes, with real LVM and DRBD in a kernel of their own.

::

    files     kernel, ramdisk and Debian packages, fetched once and kept
    machine   one node: QEMU in software emulation, disks of its own, the machine's own system shared read-only
    agent     what runs in the node and does what it is told over a serial port
    init      the node's first program

A node sees the system of the machine it runs on, this tree included, below a layer of its own that is lost when it is
switched off; its disks are files that stay.
"""
