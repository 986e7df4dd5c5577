"""The administrator's scripts before and after an opcode (doc/reference/interfaces.md c).

Pre hooks may stop the opcode, post hooks only warn.  Which scripts a node has is the node's affair: it answers rows
[script, status, output].
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ganeti import constants, errors, pathutils

if TYPE_CHECKING:
    from ganeti import objects, opcodes
    from ganeti.rpc import RpcResult

HOOKS_VERSION = 2
CONFIG_UPDATE = "config-update"

PRE = constants.HOOKS_PHASE_PRE
POST = constants.HOOKS_PHASE_POST

# (nodes, hook path, phase, environment) -> result by node
Call = Callable[[list[str], str, str, dict[str, str]], "dict[str, RpcResult]"]
Env = Mapping[str, Any]


class Unit(Protocol):
    """What the hooks need to know of a logical unit."""

    HTYPE: ClassVar[str | None]

    @property
    def HPATH(self) -> str | None: ...

    @property
    def op(self) -> opcodes.OpCode: ...

    @property
    def snapshot(self) -> objects.Snapshot: ...

    def BuildHooksEnv(self) -> dict[str, Any]: ...

    def BuildHooksNodes(self) -> tuple[Iterable[str], Iterable[str]]: ...

    def LogWarning(self, message: str, hint: str | None = None) -> None: ...


class HooksMaster:
    """Runs one opcode's hooks.  A unit without HPATH has none, but its configuration change is reported as well.

    The pre environment is built when this is made, which is after CheckPrereq; node lists are fixed then as well.
    """

    def __init__(self, call: Call, unit: Unit):
        self._call = call
        self._unit = unit
        snapshot = unit.snapshot
        self._cluster_name = snapshot.cluster.cluster_name
        self._master = snapshot.nodes[snapshot.cluster.master_node]
        self._nodes: dict[str, list[str]] = {PRE: [], POST: []}
        self._env: dict[str, str] = self._Prefixed("", {})
        if unit.HPATH is not None:
            self._env.update(self._Prefixed("", unit.BuildHooksEnv()))
            pre, post = unit.BuildHooksNodes()
            self._nodes = {PRE: _Distinct(pre), POST: _Distinct(post)}

    def RunPre(self) -> dict[str, RpcResult]:
        """Run the pre hooks; HooksAbort with [[node, script, output]] when one says no.

        A node that cannot be reached is a warning; one marked offline is not even that.
        """
        return self._RunPhase(PRE, self._nodes[PRE])

    def RunPost(self, nodes: Iterable[str] | None = None) -> dict[str, RpcResult]:
        """Run the post hooks, on ``nodes`` instead of the unit's own if given; failures are warnings."""
        return self._RunPhase(POST, self._nodes[POST] if nodes is None else _Distinct(nodes))

    def RunConfigUpdate(self) -> None:
        """Run the master's own scripts after the configuration was written; ignore the results."""
        self._RunScripts(CONFIG_UPDATE, POST, [self._master.uuid], self._env)

    # --- how ----------------------------------------------------------------------------------------------------------

    def _Prefixed(self, prefix: str, values: Env) -> dict[str, str]:
        for name in values:
            if name.startswith("GANETI_"):
                raise errors.ProgrammerError(f"hook variable {name} must be given without its prefix")
        return {f"GANETI_{prefix}{name}": str(value) for name, value in values.items()}

    def _RunPhase(self, phase: str, nodes: list[str]) -> dict[str, RpcResult]:
        if not nodes or self._unit.HPATH is None:
            return {}
        env = dict(self._env)
        if phase == POST:
            env.update(self._Prefixed("POST_", self._unit.BuildHooksEnv()))
        results = self._RunScripts(self._unit.HPATH, phase, nodes, env)
        if not results:
            message = f"Communication Failure: nothing is known of the {phase} hooks of {self._unit.HPATH}"
            if phase == PRE:
                raise errors.HooksFailure(message)
            self._unit.LogWarning(message)
            return {}
        self._Judge(phase, results)
        return results

    def _RunScripts(self, hpath: str, phase: str, nodes: list[str], env: Mapping[str, str]) -> dict[str, RpcResult]:
        full = {
            **env,
            "PATH": constants.SCRIPT_PATH,
            "GANETI_HOOKS_VERSION": str(HOOKS_VERSION),
            "GANETI_HOOKS_PHASE": phase,
            "GANETI_HOOKS_PATH": hpath,
            "GANETI_OP_CODE": self._unit.op.OP_ID,
            "GANETI_DATA_DIR": pathutils.DATA_DIR,
            "GANETI_CLUSTER": self._cluster_name,
            "GANETI_MASTER": self._master.name,
        }
        if self._unit.HTYPE is not None:
            full["GANETI_OBJECT_TYPE"] = self._unit.HTYPE
        return self._call(nodes, hpath, phase, full)

    def _Judge(self, phase: str, results: Mapping[str, RpcResult]) -> None:
        aborts = []
        for result in results.values():
            if result.offline:
                continue
            if result.fail_msg is not None:
                self._unit.LogWarning(f"Communication failure to node {result.node_name}: {result.fail_msg}")
                continue
            for script, status, output in _Rows(result):
                if status != constants.HKR_FAIL:
                    continue
                if phase == PRE:
                    aborts.append([result.node_name, script, output])
                else:
                    shown = output or "(no output)"
                    self._unit.LogWarning(f"On {result.node_name} script {script} failed, output: {shown}")
        if aborts:
            raise errors.HooksAbort(aborts)


def _Distinct(nodes: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(nodes))


def _Rows(result: RpcResult) -> list[tuple[str, int, str]]:
    """Return the rows of one node's answer; what has another shape is logged and passed over."""
    rows = []
    payload = result.payload if isinstance(result.payload, list) else [result.payload]
    for row in payload:
        if isinstance(row, list) and len(row) == 3:
            rows.append((str(row[0]), row[1], str(row[2])))
        else:
            logging.warning("Node %s answered an unknown hook row: %r", result.node_name, row)
    return rows
