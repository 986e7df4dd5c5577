"""gnt-node restricted-command: runs a command that the administrator has put on the nodes."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command, One
from ganeti.cli.parser import Flag, Options
from ganeti.client.shared import remote
from ganeti.opcodes import OpRestrictedCommand

SYNC = Flag("--sync", dest="use_locking", text="Wait until no job uses the nodes, and keep jobs away meanwhile")


def Run(options: Options, arguments: list[str]) -> int:
    command, *names = arguments
    if not names and not options.group_name:
        raise errors.OpPrereqError("Node group or node names must be given", errors.ECODE_INVAL)
    nodes = [node.name for node in remote.OnlineNodes(names, options.group_name)]
    if not nodes:
        output.ToStderr("None of these nodes is online: nothing was run")
        return constants.EXIT_FAILURE
    op = jobs.FromOptions(OpRestrictedCommand, options, command=command, nodes=nodes)
    code = constants.EXIT_SUCCESS
    for name, (done, text) in zip(nodes, jobs.SubmitOrSend(op, options), strict=True):
        output.ToStdout(remote.RULE)
        if not done:
            code = constants.EXIT_FAILURE
            output.ToStdout(text)
        else:
            remote.PrintOutput(name, text, options.show_machine_names, "Node")
    return code


COMMAND = Command(
    Run,
    "Run a command that the administrator has put on the nodes",
    (One("command"), AnyNumber("node")),
    (*o.SET_SUBMIT, *o.SET_PRIORITY, SYNC, remote.SHOW_MACHINE_NAMES, o.NODE_GROUP),
    details="The command is the name of a file in the directory restricted-commands of the nodes' configuration.  File and"
    " directory must belong to root, and nobody else may write to them.  It is run without arguments and with an empty"
    " environment.  Nodes run such commands only if this was chosen when Ganeti was built.  A request that is rejected is"
    " answered after 10 seconds and without a reason; the reason is in the log of the node daemon.",
)
