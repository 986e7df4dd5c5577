"""What many jobs have left free goes back to the system."""

from __future__ import annotations

import os
import subprocess
import sys

from ganeti.daemon import memory

_PROGRAM = """
import threading
from ganeti.daemon import memory

def resident():
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * 4096

memory.ShareArenas()
kept = []

def work():
    blocks = [bytes(2000) for _ in range(20000)]
    kept.append(blocks[-1])  # keeps the C library from giving back the end of the heap

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()

def heaps():
    # Heaps of threads: 64 MiB at a multiple of that, in use at first and reserved after it, without a file.
    with open("/proc/self/maps") as stream:
        maps = [line.split() for line in stream]
    spans = [[int(number, 16) for number in fields[0].split("-")] for fields in maps]
    found = 0
    for (begin, end), fields, (after, last), following in zip(spans, maps, spans[1:], maps[1:]):
        reserved = (after, last, following[1]) == (end, begin + (1 << 26), "---p")
        found += begin % (1 << 26) == 0 and fields[1] == "rw-p" and len(fields) == 5 and reserved
    return found

full = resident()
memory.GiveBack()
print(full - resident(), heaps())
"""


def test_free_memory_below_what_is_in_use_goes_back_and_all_threads_share_one_heap() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True, timeout=50)
    freed, heaps = map(int, done.stdout.split())
    assert freed > 20_000_000
    assert heaps == 0


def test_without_that_each_thread_has_a_heap_of_its_own() -> None:
    program = _PROGRAM.replace("memory.ShareArenas()", "")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=50)
    assert int(done.stdout.split()[1]) > 0


def test_what_is_set_aside_is_not_looked_at_again_and_still_freed() -> None:
    program = """
import gc, weakref
from ganeti.daemon import memory
class Thing:
    pass
with memory.SettingAside():
    assert not gc.isenabled()
    thing = Thing()
looked_at = any(found is thing for found in gc.get_objects())
gone = weakref.ref(thing)
del thing
print(gc.isenabled(), looked_at, gone())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=50)
    assert done.stdout == "True False None\n"


_MANY_JOBS = """
from ganeti.daemon import memory

def resident():
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * 4096

memory.ShareArenas()
before = resident()
things = [[number, str(number)] for number in range(200_000)]
most = resident()
kept = things[::1000]
del things
memory.GiveBack(collect=True)
print(most - before, resident() - before)
"""


def _AfterManyJobs(**environment: str) -> tuple[int, int]:
    """Return how many bytes a process took for many small things, and how many it still has when few of them are left."""
    argv = [sys.executable, "-c", _MANY_JOBS]
    done = subprocess.run(
        argv, env={**os.environ, **environment}, capture_output=True, text=True, check=True, timeout=50
    )
    most, left = map(int, done.stdout.split())
    return most, left


def test_a_few_things_that_stay_do_not_keep_the_memory_of_many_that_are_gone() -> None:
    most, left = _AfterManyJobs(**memory.RETURNED)
    assert most > 20_000_000
    assert left < most / 10


def test_with_the_usual_allocator_they_do() -> None:
    most, left = _AfterManyJobs()
    assert left > most / 2


def test_programs_of_the_daemon_take_memory_as_usual() -> None:
    program = """
import subprocess
from ganeti.daemon import memory
memory.KeepFromPrograms()
print(subprocess.run(["env"], capture_output=True, text=True).stdout)
"""
    own = {**os.environ, **memory.RETURNED, "GLIBC_TUNABLES": "glibc.malloc.check=0"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=own, capture_output=True, text=True, check=True, timeout=50
    )
    assert "PYTHONMALLOC" not in done.stdout
    assert "GLIBC_TUNABLES=glibc.malloc.check=0" in done.stdout, "an administrator's own stays"
