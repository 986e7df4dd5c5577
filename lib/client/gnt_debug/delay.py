"""gnt-debug delay: sleeps on the master and on nodes."""

from __future__ import annotations

import math

from ganeti import constants, errors
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.opcodes import OpTestDelay


def Run(options: Options, arguments: list[str]) -> int:
    try:
        duration = float(arguments[0])
    except ValueError:
        duration = math.nan
    if not math.isfinite(duration):
        raise errors.OpPrereqError(f"Invalid duration '{arguments[0]}'", errors.ECODE_INVAL)
    op = OpTestDelay(
        duration=duration,
        on_master=options.on_master,
        on_nodes=options.on_nodes,
        repeat=options.repeat,
        interruptible=options.interruptible,
        no_locks=options.no_locks,
    )
    jobs.SubmitOrSend(op, options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Executes a TestDelay opcode: sleeps for the given number of seconds",
    (One("duration"),),
    (o.NO_MASTER, o.DELAY_NODES, o.REPEAT, o.INTERRUPTIBLE, o.NO_LOCKS, *o.SET_JOB),
)
