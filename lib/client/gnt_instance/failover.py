"""gnt-instance failover: stops an instance and starts it on another node."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli import ask, jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.opcodes import OpInstanceFailover

_DEGRADED = (
    "The data on the other node may be old or incomplete: with --ignore-consistency it is used all the same. Do you really"
    " want that?"
)


def Run(options: Options, arguments: list[str]) -> int:
    name = arguments[0]
    if options.iallocator and options.dst_node:
        raise errors.OpPrereqError("An iallocator (-I) and a target node (-n) exclude each other", errors.ECODE_INVAL)
    question = f"Instance {name} will be stopped and started again on another node. Continue?"
    if not options.force and not ask.Confirmed(question):
        return constants.EXIT_FAILURE
    # Forced or not: this one can cost data.
    if options.ignore_consistency and not ask.Confirmed(_DEGRADED):
        return constants.EXIT_FAILURE
    op = OpInstanceFailover(
        instance_name=name,
        ignore_consistency=options.ignore_consistency,
        shutdown_timeout=options.shutdown_timeout,
        iallocator=options.iallocator,
        target_node=options.dst_node,
        ignore_ipolicy=options.ignore_ipolicy,
        cleanup=options.cleanup,
    )
    jobs.SubmitOrSend(op, options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Stops the instance, changes its primary node to another one, and starts it there",
    (One("instance"),),
    (
        o.FORCE,
        o.IGNORE_CONSISTENCY,
        o.SHUTDOWN_TIMEOUT,
        o.TARGET_NODE,
        o.IALLOCATOR,
        o.IGNORE_IPOLICY,
        o.CLEANUP,
        *o.SET_JOB,
    ),
)
