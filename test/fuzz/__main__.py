"""Fuzz by hand: ``PYTHONPATH=.:test .venv/bin/python -m fuzz [TARGET [ROUNDS [SEED]]]``."""

from __future__ import annotations

import sys
import time

from fuzz.target import Broken
from fuzz.targets import TARGETS


def Main(argv: list[str]) -> int:
    names = [argv[0]] if argv else list(TARGETS)
    rounds = int(argv[1]) if len(argv) > 1 else 2000
    seed = int(argv[2]) if len(argv) > 2 else 1
    code = 0
    for name in names:
        started = time.monotonic()
        try:
            with TARGETS[name]() as target:
                target.Run(rounds, seed)
        except Broken as err:
            print(f"{name}: {err}")
            code = 1
        else:
            print(f"{name}: {rounds} rounds, {time.monotonic() - started:.1f} s")
    return code


if __name__ == "__main__":
    sys.exit(Main(sys.argv[1:]))
