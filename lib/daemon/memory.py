"""A process's memory: keeping it out of the swap (design 2.1, "Node daemon availability"), giving back what is free."""

from __future__ import annotations

import errno
import functools
import gc
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MCL_CURRENT = 1
MCL_FUTURE = 2
MCL_ONFAULT = 4

RETURNED = {"PYTHONMALLOC": "malloc", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
"""Environment in which whoever starts a daemon puts it, so that ``GiveBack`` can return what many jobs have taken.

Python's own allocator returns arenas of 1 MiB, and none in which a single object is left; the C library returns pages.  Without the
second variable each of its threads keeps pieces for itself, some in nearly every page.  Both are read before a program begins.
"""

_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_LARGE = 128 * 1024


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


def ShareArenas() -> None:
    """Let all threads allocate from one heap.

    Otherwise each fills a heap of its own, and memory that one thread frees cannot be used by the others.  Python's own lock lets one
    thread at a time allocate anyway.  Large pieces are taken from the system one by one, always: after the first that is freed the
    C library would take others of that size from the heap, where they leave holes.  Does nothing where the C library is not glibc.
    """
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_MMAP_THRESHOLD, _LARGE)


def KeepFromPrograms() -> None:
    """Have the programs that this process starts take memory as usual."""
    for name, value in RETURNED.items():
        if os.environ.get(name) == value:
            del os.environ[name]


@contextmanager
def MakingWhatStays() -> Iterator[None]:
    """Put off collections of garbage: looking at what stays again and again would take longer than to make it."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def SettingAside() -> Iterator[None]:
    """Exempt what is made here from collections of garbage for good: no other thread could work during one.

    It is still freed when nothing refers to it any longer, unless it refers to itself.
    """
    gc.collect()
    with MakingWhatStays():
        yield
        gc.freeze()


def GiveBack(collect: bool = False) -> None:
    """Return free memory in the middle of the heap to the system; the C library by itself returns only its end.

    ``collect``: with a collection of garbage before, which also frees the thousands of tuples that Python keeps for reuse.
    """
    if collect:
        gc.collect()
    trim = _Trim()
    if trim is not None:
        trim(0)


@functools.cache
def _Trim() -> Callable[[int], object] | None:
    """Return the C library's function, found once: each look for it would leave a string in Python's cache of attributes."""
    import ctypes

    return getattr(ctypes.CDLL(None), "malloc_trim", None)
