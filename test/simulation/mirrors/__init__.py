"""A mirrored guest whose machines, link and master fail: what is acknowledged stays, and nothing stands still for ever.

    kernel   the two halves of a mirror as the kernel keeps them (doc/design-drbd.rst)
    driver   the driver of the half on the host whose daemon runs
    faults   what fails
    run      one run: administrators work while faults strike
    bugs     planted bugs that must be found

Hosts, calls and the master are those of ``simulation.migration``.
"""
