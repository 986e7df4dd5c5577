"""gnt-instance activate-disks: opens the disks without starting the instance."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli import ask, jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import COMPLETE_NODE, Flag, Options, Value
from ganeti.opcodes import OpInstanceActivateDisks

IGNORE_SIZE = Flag(
    "--ignore-size", dest="ignore_size", text="Continue even if the recorded size differs from the real one"
)
BEHIND = Value(
    "--behind",
    dest="behind",
    metavar="NODE",
    completion=COMPLETE_NODE,
    text="Give up what only the copies on this secondary node have, and fill them again; ends a split brain",
)
FORCE = o.FORCE.But(help="With --behind: do not ask whether to overwrite that node's copies")
IGNORE_CONSISTENCY = o.IGNORE_CONSISTENCY.But(
    help="With --behind: use the primary node's copies even if they are older, and give up what was written since"
)
WAIT_FOR_SYNC = Flag("--wait-for-sync", dest="wait_for_sync", text="Wait until mirrors are in sync")
_OVERWRITTEN = (
    "What only the copies on node {behind} have is overwritten with what the primary node of {name} has. Continue?"
)
_LOSS = (
    "The copies on node {behind} may have writes that those on the primary node of {name} do not have; with"
    " --ignore-consistency these are lost for good. Continue?"
)


def _Agreed(options: Options, name: str) -> bool:
    if options.behind is None:
        return True
    if options.ignore_consistency:
        # Forced or not: these writes exist nowhere else.
        return ask.Confirmed(_LOSS.format(behind=options.behind, name=name))
    return options.force or ask.Confirmed(_OVERWRITTEN.format(behind=options.behind, name=name), "--force")


def Run(options: Options, arguments: list[str]) -> int:
    if options.ignore_consistency and options.behind is None:
        raise errors.OpPrereqError(
            "--ignore-consistency needs --behind, which says whose copies are given up", errors.ECODE_INVAL
        )
    if not _Agreed(options, arguments[0]):
        return constants.EXIT_FAILURE
    op = jobs.FromOptions(OpInstanceActivateDisks, options, instance_name=arguments[0])
    for node, name, path in jobs.SubmitOrSend(op, options):
        output.ToStdout(f"{node}:{name}:{path}")
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Open the disks of an instance on its nodes, and print their paths",
    (One("instance"),),
    (IGNORE_SIZE, WAIT_FOR_SYNC, BEHIND, FORCE, IGNORE_CONSISTENCY, *o.SET_SUBMIT, o.PRIORITY),
)
