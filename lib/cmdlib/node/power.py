"""The power of nodes, over their out-of-band programs (doc/reference/drivers.md d.7, interfaces.md g.4)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from ganeti import constants, errors, locking, objects, opcodes, params
from ganeti.cmdlib.base import Feedback, Filled, NoHooksLU
from ganeti.cmdlib.common import ExpandNode, StillThere
from ganeti.params import nd
from ganeti.utils import oob
from ganeti.utils.text import NiceSortKey

# What must not hit the machine on which it runs.
_NOT_FOR_MASTER = (oob.POWER_OFF, oob.POWER_CYCLE)

Entry = list[list[Any]]


def OobProgram(snapshot: objects.Snapshot, node: objects.Node) -> str:
    """Return the path of the program of a node; empty if it has none."""
    program: str = params.FillND(snapshot, node)[nd.ND_OOB_PROGRAM]
    return program


class LUOobCommand(NoHooksLU[opcodes.OpOobCommand]):
    """Runs the out-of-band programs of nodes, one after the other, on the master node."""

    REQ_BGL = False
    NAL_MODE_DIFFERS = True

    def CheckArguments(self) -> None:
        oob.CheckLimits(self.op.timeout, self.op.power_delay)

    def ExpandNames(self) -> None:
        nodes = [ExpandNode(self.snapshot, name) for name in self.op.node_names]
        self._named = bool(nodes)
        self.share_locks[locking.LEVEL_NODE_ALLOC] = 1
        if nodes:
            self.op.node_names = list(dict.fromkeys(node.name for node in nodes))
            self.op.node_uuids = list(dict.fromkeys(node.uuid for node in nodes))
            self.needed_locks = {locking.LEVEL_NODE: list(self.op.node_uuids)}
        else:
            self.op.node_uuids = None
            self.needed_locks = dict.fromkeys((locking.LEVEL_NODE_ALLOC, locking.LEVEL_NODE), locking.ALL_SET)

    def NodesToConfirm(self) -> set[str]:
        # The programs run on the master node; the others may be dead, which is why somebody wants to switch them on.
        return set()

    def CheckPrereq(self) -> None:
        snapshot = self.snapshot
        master = snapshot.nodes[snapshot.cluster.master_node]
        if self._named:
            asked = zip(Filled(self.op.node_uuids), self.op.node_names, strict=True)
            nodes = [StillThere(snapshot.nodes.get(uuid), "Node", name) for uuid, name in asked]
        else:
            nodes = list(snapshot.nodes.values())
        if self.op.command in _NOT_FOR_MASTER and master in nodes:
            if self._named:
                raise oob.MasterRefusal(OobProgram(snapshot, master), self.op.command, master.name)
            self.LogWarning(f"Node {master.name} is the master, it is left out of {self.op.command}")
            nodes.remove(master)
        if self.op.command == oob.POWER_OFF and not self.op.ignore_status:
            for node in nodes:
                if not node.offline:
                    raise errors.OpPrereqError(
                        f"Cannot power off node {node.name} because it is not marked offline",
                        errors.ECODE_STATE,
                        hint=f"'gnt-node modify --offline=yes {node.name}' marks it; with ignore_status (--ignore-status) it is"
                        " switched off nevertheless",
                    )
        self._nodes = sorted(nodes, key=lambda node: NiceSortKey(node.name))

    # --- doing it ---------------------------------------------------------------------------------------------------------

    def Exec(self, feedback: Feedback) -> list[Entry]:
        able = [node for node in self._nodes if OobProgram(self.snapshot, node)]
        if self.op.command == oob.POWER_OFF:
            # Recorded first: without the nodes that go, too few voters may be left to record anything.
            self._Record(able, False)
        last = able[-1] if able else None
        entries: list[Entry] = []
        failed = []
        for node in self._nodes:
            name: list[Any] = [constants.RS_NORMAL, node.name]
            if node not in able:
                entries.append([name, [constants.RS_UNAVAIL, None]])
                continue
            done, answer = self._Operate(node, feedback)
            entries.append([name, [constants.RS_NORMAL if done else constants.RS_NODATA, answer]])
            if not done:
                failed.append(node)
            elif self.op.command == oob.POWER_ON:
                self._Record([node], True)
                if node is not last and self.op.power_delay:
                    self.Pause(self.op.power_delay)
        if self.op.command == oob.POWER_OFF:
            self._Record([node for node in failed if node.powered], True)
        return entries

    def _Operate(self, node: objects.Node, feedback: Feedback) -> tuple[bool, Any]:
        """Run the program of one node; return (whether it succeeded, its answer)."""
        command, program = self.op.command, OobProgram(self.snapshot, node)
        logging.info("Executing out-of-band command %s with %s on %s", command, program, node.name)
        result = self.rpc.call_run_oob(self.snapshot.cluster.master_node, program, command, node.name, self.op.timeout)
        if result.fail_msg:
            self.LogWarning(f"Out-of-band RPC failed on node '{node.name}': {result.fail_msg}")
            return False, None
        problem = oob.AnswerProblem(command, result.payload)
        if problem:
            typed = oob.CommandLine(program, command, node.name)
            self.LogWarning(f"Payload returned by node '{node.name}' is not valid: {problem}", hint=f"run '{typed}'")
            return False, None
        if command in (oob.POWER_ON, oob.POWER_OFF, oob.POWER_CYCLE):
            feedback(f"Node {node.name}: {command} succeeded")
        elif command == oob.HEALTH:
            for item, status in result.payload:
                if status in ("WARNING", "CRITICAL"):
                    self.LogWarning(f"Item '{item}' on node '{node.name}' has status '{status}'")
        elif result.payload["powered"] != node.powered:
            self.LogWarning(
                f"Node '{node.name}' is {_Word(result.payload['powered'])}, but recorded as {_Word(node.powered)}",
                hint=f"'gnt-node power {'on' if result.payload['powered'] else '--ignore-status off'} {node.name}' makes"
                " the record true",
            )
        return True, result.payload

    def _Record(self, nodes: Iterable[objects.Node], powered: bool) -> None:
        stored = [self.snapshot.nodes[node.uuid] for node in nodes]
        if stored:
            self.cfg.UpdateMany([node.Replace(powered=powered) for node in stored], self.ec_id)


def _Word(powered: bool) -> str:
    return "powered" if powered else "unpowered"


class LURestrictedCommand(NoHooksLU[opcodes.OpRestrictedCommand]):
    """Runs a command that the administrator has put on the nodes, by its name and without arguments."""

    REQ_BGL = False

    def ExpandNames(self) -> None:
        if not self.op.nodes:
            raise errors.OpPrereqError("A restricted command needs the names of nodes", errors.ECODE_INVAL)
        nodes = [ExpandNode(self.snapshot, name) for name in self.op.nodes]
        self.op.nodes = list(dict.fromkeys(node.name for node in nodes))
        self.op.node_uuids = list(dict.fromkeys(node.uuid for node in nodes))
        self.needed_locks = {locking.LEVEL_NODE: list(self.op.node_uuids)}
        for level in (locking.LEVEL_NODE_ALLOC, locking.LEVEL_NODE):
            self.share_locks[level] = int(not self.op.use_locking)

    def NodesToConfirm(self) -> set[str]:
        # Each node is asked on its own, rejects an old master, and one that is silent must not stop the others.
        return set()

    def Exec(self, feedback: Feedback) -> list[list[Any]]:
        uuids = Filled(self.op.node_uuids)
        results = self.rpc.call_restricted_command(uuids, self.op.command)
        answers: list[list[Any]] = []
        for uuid, name in zip(uuids, self.op.nodes, strict=True):
            result = results[uuid]
            if result.fail_msg:
                text = f"Command '{self.op.command}' on node '{name}' failed: {result.fail_msg}"
                answers.append([False, text])
            else:
                answers.append([True, result.payload])
        return answers
