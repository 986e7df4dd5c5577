"""gnt-cluster master-failover: makes the node on which it is run the master."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import ask, output
from ganeti.cli import options as o
from ganeti.cli.command import Command
from ganeti.cli.parser import Options

_NO_VOTING = (
    "This will perform the failover without asking the other nodes who the master is. Nodes that do not answer must be off,"
    " and stay off until this master has reached them: a change that only they have is given up. Continue?"
)
_RUNNING = (
    "{silence}.\n{names} ARE RUNNING: they accept connections and do not answer this node. If one of them is the master, or"
    " follows one, there will be two masters that start the same instances twice and destroy their disks. Switch these"
    " machines off first. Continue only if you know why none of them can belong to another master. Continue?"
)


def Run(options: Options, arguments: list[str]) -> int:
    if options.no_voting and not options.yes_do_it and not ask.Confirmed(_NO_VOTING, "--yes-do-it"):
        return constants.EXIT_FAILURE
    from ganeti.bootstrap import calls, failover

    ignore_offline = str(options.ignore_offline_nodes).lower() not in ("no", "false", "0")
    with calls.BootstrapRunner() as runner:
        running: list[str] = []
        if options.no_voting:
            running, silence = failover.RunningNodes(runner)
            # --yes-do-it speaks of nodes that are off, not of these.
            if running and not ask.Confirmed(_RUNNING.format(silence=silence, names=", ".join(running))):
                output.ToStderr("Nothing was changed.")
                return constants.EXIT_FAILURE
        choices = failover.Choices(options.no_voting, ignore_offline, options.abort_jobs, running)
        outcome = failover.MasterFailover(runner, choices)
    for warning in outcome.warnings:
        output.ToStderr(f"Warning: {warning}")
    return constants.EXIT_FAILURE if outcome.failed else constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Make this node the master; run it on a master candidate",
    (),
    (o.NO_VOTING, o.YES_DO_IT_FAILOVER, o.IGNORE_OFFLINE_NODES, o.ABORT_JOBS),
    logs=True,
)
