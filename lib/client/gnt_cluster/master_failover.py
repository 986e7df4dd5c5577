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


def Run(options: Options, arguments: list[str]) -> int:
    if options.no_voting and not options.yes_do_it and not ask.Confirmed(_NO_VOTING):
        return constants.EXIT_FAILURE
    from ganeti.bootstrap import calls, failover

    ignore_offline = str(options.ignore_offline_nodes).lower() not in ("no", "false", "0")
    with calls.BootstrapRunner() as runner:
        outcome = failover.MasterFailover(runner, options.no_voting, ignore_offline)
    for warning in outcome.warnings:
        output.ToStderr(f"Warning: {warning}")
    return constants.EXIT_FAILURE if outcome.failed else constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Makes the current node the master",
    (),
    (o.NO_VOTING, o.YES_DO_IT_FAILOVER, o.IGNORE_OFFLINE_NODES),
    logs=True,
)
