"""gnt-instance shutdown: stops instances."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Options, Value
from ganeti.client.gnt_instance import many
from ganeti.client.gnt_instance.options import IGNORE_OFFLINE, NO_REMEMBER, SET_MULTI
from ganeti.opcodes import OpInstanceShutdown

TIMEOUT = Value(
    "--timeout", dest="timeout", type="int", metavar="SECONDS", default=constants.DEFAULT_SHUTDOWN_TIMEOUT,
    text="Time for a clean shutdown before the instance is killed; 0 kills it at once",
)  # fmt: skip


def Run(options: Options, arguments: list[str]) -> int:
    return many.RunOnInstances(
        "shutdown", lambda name: jobs.FromOptions(OpInstanceShutdown, options, instance_name=name), options, arguments
    )


COMMAND = Command(
    Run,
    "Stop instances",
    (AnyNumber("instance"),),
    (
        *SET_MULTI, o.FORCE.But(help="Stop it even if the instance is marked offline"), TIMEOUT, IGNORE_OFFLINE, NO_REMEMBER,
        *o.SET_JOB,
    ),
)  # fmt: skip
