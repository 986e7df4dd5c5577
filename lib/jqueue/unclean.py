"""What an administrator can do about an opcode that was cut off with its master daemon."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ganeti import constants, renewal

if TYPE_CHECKING:
    from ganeti.jqueue.job import OpInput

TEXT = "Unclean master daemon shutdown"


def _Repeat(name: str) -> str:
    return f"see 'gnt-instance info {name}', then repeat the command"


_INSTANCE: dict[str, Callable[[str], str]] = {
    "OP_INSTANCE_MIGRATE": lambda name: f"'gnt-instance migrate --cleanup {name}' finds out where it runs",
    "OP_INSTANCE_FAILOVER": lambda name: (
        f"see 'gnt-instance info {name}', then repeat the command, or use 'gnt-instance startup {name}'"
        " if it has its new primary node already"
    ),
    "OP_INSTANCE_REMOVE": lambda name: (
        f"if 'gnt-instance info {name}' still shows it, use 'gnt-instance remove --ignore-failures {name}'"
    ),
    "OP_INSTANCE_MOVE": lambda name: (
        f"'gnt-instance info {name}' shows on which node it is, 'gnt-cluster verify' what was left on the other one; remove that,"
        " then repeat the command if need be"
    ),
    "OP_BACKUP_EXPORT": lambda name: (
        f"with --zero-free-space, first end the helper, which may run in its place: 'gnt-instance shutdown --timeout 0 {name}'; if"
        f" the instance is down, use 'gnt-instance startup {name}', after a move to another cluster only if it does not run there;"
        f" 'gnt-backup remove {name}.new' removes what has arrived; then repeat the command"
    ),
    "OP_INSTANCE_GROW_DISK": lambda name: (
        f"'gnt-instance grow-disk --absolute {name} DISK SIZE', with the size that the disk was to have, adds what is missing;"
        f" or 'gnt-cluster repair-disk-sizes {name}' records the sizes that its disks have"
    ),
    "OP_INSTANCE_REINSTALL": lambda name: (
        f"its operating system may be incomplete: repeat 'gnt-instance reinstall {name}'; if it is said to run, that is the helper of"
        f" an untrusted system, which 'gnt-instance shutdown --timeout 0 {name}' ends; of its two disks, which 'gnt-cluster verify'"
        " names, one may hold secret parameters: overwrite them before they are removed"
    ),
    **dict.fromkeys(
        (
            "OP_INSTANCE_REBOOT",
            "OP_INSTANCE_RECREATE_DISKS",
            "OP_INSTANCE_RENAME",
            "OP_INSTANCE_REPLACE_DISKS",
            "OP_INSTANCE_SET_PARAMS",
            "OP_INSTANCE_SHUTDOWN",
            "OP_INSTANCE_STARTUP",
        ),
        _Repeat,
    ),
}

_NODE: dict[str, Callable[[str], str]] = {
    "OP_NODE_ADD": lambda name: (
        f"if 'gnt-node list {name}' shows it, use 'gnt-node add --readd {name}', else repeat the command"
    ),
    "OP_NODE_REMOVE": lambda name: f"if 'gnt-node list {name}' still shows it, repeat 'gnt-node remove {name}'",
    "OP_NODE_SET_PARAMS": lambda name: f"see 'gnt-node info {name}', then repeat the command",
}


def _AfterCreation(data: Mapping[str, Any]) -> str:
    name = shlex.quote(str(data.get("instance_name") or "INSTANCE"))
    keep = ""
    if data.get("mode") == constants.CREATE_REMOTE_IMPORT:
        keep = "make sure that the other cluster still has it, as all of its data may be here; "
    return (
        f"{keep}if 'gnt-instance info {name}' shows it, remove it with 'gnt-instance remove --ignore-failures {name}'; then repeat"
        " the command"
    )


def _ContinueRenewal(data: Mapping[str, Any]) -> str:
    return f"old and new keys stay accepted; {renewal.CommandOf(data)} continues"


_OTHERS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "OP_CLUSTER_RENAME": lambda _: "see 'gnt-cluster info' and 'gnt-cluster verify', then repeat the command",
    "OP_CLUSTER_RENEW_CRYPTO": _ContinueRenewal,
    "OP_INSTANCE_CREATE": _AfterCreation,
    "OP_CLUSTER_SET_PARAMS": lambda _: "see 'gnt-cluster info', then repeat the command",
}


def Describe(op: OpInput) -> str:
    """Return the error of an opcode that was running, with the next step if there is a known one."""
    data = op.data if isinstance(op.data, dict) else {}
    step = _OTHERS[op.op_id](data) if op.op_id in _OTHERS else None
    for steps, key in ((_INSTANCE, "instance_name"), (_NODE, "node_name")):
        name = data.get(key)
        if op.op_id in steps and isinstance(name, str) and name:
            step = steps[op.op_id](shlex.quote(name))
    return f"{TEXT}; {step}" if step else TEXT
