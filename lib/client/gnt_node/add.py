"""gnt-node add."""

from __future__ import annotations

from ganeti import constants, errors, hosts
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.client.shared import typed
from ganeti.client.shared.rows import QueryNamed
from ganeti.luxi.client import Client
from ganeti.opcodes import OpNodeAdd


def _CheckKnown(client: Client, name: str, options: Options) -> str | None:
    """Whether the node may be added, or added again; returns its secondary address in the latter case."""
    known = QueryNamed(client, "node", ["name", "sip", "master"], [name])
    if options.readd:
        if not known:
            raise errors.OpPrereqError(f"Node {name} not in the cluster - use without '--readd'", errors.ECODE_NOENT)
        if known[0]["master"]:
            raise errors.OpPrereqError(f"Node {name} is the master, cannot readd", errors.ECODE_STATE)
        return str(known[0]["sip"])
    if known:
        raise errors.OpPrereqError(
            f"Node {name} already in the cluster (try '--readd' to refresh it)", errors.ECODE_EXISTS
        )
    secondary: str | None = options.secondary_ip
    return secondary


def Run(options: Options, arguments: list[str]) -> int:
    client = jobs.GetClient()
    name = hosts.Lookup(arguments[0]).name
    secondary_ip = _CheckKnown(client, name, options)
    (manages_ssh,) = client.QueryConfigValues(["modify_ssh_setup"])
    if options.force_join:
        output.ToStderr("--force-join is not supported and has no effect")
    if options.node_setup:
        raise errors.OpPrereqError(
            f"{name} must be set up before it is added",
            errors.ECODE_STATE,
            hint=f"run 'node-daemon-setup' on {name} and give it the output of 'gnt-node show-join-data {name}', then"
            f" 'gnt-node add --no-node-setup {name}'",
        )
    output.ToStdout("The node is expected to be set up already (--no-node-setup).")
    op = OpNodeAdd(
        node_name=name,
        secondary_ip=secondary_ip,
        readd=options.readd,
        group=options.nodegroup,
        master_capable=options.master_capable,
        vm_capable=options.vm_capable,
        ndparams=typed.Node(options.ndparams),
        hv_state=typed.HypervisorState(options.hv_state),
        disk_state=typed.DiskState(options.disk_state),
        node_setup=bool(manages_ssh),
    )
    jobs.SubmitOpCode(op, options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Adds a node to the cluster",
    (One("host"),),
    (
        *o.SET_PRIORITY, o.SECONDARY_IP, o.READD, o.NO_SSH_KEY_CHECK, o.FORCE_JOIN, o.NO_NODE_SETUP, o.VERBOSE, o.NODE_GROUP,
        o.MASTER_CAPABLE, o.VM_CAPABLE, o.NODE_PARAMETERS, o.HYPERVISOR_STATE, o.DISK_STATE,
    ),
)  # fmt: skip
