"""gnt-instance failover: stops an instance and starts it on another node."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli import ask, jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.client.gnt_instance.options import CLEANUP
from ganeti.opcodes import OpInstanceFailover

_DEGRADED = (
    "The disks on the other node may be out of date or incomplete; with --ignore-consistency they will be used anyway."
    " Continue?"
)


def Run(options: Options, arguments: list[str]) -> int:
    name = arguments[0]
    if options.iallocator and options.target_node:
        raise errors.OpPrereqError("An iallocator (-I) and a target node (-n) exclude each other", errors.ECODE_INVAL)
    question = f"Instance {name} will be stopped and started again on another node. Continue?"
    if not options.force and not ask.Confirmed(question, "--force"):
        return constants.EXIT_FAILURE
    # Forced or not: this can lose data.
    if options.ignore_consistency and not ask.Confirmed(_DEGRADED):
        return constants.EXIT_FAILURE
    jobs.SubmitOrSend(jobs.FromOptions(OpInstanceFailover, options, instance_name=name), options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Stop an instance and start it on another node",
    (One("instance"),),
    (
        o.FORCE, o.IGNORE_CONSISTENCY, o.SHUTDOWN_TIMEOUT, o.TARGET_NODE, o.IALLOCATOR, o.IGNORE_IPOLICY,
        CLEANUP.But(help="Recover from a failover that was interrupted"),
        *o.SET_JOB,
    ),
    details="Mirrored disks (drbd) are used on the secondary node.  With -n and a third node they are copied there while the"
    " instance runs; the old primary's copy stays, and that of the old secondary node is removed.",
)  # fmt: skip
