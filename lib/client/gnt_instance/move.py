"""gnt-instance move: copies the disks of an instance to another node, where it lives from then on."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import ask, jobs
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.client.shared import transferoptions
from ganeti.opcodes import OpInstanceMove


def Run(options: Options, arguments: list[str]) -> int:
    name = arguments[0]
    transferoptions.CheckTarget(options)
    question = (
        f"Instance {name} will be stopped while its disks are copied to node {options.target_node}. The old disks will"
        " be deleted afterwards. Continue?"
    )
    if not options.force and not ask.Confirmed(question, "--force"):
        return constants.EXIT_FAILURE
    jobs.SubmitOrSend(jobs.FromOptions(OpInstanceMove, options, instance_name=name), options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Stop an instance and move it to another node by copying its disks",
    (One("instance"),),
    (
        o.FORCE, transferoptions.TARGET_NODE, transferoptions.COMPRESS, o.SHUTDOWN_TIMEOUT,
        o.IGNORE_CONSISTENCY.But(help="Proceed after a failed shutdown if the instance is known to have ended"), o.IGNORE_IPOLICY, *o.SET_JOB,
    ),
    details="This is for disks that only one node has, such as those of templates plain and file; gnt-instance migrate"
    " and failover move instances whose disks other nodes have too.  If the copy fails, the instance stays where it is.",
)  # fmt: skip
