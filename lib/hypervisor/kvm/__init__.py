"""QEMU, with KVM or without.

::

    driver.KvmHypervisor            the contract of hypervisor.base
       |-- caps      what this QEMU binary can do          (asked over QMP once per binary)
       |-- probe     does KVM really run guests here?      (a boot sector that counts)
       |-- cmdline, devices, display, options              the command line: pure
       |-- network   taps, bridges, routes                 (ip, bridge, ovs-vsctl)
       |-- confine   users of the uid pool, chroots
       |-- runfile   what a guest was started with         (also what a migration carries)
       |-- screen, tuning                                  VNC and SPICE; which processors
       |-- incoming  what the target of a migration takes from its source
       |-- migration, hotplug                              over a running guest's QMP
       |-- layout    files, sockets, processes
       `-- qmp       the machine protocol                  (library qemu.qmp)

A guest starts held: taps are set up, QEMU is started with ``-S`` and becomes a daemon once everything is open, then
passwords, pinning and memory are set over QMP, and the guest is let go.  A running guest is known by its pid file and
by the command line of that process; its state comes from QMP and nowhere else.

Glossary

* saved part, local part -- of a command line: what the guest sees, and what belongs to this node (``cmdline``)
* hvinfo -- how one device was plugged: driver, id, bus, address; kept so that a migration or a reboot repeats it
* runtime file -- RUN/kvm-hypervisor/conf/NAME.runtime
"""
