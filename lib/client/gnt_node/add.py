"""gnt-node add."""

from __future__ import annotations

from ganeti import constants, errors, hosts, pathutils
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Flag, Off, Options
from ganeti.client.gnt_node.options import MASTER_CAPABLE, VM_CAPABLE
from ganeti.client.shared import typed
from ganeti.client.shared.rows import ByName, QueryRows
from ganeti.luxi.client import Client
from ganeti.opcodes import OpNodeAdd

READD = Flag("--readd", dest="readd", text="Add a node again that the cluster knows already, after a reinstallation")
NO_NODE_SETUP = Off("--no-node-setup", dest="prepare", text="The node was set up with 'node-daemon-setup' already")
NO_SSH_KEY_CHECK = Off("--no-ssh-key-check", dest="ssh_key_check", text="Do not check host keys").Hidden()
FORCE_JOIN = Flag("--force-join", dest="force_join", text="No effect").Hidden()


def _CheckKnown(client: Client, name: str, options: Options) -> str | None:
    """Check that the node may be added, or added again; return its secondary address."""
    known = QueryRows(client, "node", ["name", "sip", "master"], ByName([name]))
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
    if options.prepare:
        again = "--readd " if options.readd else ""
        raise errors.OpPrereqError(
            f"{name} must be set up before it is added",
            errors.ECODE_STATE,
            hint=f"run 'gnt-node show-join-data {name}' here, pass its output to"
            f" '{pathutils.NODE_DAEMON_SETUP}' on {name}, then run 'gnt-node add --no-node-setup {again}{name}'",
        )
    output.ToStdout("The node is expected to be set up already (--no-node-setup).")
    op = jobs.FromOptions(
        OpNodeAdd,
        options,
        node_name=name,
        secondary_ip=secondary_ip,
        group=options.group_name,
        ndparams=typed.Node(options.ndparams),
        hv_state=typed.HypervisorState(options.hv_state),
        disk_state=typed.DiskState(options.disk_state),
        node_setup=bool(manages_ssh),
    )
    jobs.SubmitOpCode(op, options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Add a machine to the cluster as a node",
    (One("host"),),
    (
        *o.SET_PRIORITY, o.SECONDARY_IP, READD, NO_SSH_KEY_CHECK, FORCE_JOIN, NO_NODE_SETUP,
        o.VERBOSE.Hidden(), o.NODE_GROUP.But(help="Node group of the new node"), MASTER_CAPABLE, VM_CAPABLE,
        o.NODE_PARAMETERS, o.HYPERVISOR_STATE, o.DISK_STATE,
    ),
    details="Prepare the machine first: run 'gnt-node show-join-data HOST' on the master node and pass its output to"
    f" '{pathutils.NODE_DAEMON_SETUP}' on the machine.  Then run 'gnt-node add --no-node-setup HOST'.",
)  # fmt: skip
