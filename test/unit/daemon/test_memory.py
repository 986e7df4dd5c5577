"""What many jobs have left free goes back to the system."""

from __future__ import annotations

import subprocess
import sys

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
with open("/proc/self/maps") as stream:
    heaps = sum(1 for line in stream if int(line.split()[0].partition("-")[0], 16) % (1 << 26) == 0)
full = resident()
memory.GiveBack()
print(full - resident(), heaps)
"""


def test_free_memory_below_what_is_in_use_goes_back_and_all_threads_share_one_heap() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True, timeout=50)
    freed, heaps = map(int, done.stdout.split())
    assert freed > 20_000_000
    assert heaps == 0, "a heap of a thread begins at a multiple of 64 MiB"
