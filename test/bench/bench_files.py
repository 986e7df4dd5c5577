"""Measure what it costs to write files that survive a power failure, one at a time and many together.

Run by hand from the top of the tree: ``python test/bench/bench_files.py [FOLDER]``; the folder decides on which file system.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))

from ganeti import runtime

SIZE = 900
TOGETHER = (1, 10, 50, 200)
_ALL = 400


def _Cost(work: Callable[[], None]) -> tuple[float, float]:
    """Return seconds and seconds of CPU."""
    cpu, began = time.process_time(), time.perf_counter()
    work()
    return time.perf_counter() - began, time.process_time() - cpu


def Measure(folder: str, together: int) -> tuple[float, float]:
    """Write files in groups; return milliseconds and milliseconds of CPU for each."""
    groups = [range(start, start + together) for start in range(0, _ALL, together)]
    spent = cpu = 0.0
    for group in groups:
        files = [runtime.NewFile(os.path.join(folder, f"job-{number}"), bytes(SIZE)) for number in group]
        more, more_cpu = _Cost(lambda files=files: runtime.WriteFiles(files))  # type: ignore[misc]
        spent, cpu = spent + more, cpu + more_cpu
    return 1000 * spent / _ALL, 1000 * cpu / _ALL


def Main() -> None:
    for together in TOGETHER:
        with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
            spent, cpu = Measure(folder, together)
            print(f"{together:4} at a time: {spent:6.2f} ms a file, {cpu:6.2f} ms of CPU")


if __name__ == "__main__":
    Main()
