"""gnt-node modify."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import ask, jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.client.shared import typed
from ganeti.client.shared.changes import PrintChanges
from ganeti.opcodes import OpNodeSetParams

# Options that are a change by themselves; the recorded power state alone is none (spec/cli.md 8).
_FLAGS = ("master_candidate", "drained", "offline", "master_capable", "vm_capable", "secondary_ip")

_ONLINE_QUESTION = (
    "Setting a node online by hand is dangerous: its instances may have been started elsewhere, and its disks are out of"
    " date. 'gnt-node add --readd' is the safe way. Continue?"
)


def Run(options: Options, arguments: list[str]) -> int:
    fields = {name: getattr(options, name) for name in _FLAGS}
    fields["ndparams"] = typed.Node(options.ndparams, typed.RESET)
    fields["hv_state"] = typed.HypervisorState(options.hv_state)
    fields["disk_state"] = typed.DiskState(options.disk_state)
    given = {name: value for name, value in fields.items() if value is not None}
    if not given:
        output.ToStderr("Please give at least one of the parameters.")
        return constants.EXIT_FAILURE
    if options.offline is False and not options.force and not ask.Confirmed(_ONLINE_QUESTION):
        return constants.EXIT_FAILURE
    if options.powered is not None:
        given["powered"] = options.powered
    op = OpNodeSetParams(node_name=arguments[0], force=options.force, auto_promote=options.auto_promote, **given)
    PrintChanges("node", arguments[0], jobs.SubmitOrSend(op, options))
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Alters the parameters of a node",
    (One("node"),),
    (
        o.FORCE, *o.SET_JOB, o.MASTER_CANDIDATE, o.DRAINED, o.OFFLINE_NODE, o.MASTER_CAPABLE, o.VM_CAPABLE, o.SECONDARY_IP,
        o.AUTO_PROMOTE, o.NODE_PARAMETERS, o.NODE_POWERED, o.HYPERVISOR_STATE, o.DISK_STATE,
    ),
)  # fmt: skip
