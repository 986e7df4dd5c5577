"""gnt-node modify."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import ask, jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options, Value
from ganeti.client.gnt_node.options import AUTO_PROMOTE, MASTER_CAPABLE, VM_CAPABLE
from ganeti.client.shared import typed
from ganeti.client.shared.changes import PrintChanges
from ganeti.opcodes import OpNodeSetParams

MASTER_CANDIDATE = Value(
    "-C", "--master-candidate", dest="master_candidate", type="bool", text="Whether the node is a master candidate"
)
DRAINED = Value(
    "-D", "--drained", dest="drained", type="bool", text="Whether the node is drained: it gets no new instances"
)
OFFLINE = Value(
    "-O", "--offline", dest="offline", type="bool", text="Whether the node is offline: it is not contacted at all"
)
NODE_POWERED = Value("--node-powered", dest="powered", type="bool", text="Whether the node is recorded as powered on")

_ONLINE_QUESTION = (
    "Node {} will be marked online as it is. Instances that were failed over may still run on it. If its disk was replaced or"
    " restored, or it was installed anew, use 'gnt-node add --readd {}' instead. Continue?"
)


def Run(options: Options, arguments: list[str]) -> int:
    name = arguments[0]
    op = jobs.FromOptions(
        OpNodeSetParams,
        options,
        node_name=name,
        ndparams=typed.Node(options.ndparams, typed.RESET),
        hv_state=typed.HypervisorState(options.hv_state),
        disk_state=typed.DiskState(options.disk_state),
    )
    # The recorded power state alone does not count as a change, as in 3.1.
    if not jobs.Changes(op, "node_name", "force", "auto_promote", "powered"):
        output.ToStderr("Please give at least one of the parameters.")
        return constants.EXIT_FAILURE
    if (
        options.offline is False
        and not options.force
        and not ask.Confirmed(_ONLINE_QUESTION.format(name, name), "--force")
    ):
        return constants.EXIT_FAILURE
    changed = PrintChanges("node", name, jobs.SubmitOrSend(op, options))
    if not changed and not options.dry_run:
        # Parameters and states are stored, but not listed; without a quorum the node was marked offline before the job started.
        unlisted = options.ndparams or options.hv_state or options.disk_state
        output.ToStdout(f"Modified node {name}" if unlisted else f"Node {name} has the requested settings.")
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Change the role and the settings of a node",
    (One("node"),),
    (
        o.FORCE, *o.SET_JOB, MASTER_CANDIDATE, DRAINED, OFFLINE, MASTER_CAPABLE, VM_CAPABLE, o.SECONDARY_IP, AUTO_PROMOTE,
        o.NODE_PARAMETERS, NODE_POWERED, o.HYPERVISOR_STATE, o.DISK_STATE,
    ),
)  # fmt: skip
