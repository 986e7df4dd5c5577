"""What a change of a large configuration costs the committer's thread.  Run by hand: ``python test/bench/bench_config.py``.

No store and no calls: the CPU time of Prepare and Publish, of 100 and of 5000 DRBD instances on 150 nodes.  Target: at
most 1 ms more with 5000 instances than with 100.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable

_TEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(_TEST, ".."), _TEST]

from support.configwork import Work  # noqa: E402


def Cost(work: Callable[[], object], times: int) -> float:
    """The median of the CPU seconds of one call."""
    found = []
    for _ in range(times):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return sorted(found)[times // 2]


def Main() -> None:
    logging.disable(logging.CRITICAL)
    small, large = Work(100), Work(5000)
    began = time.process_time()
    large.Verify()
    print(f"{'check of everything, the first time':40} {1000 * (time.process_time() - began):8.2f} ms with 5000")
    for title, name, times in (
        ("an instance changes its state", "Switch", 200),
        ("an instance with a DRBD disk comes", "Add", 100),
        ("one comes and goes", "AddAndRemove", 100),
        ("check of everything again", "Verify", 9),
    ):
        few, many = (1000 * Cost(getattr(work, name), times) for work in (small, large))
        print(f"{title:40} {few:8.2f} ms with 100, {many:8.2f} ms with 5000 instances")


if __name__ == "__main__":
    Main()
