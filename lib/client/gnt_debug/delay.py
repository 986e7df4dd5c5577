"""gnt-debug delay: sleeps on the master and on nodes."""

from __future__ import annotations

import math

from ganeti import constants, errors
from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import COMPLETE_NODE, Flag, Off, Options, Value, Values
from ganeti.opcodes import OpTestDelay

NODES = Values(
    "-n", dest="on_nodes", metavar="NODE", completion=COMPLETE_NODE, text="Node to sleep on; repeat it for several"
)
NO_MASTER = Off("--no-master", dest="on_master", text="Do not sleep on the master")
REPEAT = Value("-r", "--repeat", dest="repeat", type="int", default=0, metavar="NUMBER", text="How often to repeat it")
INTERRUPTIBLE = Flag(
    "-i",
    "--interruptible",
    dest="interruptible",
    text="End the delay when something connects to the socket in the job's log",
)
NO_LOCKS = Flag("-l", "--no-locks", dest="no_locks", text="Accepted and without effect: the nodes are always locked")


def Run(options: Options, arguments: list[str]) -> int:
    try:
        duration = float(arguments[0])
    except ValueError:
        duration = math.nan
    if not math.isfinite(duration):
        raise errors.OpPrereqError(f"Invalid duration '{arguments[0]}'", errors.ECODE_INVAL)
    jobs.SubmitOrSend(jobs.FromOptions(OpTestDelay, options, duration=duration), options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Run a job that sleeps for some seconds on the master, and on nodes",
    (One("duration"),),
    (NO_MASTER, NODES, REPEAT, INTERRUPTIBLE, NO_LOCKS, *o.SET_JOB),
)
