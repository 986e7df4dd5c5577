"""A mirrored guest whose machines, link and master fail: what is acknowledged stays, and every guest ends up running.

    kernel   the two halves of a mirror as the kernel keeps them (doc/design-drbd.rst)
    driver   what the node daemon of a host makes its half do
    faults   what fails
    run      one run: administrators work while faults strike
    groups   volume groups that lose a disk below one side, and are repaired
    bugs, groupbugs   planted bugs that must be found

Hosts, calls and the master are those of ``simulation.migration``.
"""
