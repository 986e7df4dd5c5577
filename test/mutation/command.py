"""The command line of tools/mutate."""

from __future__ import annotations

import argparse
import ast
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from support import sources

from mutation import faults, runs

# Seconds: what a fault's run may take is counted from what its tests take without a fault.
_LEAST = 20.0
_TIMES = 10.0
_MEASURE = 1800.0
_SIMULATE = 600.0
_NICE = 15
# Rooms whose survivors also have to pass a simulation: the play of tools/simulate.
_PLAYS = {"store": "store", "jqueue": "jobs"}


class Fault(NamedTuple):
    """A fault in a file of the room."""

    path: str
    tree: ast.AST
    spot: faults.Spot

    def Describe(self) -> str:
        spot = self.spot
        return f"{self.path}:{spot.first}: {spot.kind}: {_Short(spot.before)}  ->  {_Short(spot.after)}"


def _Short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 90 else text[:87] + "..."


def _Parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mutate",
        description="Plants small faults in a room, one at a time, runs the room's tests, and prints the faults that no "
        "test notices.  Works on a copy of the tree.  Ends with 1 if a fault survived.",
    )
    parser.add_argument("room", help="a folder or module of lib: store, mcpu, hypervisor/kvm, ...")
    parser.add_argument("--file", action="append", default=[], metavar="NAME", help="only this file of the room")
    parser.add_argument("--at", action="append", default=[], metavar="FILE:LINE", help="only the faults of this line")
    parser.add_argument("--kind", action="append", default=[], help="only faults of this kind, see --list")
    parser.add_argument("--sample", type=_Count, metavar="N", help="only N faults, chosen by --seed")
    parser.add_argument("--seed", type=int, default=1, help="of the sample and of the tests (default 1)")
    parser.add_argument("--list", action="store_true", help="print the faults, run nothing")
    parser.add_argument("--tests", action="append", default=[], metavar="PATH", help="these tests, not the room's own")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="time limit of one fault's run")
    parser.add_argument("--nice", type=int, default=_NICE, metavar="N", help=f"how much others go first ({_NICE})")
    parser.add_argument(
        "--simulate", type=_Count, default=100, metavar="N", help="seeds for a survivor, in a room with a play (100)"
    )
    parser.add_argument("--all", action="store_true", help="print every fault and how its run ended")
    parser.add_argument("-x", action="store_true", dest="first", help="stop at the first survivor")
    parser.add_argument("--tree", default=_Top(), help=argparse.SUPPRESS)
    return parser


def _Top() -> str:
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _Count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError
    return number


def Main(argv: Sequence[str]) -> int:
    parser = _Parser()
    options = parser.parse_args(argv)
    options.room = options.room.strip("/").removeprefix("lib/").removesuffix(".py")
    chosen = _Choose(parser, options)
    if options.list:
        for fault in chosen:
            print(fault.Describe())
        return 0
    os.environ["SEED"] = str(options.seed)
    os.nice(options.nice)
    copy = runs.Copy(options.tree)
    try:
        return _Try(parser, options, copy, chosen)
    finally:
        copy.Remove()


# --- which faults, which tests -------------------------------------------------------------------------------------------


def _Choose(parser: argparse.ArgumentParser, options: argparse.Namespace) -> list[Fault]:
    found: list[Fault] = []
    for path in _Files(parser, options):
        with open(os.path.join(options.tree, path), encoding="utf-8") as stream:
            tree = sources.Parse(stream.read(), path)
        found += [Fault(path, tree, spot) for spot in faults.Find(tree)]
    if options.at:
        found = [fault for fault in found if any(_IsAt(fault, place) for place in options.at)]
    if options.kind:
        found = [fault for fault in found if fault.spot.kind in options.kind]
    if options.sample is not None and options.sample < len(found):
        kept = sorted(random.Random(options.seed).sample(range(len(found)), options.sample))
        found = [found[index] for index in kept]
    if not found:
        parser.error(f"'{options.room}' has no place for such a fault")
    return found


def _Files(parser: argparse.ArgumentParser, options: argparse.Namespace) -> list[str]:
    base = os.path.join("lib", options.room)
    full = os.path.join(options.tree, base)
    if os.path.isfile(full + ".py"):
        return [base + ".py"]
    if not os.path.isdir(full):
        parser.error(f"there is no room '{options.room}': neither {base} nor {base}.py exists")
    files = [
        os.path.relpath(os.path.join(folder, name), options.tree)
        for folder, _, names in os.walk(full)
        for name in names
        if name.endswith(".py") and (not options.file or name.removesuffix(".py") in _Stems(options.file))
    ]
    return sorted(files)


def _Stems(names: Sequence[str]) -> set[str]:
    return {os.path.basename(name).removesuffix(".py") for name in names}


def _IsAt(fault: Fault, place: str) -> bool:
    path, _, line = place.rpartition(":")
    return fault.path.endswith("/" + path.removeprefix("lib/")) and line == str(fault.spot.first)


def _Tests(parser: argparse.ArgumentParser, options: argparse.Namespace) -> list[str]:
    """Return the folder of the room's tests: that of its own name, or of the room around it."""
    room = options.room
    while room and not options.tests:
        path = os.path.join("test", "unit", room)
        if os.path.isdir(os.path.join(options.tree, path)):
            return [path]
        room = os.path.dirname(room)
    if not options.tests:
        parser.error(f"'{options.room}' has no tests below test/unit; name some with --tests")
    return list(options.tests)


# --- one after another ---------------------------------------------------------------------------------------------------


def _Try(parser: argparse.ArgumentParser, options: argparse.Namespace, copy: runs.Copy, chosen: list[Fault]) -> int:
    tests = _Tests(parser, options)
    began = time.monotonic()
    result, baseline = copy.Measure(tests, _MEASURE)
    if result.status != 0:
        print(result.output, end="", file=sys.stderr)
        parser.exit(2, f"mutate: {' '.join(tests)} do not pass without a fault\n")
    took = time.monotonic() - began
    print(f"{len(baseline.seconds)} tests of {' '.join(tests)} in {took:.0f} s; {len(chosen)} faults", flush=True)
    ends: Counter[str] = Counter()
    for fault in chosen:
        began = time.monotonic()
        end = _End(options, copy, baseline, fault)
        ends[end] += 1
        if options.all:
            print(f"{end:9} {time.monotonic() - began:5.1f} s  {fault.Describe()}", flush=True)
        elif end in _SURVIVED:
            print(f"{fault.Describe()}  ({_SURVIVED[end]})", flush=True)
        if options.first and end in _SURVIVED:
            break
    count = sum(ends.values())
    survivors = sum(ends[end] for end in _SURVIVED)
    detail = ", ".join(f"{number} {end}" for end, number in sorted(ends.items()))
    print(f"{options.room}: {count - survivors} of {count} caught, {100 * (count - survivors) / count:.0f}%; {detail}")
    return 1 if survivors else 0


_SURVIVED = {"unseen": "no test runs this line", "survived": "survived"}


def _End(options: argparse.Namespace, copy: runs.Copy, baseline: runs.Baseline, fault: Fault) -> str:
    """Plant one fault and return how its run ended."""
    tests = baseline.TestsOf(fault.path, fault.spot.first, fault.spot.last)
    play = _PLAYS.get(options.room) if options.simulate else None
    with copy.Changed(fault.path, faults.Plant(fault.tree, fault.spot)):
        if tests:
            limit = options.limit or _LEAST + _TIMES * sum(baseline.seconds[test] for test in tests)
            status = copy.Test(tests, limit).status
            if status is None:
                return "hung"
            if status != 0:
                return "failed"
        if play and copy.Simulate([play, "--seeds", str(options.simulate)], options.limit or _SIMULATE).status != 0:
            return "simulated"
    return "survived" if tests else "unseen"
