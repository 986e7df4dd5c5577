"""What becomes of a solution: sets of jobs, commands and opcodes (doc/reference/htools.md 9)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ganeti.htools.choosing.balance import Step
from ganeti.htools.model.entities import NO_NODE, Instance
from ganeti.htools.model.moves import Kind, Move

STOP_FILE: Final = "/tmp/stop-htools"  # noqa: S108 - where scripts of all releases look

_FAILOVER, _REPLACE = "failover", "replace"
_PARTS: Final = {
    Kind.FAILOVER: (_FAILOVER,),
    Kind.FAILOVER_TO_ANY: (_FAILOVER,),
    Kind.REPLACE_SECONDARY: (_REPLACE,),
    Kind.REPLACE_AND_FAILOVER: (_REPLACE, _FAILOVER),
    Kind.FAILOVER_AND_REPLACE: (_FAILOVER, _REPLACE),
    Kind.REPLACE_PRIMARY: (_FAILOVER, _REPLACE, _FAILOVER),
}


def InvolvedNodes(before: Instance, after: Instance) -> list[int]:
    """Return the new nodes of an instance and its old ones, each once."""
    nodes = (after.primary, after.secondary, *before.nodes)
    return [node for node in dict.fromkeys(nodes) if node != NO_NODE]


def JobSets(steps: Sequence[Step]) -> list[list[Step]]:
    """Return the steps in sets whose moves touch different nodes; grouped from the last step on."""
    sets: list[list[Step]] = []
    busy: set[int] = set()
    for step in reversed(steps):
        nodes = set(InvolvedNodes(step.instance, step.moved))
        if not sets or busy & nodes:
            sets.insert(0, [])
            busy = set()
        sets[0].insert(0, step)
        busy |= nodes
    return sets


def Code(move: Move, alias: str) -> str:
    """Return a move as solution lines show it; ``alias``: of the target."""
    return move.kind.value.format(alias)


def Commands(inst: Instance, name: str, move: Move, target: str) -> list[str]:
    """Return the commands of a move, without ``gnt-instance``."""
    verb = "migrate" if inst.running else "failover"
    to = f"-n {target} " if move.kind is Kind.FAILOVER_TO_ANY else ""
    texts = {_FAILOVER: f"{verb} -f {to}{name}", _REPLACE: f"replace-disks -n {target} {name}"}
    return [texts[part] for part in _PARTS[move.kind]]


def CommandLines(sets: Sequence[Sequence[tuple[Step, Sequence[str]]]]) -> list[str]:
    """Return the printed list of job sets, each step with its commands."""
    lines = []
    for number, jobs in enumerate(sets, 1):
        lines += ["", f"echo jobset {number}, {len(jobs)} jobs"]
        for place, (_, commands) in enumerate(jobs, 1):
            lines += [f"  echo job {number}/{place}", "  check"]
            lines += [f"  gnt-instance {command}" for command in commands]
    return lines


def Script(lines: Iterable[str]) -> str:
    """Return the shell script that runs a list of job sets."""
    head = f"""#!/bin/sh
# Moves instances to balance the cluster; it ends at the first command that fails.
# To have it end before the next job: touch {STOP_FILE}
set -e

check() {{
  if [ -f {STOP_FILE} ]; then
    echo "{STOP_FILE} exists, ending here"
    exit 0
  fi
}}
"""
    return head + "\n".join(lines) + "\n"


def Opcodes(inst: Instance, move: Move, target: str) -> list[dict[str, Any]]:
    """Return the opcodes of a move as LUXI takes them; ``target``: name of the node."""
    makers = {_FAILOVER: _MoveOpcode, _REPLACE: _NewSecondaryOpcode}
    return [makers[part](inst, move, target) for part in _PARTS[move.kind]]


def _MoveOpcode(inst: Instance, move: Move, target: str) -> dict[str, Any]:
    to = {"target_node": target} if move.kind is Kind.FAILOVER_TO_ANY else {}
    if inst.forthcoming:
        return FailoverOpcode(inst.name, **to)
    return {
        "OP_ID": "OP_INSTANCE_MIGRATE",
        "instance_name": inst.name,
        **to,
        "allow_runtime_changes": False,
        "ignore_ipolicy": False,
        "cleanup": False,
        "allow_failover": True,
        "ignore_hvversions": True,
    }


def _NewSecondaryOpcode(inst: Instance, _move: Move, target: str) -> dict[str, Any]:
    return ReplaceOpcode(inst.name, remote_node=target)


def FailoverOpcode(instance: str, **to: str) -> dict[str, Any]:
    """Return the opcode of a failover; ``to``: the target, where there is a choice."""
    return {
        "OP_ID": "OP_INSTANCE_FAILOVER",
        "instance_name": instance,
        "shutdown_timeout": 120,
        "ignore_consistency": False,
        **to,
        "ignore_ipolicy": False,
        "cleanup": False,
    }


def ReplaceOpcode(instance: str, **by: str) -> dict[str, Any]:
    """Return the opcode that gives an instance another secondary; ``by``: the node, or the allocator that chooses it."""
    return {
        "OP_ID": "OP_INSTANCE_REPLACE_DISKS",
        "instance_name": instance,
        "early_release": False,
        "ignore_ipolicy": False,
        "mode": "replace_new_secondary",
        "disks": [],
        **by,
    }
