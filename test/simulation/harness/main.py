"""The command line of tools/simulate."""

from __future__ import annotations

import argparse
import logging
import sys

from simulation.harness import bugs
from simulation.harness.cluster import Parts
from simulation.harness.run import CHANGES_PER_RUN, FAULTS_PER_RUN, Result, Run


def Describe(result: Result, events: bool) -> str:
    """What to print about a run that broke a promise."""
    lines = [f"seed {result.seed}: {result.problem}", f"  faults: {', '.join(result.faults) or 'none'}"]
    if events:
        lines += [f"  {event}" for event in result.events]
    lines.append(f"  again: tools/simulate --start {result.seed} --seeds 1 --events")
    return "\n".join(lines)


def Main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="simulate", description="Simulated clusters under faults, from seeds.")
    parser.add_argument("--seeds", type=int, default=100, help="how many runs (default 100)")
    parser.add_argument("--start", type=int, default=1, help="first seed (default 1)")
    parser.add_argument("--faults", type=int, default=FAULTS_PER_RUN, help="faults in a run")
    parser.add_argument("--changes", type=int, default=CHANGES_PER_RUN, help="changes the clients ask for in a run")
    parser.add_argument("--events", action="store_true", help="print the story of a run that broke a promise")
    parser.add_argument("--all-events", action="store_true", help="print the story of every run")
    parser.add_argument("--log", action="store_true", help="print what the daemons log")
    parser.add_argument("--bug", choices=[bug.__name__ for bug in bugs.BUGS], help="plant this bug")
    options = parser.parse_args(argv)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO if options.log else logging.CRITICAL + 1)
    parts = getattr(bugs, options.bug) if options.bug else Parts
    broken = steps = 0
    outcomes: dict[str, int] = {}
    for seed in range(options.start, options.start + options.seeds):
        result = Run(seed, parts, options.faults, options.changes)
        steps += result.steps
        for name, count in result.outcomes.items():
            outcomes[name] = outcomes.get(name, 0) + count
        if result.problem:
            broken += 1
            print(Describe(result, options.events or options.all_events), flush=True)
        elif options.all_events:
            print("\n".join(result.events), flush=True)
    told = ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()))
    print(f"{options.seeds} runs, {steps} steps; changes: {told}; broken promises: {broken}")
    return 1 if broken else 0
