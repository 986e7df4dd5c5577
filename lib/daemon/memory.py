"""Keeping a process's memory out of the swap (design 2.1, "Node daemon availability")."""

from __future__ import annotations

import errno
import logging
import os

MCL_CURRENT = 1
MCL_FUTURE = 2
MCL_ONFAULT = 4


def LockMemory(on_fault: bool = False) -> bool:
    """Lock all present and future memory; return whether that worked, and log if it did not.

    The lock is not inherited by a forked child, which has to ask again.  ``on_fault``: pages are locked as they come in
    instead of all at once.  A child wants that: what it shares with its locked parent is in memory anyway, and asking for
    everything at once would copy it all.
    """
    import ctypes

    flags = MCL_CURRENT | MCL_FUTURE
    libc = ctypes.CDLL(None, use_errno=True)
    if on_fault and libc.mlockall(flags | MCL_ONFAULT) == 0:
        return True
    # Kernels before 4.4 do not know MCL_ONFAULT.
    if (not on_fault or ctypes.get_errno() == errno.EINVAL) and libc.mlockall(flags) == 0:
        return True
    logging.error("Cannot lock memory: %s; noded may not answer while the node swaps", os.strerror(ctypes.get_errno()))
    return False
