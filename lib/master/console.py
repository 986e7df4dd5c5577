"""Consoles of instances: what a node answers, checked against the configuration.

The commands and addresses end in programs that run as root on the administrator's machine.  So host, port and user are
the configuration's own, and a command must be exactly the one that the instance's hypervisor needs: a node can keep its
guests' consoles from being shown, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ganeti import _autoconf, constants, errors, params, pathutils
from ganeti.params import nd
from ganeti.utils.text import Printable

if TYPE_CHECKING:
    from ganeti import objects

_MAX_MESSAGE = 1000
# The name of a socket: the instance's, or a digest where that would be too long.
_SOCKET_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,254}"


def Request(snapshot: objects.Snapshot, inst: objects.Instance) -> dict[str, Any]:
    """Return what a node needs to know to describe an instance's console."""
    node = snapshot.nodes[inst.primary_node]
    return {
        "instance": inst.ToDict(),
        "node": node.ToDict(),
        "group": snapshot.nodegroups[node.group].ToDict(),
        "hvParams": params.FillHV(snapshot, inst),
        "beParams": params.FillBE(snapshot, inst),
    }


def Checked(snapshot: objects.Snapshot, inst: objects.Instance, answer: Any) -> dict[str, Any]:
    """Return the console in a node's answer to ``Request``; OpExecError if it is not one of this instance on that node."""
    node = snapshot.nodes[inst.primary_node]
    console = answer.get(inst.name) if isinstance(answer, dict) else None
    kind = console.get("kind") if isinstance(console, dict) else None
    checked = None
    if isinstance(console, dict) and isinstance(kind, str) and kind in _KINDS:
        checked = _KINDS[kind](snapshot, inst, node, console)
    if checked is None:
        raise errors.OpExecError(
            f"Node {node.name} sent an invalid description of the console of instance {inst.name}",
            hint=f"the software or the configuration of node {node.name} differs from the master's; look at its log",
        )
    return {"instance": inst.name, "kind": kind, **checked}


_Console = Mapping[str, Any]


def _Message(
    snapshot: objects.Snapshot, inst: objects.Instance, node: objects.Node, console: _Console
) -> dict[str, Any] | None:
    del snapshot, inst, node
    message = console.get("message")
    return {"message": Printable(message[:_MAX_MESSAGE])} if isinstance(message, str) else None


def _Ssh(
    snapshot: objects.Snapshot, inst: objects.Instance, node: objects.Node, console: _Console
) -> dict[str, Any] | None:
    command = console.get("command")
    expected = _COMMANDS.get(inst.hypervisor)
    if expected is None or not isinstance(command, list) or not expected(inst, node, command):
        return None
    port = params.FillND(snapshot, node)[nd.ND_SSH_PORT]
    return {"host": node.name, "port": port, "user": _autoconf.SSH_LOGIN_USER, "command": command}


def _Screen(
    snapshot: objects.Snapshot, inst: objects.Instance, node: objects.Node, console: _Console
) -> dict[str, Any] | None:
    hvparams = params.FillHV(snapshot, inst)
    bound = hvparams.get("vnc_bind_address" if console["kind"] == "vnc" else "spice_bind")
    port = inst.network_port
    host = console.get("host")
    if not bound or port is None or host not in (node.name, bound):
        return None
    if console["kind"] == "spice":
        return {"host": host, "port": port}
    return {"host": host, "port": port, "display": port - constants.VNC_BASE_PORT}


_KINDS: dict[str, Callable[[Any, objects.Instance, objects.Node, _Console], dict[str, Any] | None]] = {
    "msg": _Message,
    "ssh": _Ssh,
    "vnc": _Screen,
    "spice": _Screen,
}


def _IsKvmCommand(inst: objects.Instance, node: objects.Node, command: list[Any]) -> bool:
    if len(command) != 6 or not all(isinstance(word, str) for word in command):
        return False
    expected = [
        pathutils.KVM_CONSOLE_WRAPPER,
        _autoconf.SOCAT_PATH,
        inst.name,
        command[3],
        constants.CONSOLE_SOCAT_OPTIONS,
        command[5],
    ]
    folder = re.escape(pathutils.ExchangeNodeRoot(node.name, pathutils.KVM_DIR + "/ctrl"))
    return (
        command == expected
        and re.fullmatch(rf"{folder}/{_SOCKET_NAME}\.qmp", command[3]) is not None
        and re.fullmatch(rf"UNIX-CONNECT:{folder}/{_SOCKET_NAME}\.serial", command[5]) is not None
    )


_COMMANDS: dict[str, Callable[[objects.Instance, objects.Node, list[Any]], bool]] = {
    constants.HT_KVM: _IsKvmCommand,
}
