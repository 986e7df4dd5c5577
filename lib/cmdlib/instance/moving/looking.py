"""Looking at every node where a guest may be, and saying what that means (doc/design-migration.rst)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ganeti import errors, runtime
from ganeti.cmdlib.disk.devices import Caller, Unit
from ganeti.cmdlib.instance.moving.whereabouts import Concerned, Judge, Kind, Verdict, View
from ganeti.params import disk as disk_params
from ganeti.params import runstate
from ganeti.utils.text import NiceSortKey

if TYPE_CHECKING:
    from ganeti import objects
    from ganeti.rpc import RpcResult


_TRIES, _PAUSE = 2, 1.0


@dataclass(frozen=True)
class Situation:
    """The views of all nodes on one guest, and the conclusion; ``concerned``: see ``Concerned``."""

    name: str
    primary: str
    node_names: dict[str, str]
    views: dict[str, View]
    verdict: Verdict
    concerned: frozenset[str]

    def IsHere(self, node: str) -> bool:
        return self.verdict.kind is Kind.HERE and self.verdict.node == node

    def State(self, node: str) -> str:
        view = self.views.get(node)
        return runstate.GONE if view is None else view.state

    def IsSilentAt(self, node: str) -> bool:
        """Return whether this node alone leaves it open where the guest is."""
        return self.verdict.kind is Kind.UNKNOWN and self.verdict.silent == (node,)

    def Involved(self) -> list[str]:
        """Return the nodes that have or had a copy, or may have one.

        Not one that does not answer where that does not matter: it was named in a warning, and what is to be done elsewhere
        must not wait for it.
        """
        return [
            node
            for node, view in self.views.items()
            if (view.state != runstate.GONE or view.arrival)
            and (view.state != runstate.UNREACHABLE or node in self.concerned)
        ]

    def StopsWith(self, node: str) -> bool:
        """Return whether ending the copy on ``node`` stops the instance, as far as can be known."""
        verdict = self.verdict
        if verdict.kind in (Kind.NOWHERE, Kind.RETURNS, Kind.UNKNOWN):
            return True
        holders = {other for other in verdict.choices if self.State(other) in runstate.HOLDS}
        return self.IsHere(node) or (verdict.kind is Kind.UNDECIDABLE and holders == {node})

    def Text(self) -> str:
        """Return the view of each node that has one, for people."""
        parts = [
            self._ViewText(node) for node in sorted(self.views, key=lambda node: NiceSortKey(self.node_names[node]))
        ]
        return "; ".join(part for part in parts if part) or "no node has it"

    def _ViewText(self, node: str) -> str:
        view, name = self.views[node], self.node_names[node]
        relevant = node == self.primary or view.sent_to or view.state != runstate.GONE
        if not relevant or (view.state in (runstate.UNREACHABLE, runstate.OFFLINE) and not self._Matters(node)):
            return ""
        sent = f" (sent to {self.node_names[view.sent_to]})" if view.sent_to else ""
        role = " (primary node)" if node == self.primary else ""
        return f"{name}{role}: {view.state}{sent}"

    def _Matters(self, node: str) -> bool:
        return node in self.verdict.silent or node == self.primary or self._IsTarget(node)

    def _IsTarget(self, node: str) -> bool:
        return any(view.sent_to == node for view in self.views.values())

    def Error(self, doing: str) -> errors.OpExecError:
        """Return the error for something that cannot be done as things are, with the commands that help."""
        return errors.OpExecError(self._ErrorText(doing))

    def Refusal(self, doing: str) -> errors.OpPrereqError:
        """Return the same error for something that has not begun."""
        return errors.OpPrereqError(self._ErrorText(doing), errors.ECODE_STATE)

    def _ErrorText(self, doing: str) -> str:
        # In the text itself: it is all that reaches the job's owner later.
        return f"Instance {self.name} {doing}: {self._Reason()} ({self.Text()}); {self.Hint()}"

    def _Reason(self) -> str:
        verdict, names = self.verdict, self.node_names
        if verdict.kind is Kind.HERE:
            return f"it runs on {names[verdict.node]}"
        if verdict.kind is Kind.UNDER_WAY:
            to = f" to {names[verdict.target]}" if verdict.target else ""
            return f"it is being migrated from {names[verdict.node]}{to}"
        if verdict.kind is Kind.ARRIVING:
            return f"{names[verdict.node]} has sent it and {names[verdict.target]} has not finished receiving it"
        if verdict.kind is Kind.RETURNS:
            return f"its migration from {names[verdict.node]} failed and it is stopped there"
        if verdict.kind is Kind.NOWHERE:
            return "it does not run on any node"
        if verdict.silent:
            return f"it is not known what runs on {', '.join(names[node] for node in verdict.silent)}"
        return f"it runs on {' and '.join(names[node] for node in verdict.choices)}"

    def Hint(self) -> str:
        verdict, name = self.verdict, self.name
        if verdict.kind in (Kind.HERE, Kind.UNDER_WAY, Kind.ARRIVING, Kind.RETURNS):
            return f"use 'gnt-instance migrate --cleanup {name}'"
        hints = []
        for node in verdict.silent:
            if self.State(node) == runstate.UNREACHABLE:
                hints.append(
                    f"start the node daemon of {self.node_names[node]}, or, if that node is off, use"
                    f" 'gnt-node modify --offline yes {self.node_names[node]}'"
                )
            elif node == self.primary and len(verdict.silent) == 1 and not self._OtherHolder():
                hints.append(
                    f"to end the process that does not respond, use 'gnt-instance shutdown --timeout 0 {name}'"
                )
        if verdict.kind is Kind.NOWHERE:
            hints.append(
                f"to start it anew from its disks, use 'gnt-instance shutdown {name}' and 'gnt-instance startup {name}'"
            )
        for node in verdict.choices:
            if verdict.choices == (self.primary,) and self.State(node) == runstate.UNRESPONSIVE:
                break  # nothing else could be kept, and nothing would change
            what = "resume the copy" if self.State(node) == runstate.SENT else "keep the copy"
            sure = ", only if it has not run elsewhere since" if self.State(node) == runstate.SENT else ""
            target = self.node_names[node]
            hints.append(
                f"to {what} on {target} and end all others{sure}, use"
                f" 'gnt-instance migrate --cleanup --keep {target} {name}'"
            )
        return "; ".join(hints)

    def _OtherHolder(self) -> bool:
        return any(view.state in runstate.HOLDS for view in self.views.values())


def LookAround(caller: Caller, instance: objects.Instance, named: Collection[str] = ()) -> Situation:
    """Ask every node where the guest may be; ``named``: further nodes that must answer.

    A node that matters and does not answer is asked once more.
    """
    snapshot = caller.snapshot
    nodes = _Nodes(caller, instance, named)
    addresses = {node.secondary_ip: uuid for uuid, node in snapshot.nodes.items()}
    hvparams = dict(snapshot.cluster.hvparams.get(instance.hypervisor, {}))
    views: dict[str, View] = {}
    asked = nodes
    for _ in range(_TRIES):
        results = caller.rpc.call_instance_run_state(asked, instance.name, instance.hypervisor, hvparams)
        views |= {uuid: _ReadView(result, addresses) for uuid, result in results.items()}
        concerned = Concerned(views, {*snapshot.AllNodes(instance), *named})
        asked = [uuid for uuid in nodes if uuid in concerned and views[uuid].state == runstate.UNREACHABLE]
        if not asked:
            break
        runtime.Sleep(_PAUSE)
    for uuid, view in views.items():
        if view.state == runstate.UNREACHABLE and uuid not in concerned:
            Unit(caller).LogWarning(
                f"Node {snapshot.nodes[uuid].name} does not answer; if instance {instance.name} runs there, this was not seen"
            )
    names = {uuid: node.name for uuid, node in snapshot.nodes.items()}
    return Situation(instance.name, instance.primary_node, names, views, Judge(views, concerned), concerned)


def _Nodes(caller: Caller, instance: objects.Instance, named: Iterable[str]) -> list[str]:
    """Return the nodes that may run the instance: disks that every node reaches can be in use anywhere."""
    snapshot = caller.snapshot
    found = [*snapshot.AllNodes(instance), *named]
    if snapshot.DiskTemplate(instance) in disk_params.With(mirror=disk_params.EXTERNAL):
        found += [uuid for uuid, node in snapshot.nodes.items() if node.vm_capable]
    return list(dict.fromkeys(found))


def _ReadView(result: RpcResult, addresses: dict[str, str]) -> View:
    """Read an answer; one that is not what a node of ours sends counts as a process that does not respond."""
    if result.offline:
        return View(runstate.OFFLINE)
    if result.fail_msg:
        return View(runstate.UNREACHABLE)
    payload: Any = result.payload
    unclear = View(runstate.UNRESPONSIVE)
    if not isinstance(payload, dict):
        return unclear
    state, ident, attempt = payload.get(runstate.KEY), payload.get("ident"), payload.get("attempt")
    arrival, sent_to = payload.get("arrival"), payload.get("sent_to")
    texts = all(value is None or isinstance(value, str) for value in (attempt, arrival, sent_to))
    if not isinstance(state, str) or state not in runstate.REPORTED or type(ident) is not int or not texts:
        return unclear
    return View(
        state,
        ident,
        payload.get("sending") is True,
        payload.get("never") is True,
        addresses.get(sent_to or ""),
        attempt,
        arrival,
        state != runstate.GONE and payload.get("helper") is True,
    )


def EndLeftovers(caller: Caller, instance: objects.Instance, situation: Situation, keep: str = "") -> None:
    """End copies that are not the guest, on all nodes but ``keep``; OpExecError if one cannot be ended."""
    for node in situation.verdict.leftovers:
        if node == keep:
            continue
        if situation.State(node) == runstate.SENT:
            view = situation.views[node]
            result = caller.rpc.call_instance_end_sent(node, instance, view.ident, view.attempt, True)
        else:
            result = caller.rpc.call_instance_finalize_migration_dst(node, instance, None, False)
        if result.fail_msg:
            raise errors.OpExecError(
                f"What a migration of instance {instance.name} left on node {result.node_name} could not be ended:"
                f" {result.fail_msg}; use 'gnt-instance migrate --cleanup {instance.name}'"
            )
