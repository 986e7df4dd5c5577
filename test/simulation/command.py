"""The command line of tools/simulate."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from simulation.harness import bugs as store_bugs
from simulation.harness import followers, jobbugs
from simulation.harness.cluster import Parts
from simulation.harness.followers import RunEvents
from simulation.harness.jobs import RunJobs
from simulation.harness.play import Describe, Result
from simulation.harness.run import Run as RunStore
from simulation.master import bugs as master_bugs
from simulation.master.parts import MasterParts
from simulation.master.run import Run as RunMaster
from simulation.migration import bugs as migration_bugs
from simulation.migration import master as migration_master
from simulation.migration.run import Run as RunMigration
from simulation.mirrors import bugs as mirror_bugs
from simulation.mirrors import groupbugs
from simulation.mirrors.groups import GroupParts
from simulation.mirrors.groups import Run as RunGroups
from simulation.mirrors.run import MirrorParts
from simulation.mirrors.run import Run as RunMirrors

from ganeti.jqueue import JobQueue
from ganeti.server.eventring import EventRing


class Play(NamedTuple):
    """Something to simulate: ``run(seed, parts, **options)``, what it is made of, and how that can be broken."""

    run: Callable[..., Result]
    parts: type[Any]
    bugs: Sequence[type[Any]]
    help: str


PLAYS = {
    "master": Play(RunMaster, MasterParts, master_bugs.BUGS, "whole masters: clients, jobs, calls to nodes (default)"),
    "store": Play(RunStore, Parts, store_bugs.ALL_BUGS, "the store alone: many more changes of masters and voters"),
    "migration": Play(
        RunMigration, migration_master.Parts, migration_bugs.BUGS, "migrations between hosts that die and hang"
    ),
    "mirrors": Play(RunMirrors, MirrorParts, mirror_bugs.BUGS, "mirrors whose link, machines and master fail"),
    "groups": Play(RunGroups, GroupParts, groupbugs.BUGS, "volume groups that are repaired below mirrors"),
    "jobs": Play(RunJobs, JobQueue, jobbugs.BUGS, "the job queue on the store, with jobs that do nothing"),
    "events": Play(RunEvents, EventRing, followers.BUGS, "clients that follow the events of masters that come and go"),
}


def _Parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="simulate",
        description="Simulated clusters under faults; the same seed gives the same run.  Ends with 1 if a promise was broken.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(
            [f"{name:10}{play.help}\n        bugs: {', '.join(_Names(play))}" for name, play in PLAYS.items()]
        ),
    )
    parser.add_argument("what", nargs="?", choices=list(PLAYS), default="master", help="what is played, see below")
    parser.add_argument("--seeds", type=_Count, default=100, metavar="N", help="how many runs (default 100)")
    parser.add_argument("--start", type=int, default=1, metavar="SEED", help="first seed (default 1)")
    parser.add_argument("--faults", type=_Count, metavar="N", help="faults in a run")
    parser.add_argument("--events", action="store_true", help="print the story of a run that broke a promise")
    parser.add_argument("--all-events", action="store_true", help="print the story of every run")
    parser.add_argument("--log", action="store_true", help="print what the daemons log")
    parser.add_argument("--bug", metavar="NAME", help="plant this bug")
    return parser


def _Count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError
    return number


def _Names(play: Play) -> list[str]:
    return [bug.__name__ for bug in play.bugs]


def Main(argv: list[str]) -> int:
    parser = _Parser()
    options = parser.parse_args(argv)
    play = PLAYS[options.what]
    if options.bug is not None and options.bug not in _Names(play):
        parser.error(f"{options.what} knows no bug '{options.bug}'; there are {', '.join(_Names(play))}")
    parts = next((bug for bug in play.bugs if bug.__name__ == options.bug), play.parts)
    more = {} if options.faults is None else {"faults": options.faults}
    logging.basicConfig(stream=sys.stderr, level=logging.INFO if options.log else logging.CRITICAL + 1)
    broken = steps = 0
    outcomes: Counter[str] = Counter()
    began = time.process_time()
    for seed in range(options.start, options.start + options.seeds):
        result = play.run(seed, parts, **more)
        steps += result.steps
        outcomes.update(result.outcomes)
        if result.problem:
            broken += 1
            print(Describe(options.what, result, options.events or options.all_events), flush=True)
        elif options.all_events:
            print("\n".join(result.events), flush=True)
    told = ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()))
    cpu = (time.process_time() - began) / max(options.seeds, 1)
    print(f"{options.seeds} runs, {steps} steps, {cpu:.2f} s of CPU each; {told}; broken promises: {broken}")
    return 1 if broken else 0
