"""Answers to queries: what a plan still needs is asked of the nodes, then the rows are made (doc/reference/queries.md).

Nothing here blocks: a query ends by calling ``done``, on the caller's thread when the configuration was enough, else on
the thread that brought the last answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ganeti import constants, errors, objects, query, runtime
from ganeti.master import console
from ganeti.master.proving import Prove, Prover
from ganeti.params import disk as disk_params
from ganeti.params import hv
from ganeti.query import context as live
from ganeti.query.cluster import Architecture
from ganeti.query.engine import Plan
from ganeti.rpc import RpcResult, RpcRunner

LIVE_SECONDS = 10.0
"""What a list waits for live data of a node that hangs; a node that asks its guests needs up to 5 s."""

# done(result, None) or done(None, error)
Done = Callable[[Any, Exception | None], None]


class _Gathering:
    """Count the answers of several calls and continue with the last one."""

    def __init__(self, then: Callable[[], None]):
        self._lock = runtime.Lock()
        self._open = 1
        self._then = then

    def Expect(self, count: int) -> None:
        with self._lock:
            self._open += count

    def Arrived(self) -> None:
        with self._lock:
            self._open -= 1
            last = self._open == 0
        if last:
            self._then()


class QueryData:
    """Runs queries for the master: the configuration, the nodes, the job queue, the locks.

    ``jobs`` and ``locks`` give their rows (``query.context.Context``); ``drained`` and ``watcher_pause`` one value;
    ``prove`` what follows from the answers of nodes to node_info and all_instances_info, by their uuids.
    """

    def __init__(
        self,
        snapshot: Callable[[], objects.Snapshot],
        rpc: RpcRunner,
        jobs: Callable[[Sequence[int] | None, bool], list[Any]],
        locks: Callable[[], list[tuple[Any, ...]]],
        drained: Callable[[], bool],
        watcher_pause: Callable[[], float | None],
        prove: Prove,
    ):
        self._snapshot = snapshot
        self._rpc = rpc
        self._jobs = jobs
        self._locks = locks
        self._drained = drained
        self._watcher_pause = watcher_pause
        self._prover = Prover(prove)

    # --- the calls ----------------------------------------------------------------------------------------------------

    def Query(self, kind: str, fields: Sequence[str], qfilter: Any, done: Done) -> None:
        """Query of LUXI and of OP_QUERY: ``{"fields": ..., "data": ...}``."""
        self._Start(kind, fields, qfilter, None, lambda plan: plan.Result(), done)

    def Classic(self, kind: str, names: Sequence[Any], fields: Sequence[str], done: Done) -> None:
        """QueryNodes and its siblings: rows of bare values; no names are all."""
        self._Start(kind, fields, None, list(names) or None, lambda plan: plan.ClassicRows(), done)

    def QueryFields(self, kind: str, fields: Iterable[str] | None) -> dict[str, Any]:
        return {"fields": self._Kind(kind).Definitions(list(fields) if fields else None)}

    def QueryNow(self, kind: str, fields: Sequence[str], qfilter: Any) -> dict[str, Any]:
        """Do the same as Query for a job thread, which may wait."""
        outcome: list[Any] = []
        ready = runtime.Event()

        def done(result: Any, error: Exception | None) -> None:
            outcome.extend([result, error])
            ready.set()

        self.Query(kind, fields, qfilter, done)
        ready.wait()
        result, error = outcome
        if error is not None:
            raise error
        answer: dict[str, Any] = result
        return answer

    # --- planning -----------------------------------------------------------------------------------------------------

    def _Kind(self, name: str) -> query.Kind:
        try:
            return query.GetKind(name)
        except KeyError:
            known = ", ".join(query.KIND_NAMES)
            raise errors.OpPrereqError(f"Unknown query kind '{name}'; known are {known}", errors.ECODE_INVAL) from None

    def _Start(
        self,
        kind: str,
        fields: Sequence[str],
        qfilter: Any,
        names: list[Any] | None,
        answer: Callable[[Plan], Any],
        done: Done,
    ) -> None:
        context = live.Context(
            self._snapshot(), jobs=self._jobs, drained=self._drained(), wants_archived="archived" in fields
        )
        plan = Plan(self._Kind(kind), fields, qfilter, context, names)

        def finish() -> None:
            try:
                if live.LIVE_PROOF in plan.parts:
                    context.proof = self._prover.ProofFor(context)
                result = answer(plan)
            except errors.GenericError as err:
                done(None, err)
            except Exception as err:
                logging.exception("Query for %s failed", kind)
                done(None, err)
            else:
                done(result, None)

        def compute() -> None:
            # On another thread: the one that brought the last answer has others to bring.
            self._prover.Add(finish, lambda error: done(None, error))

        gathering = _Gathering(compute if live.LIVE_PROOF in plan.parts else finish)
        for part in sorted(plan.parts):
            self._COLLECTORS[part](self, plan, gathering)
        gathering.Arrived()

    # --- what the nodes know ------------------------------------------------------------------------------------------

    def _Ask(
        self,
        procedure: str,
        nodes: Iterable[str],
        args: Sequence[Any],
        into: dict[str, Any],
        gathering: _Gathering,
        check: Callable[[Any], bool],
        limit: float | None = None,
    ) -> None:
        """Call nodes and store their payloads; an answer of the wrong shape counts as none."""
        snapshot = self._snapshot()
        targets = [uuid for uuid in dict.fromkeys(nodes) if uuid in snapshot.nodes and not snapshot.nodes[uuid].offline]
        gathering.Expect(len(targets))

        def arrived(result: RpcResult) -> None:
            payload = None if result.fail_msg else result.payload
            if result.fail_msg:
                logging.info("%s on node %s: %s", procedure, result.node_name, result.fail_msg)
            elif not check(payload):
                logging.warning("%s on node %s: answer of the wrong shape", procedure, result.node_name)
                payload = None
            into[result.node] = payload
            gathering.Arrived()

        self._rpc.Start(procedure, targets, args, arrived, limit)

    def _Nodes(self, plan: Plan, gathering: _Gathering) -> None:
        if live.LIVE_PROOF not in plan.parts:  # or all nodes are asked
            self._AskForInfo(plan, [n.uuid for n in plan.items if n.vm_capable], gathering)

    def _Proof(self, plan: Plan, gathering: _Gathering) -> None:
        """Ask all nodes: instances may go from one to another."""
        nodes = [n.uuid for n in plan.context.snapshot.nodes.values() if n.vm_capable]
        self._AskForInfo(plan, nodes, gathering)
        self._AskForGuests(plan, nodes, gathering)

    def _AskForInfo(self, plan: Plan, nodes: Iterable[str], gathering: _Gathering) -> None:
        cluster = plan.context.snapshot.cluster
        hypervisor = cluster.enabled_hypervisors[0]
        args = [disk_params.StorageUnits(cluster), [[hypervisor, dict(cluster.hvparams.get(hypervisor, {}))]]]
        self._Ask("node_info", nodes, args, plan.context.node_info, gathering, _IsNodeInfo, LIVE_SECONDS)

    def _Instances(self, plan: Plan, gathering: _Gathering) -> None:
        self._AskForGuests(plan, _InstanceNodes(plan.context.snapshot, plan.items), gathering)

    def _AskForGuests(self, plan: Plan, nodes: Iterable[str], gathering: _Gathering) -> None:
        context: live.Context = plan.context
        cluster = context.snapshot.cluster
        args = [list(cluster.enabled_hypervisors), hv.OfCluster(cluster)]
        self._Ask("all_instances_info", nodes, args, context.instance_info, gathering, _IsInstanceInfo, LIVE_SECONDS)

    def _Console(self, plan: Plan, gathering: _Gathering) -> None:
        """Return the consoles of instances; whether they run is asked too, as only a running one has a console."""
        if live.LIVE_INSTANCE not in plan.parts:
            self._Instances(plan, gathering)
        context: live.Context = plan.context
        snapshot = context.snapshot
        by_node: dict[str, list[objects.Instance]] = {}
        for inst in plan.items:
            node = snapshot.nodes.get(inst.primary_node)
            if node is not None and not node.offline:
                by_node.setdefault(node.uuid, []).append(inst)
        gathering.Expect(len(by_node))

        def arrived(result: RpcResult) -> None:
            for inst in () if result.fail_msg else by_node[result.node]:
                try:
                    context.console[inst.name] = console.Checked(snapshot, inst, result.payload)
                except errors.OpExecError as err:
                    logging.warning("%s", err)
            gathering.Arrived()

        for uuid, instances in by_node.items():
            request = {inst.name: console.Request(snapshot, inst) for inst in instances}
            self._rpc.Start("instance_console_info", [uuid], [request], arrived, LIVE_SECONDS)

    def _Exports(self, plan: Plan, gathering: _Gathering) -> None:
        nodes = [node.uuid for node, _ in plan.items]
        self._Ask("export_list", nodes, [], plan.context.exports, gathering, lambda p: isinstance(p, list))

    def _Os(self, plan: Plan, gathering: _Gathering) -> None:
        procedure, width = ("os_diagnose", 8) if plan.kind.name == "os" else ("extstorage_diagnose", 5)
        nodes = [n.uuid for n in plan.context.snapshot.nodes.values() if n.vm_capable]

        def fits(payload: Any) -> bool:
            return isinstance(payload, list) and all(isinstance(r, list) and len(r) == width for r in payload)

        self._Ask(procedure, nodes, [], plan.context.os_info, gathering, fits)

    def _OsFacts(self, plan: Plan, gathering: _Gathering) -> None:
        nodes = [n.uuid for n in plan.context.snapshot.nodes.values() if n.vm_capable]
        self._Ask("os_extra_info", nodes, [], plan.context.os_facts, gathering, lambda p: isinstance(p, dict))

    def _LockRows(self, plan: Plan, _gathering: _Gathering) -> None:
        # As 3.1: one row per lock that is held or waited for.
        plan.context.locks = [row for row in self._locks() if row[1] is not None or row[3]]

    def _Watcher(self, plan: Plan, _gathering: _Gathering) -> None:
        plan.context.watcher_pause = self._watcher_pause()

    _COLLECTORS: dict[str, Callable[[QueryData, Plan, _Gathering], None]] = {
        live.LIVE_NODE: _Nodes,
        live.LIVE_INSTANCE: _Instances,
        live.LIVE_CONSOLE: _Console,
        live.LIVE_EXPORTS: _Exports,
        live.LIVE_OS: _Os,
        live.LIVE_OS_FACTS: _OsFacts,
        live.LIVE_LOCKS: _LockRows,
        live.LIVE_WATCHER: _Watcher,
        live.LIVE_PROOF: _Proof,
    }


def _InstanceNodes(snapshot: objects.Snapshot, instances: Iterable[Any]) -> list[str]:
    """Return the nodes on which the instances may run.

    A disk that every node reaches can be in use anywhere: then all nodes are asked, as starting such an instance twice
    destroys its data.
    """
    nodes: dict[str, None] = {}
    for inst in instances:
        if snapshot.DiskTemplate(inst) in disk_params.With(mirror=disk_params.EXTERNAL):
            return [n.uuid for n in snapshot.nodes.values() if n.vm_capable]
        nodes.update(dict.fromkeys(snapshot.AllNodes(inst)))
    return list(nodes)


def _IsNodeInfo(payload: Any) -> bool:
    return (
        isinstance(payload, list)
        and len(payload) == 3
        and isinstance(payload[1], list)
        and isinstance(payload[2], list)
        and all(isinstance(unit, dict) for unit in payload[1])
        and all(unit is None or isinstance(unit, dict) for unit in payload[2])
    )


def _IsInstanceInfo(payload: Any) -> bool:
    return isinstance(payload, dict) and all(isinstance(info, dict) for info in payload.values())


def ClusterInfo(snapshot: objects.Snapshot) -> dict[str, Any]:
    """Answer of QueryClusterInfo and OP_CLUSTER_QUERY (doc/reference/luxi.md 4.7)."""
    cluster = snapshot.cluster
    stored = cluster.ToDict()
    result: dict[str, Any] = {
        "software_version": constants.RELEASE_VERSION,
        "protocol_version": constants.PROTOCOL_VERSION,
        "config_version": constants.CONFIG_VERSION,
        "os_api_version": max(constants.OS_API_VERSIONS),
        "export_version": constants.EXPORT_VERSION,
        "vcs_version": constants.VCS_VERSION,
        "architecture": Architecture(),
        "name": cluster.cluster_name,
        "master": snapshot.master_name,
        "default_hypervisor": cluster.enabled_hypervisors[0],
        "primary_ip_version": 6 if cluster.primary_ip_family == constants.IP6_FAMILY else 4,
        "volume_group_name": cluster.volume_group_name,
        "drbd_usermode_helper": cluster.drbd_usermode_helper,
        "beparams": stored["beparams"],
        "nicparams": stored["nicparams"],
        "osparams": stored["osparams"],
        "hvparams": {**{name: {} for name in cluster.enabled_hypervisors}, **stored["hvparams"]},
        "enabled_data_collectors": {n: c["active"] for n, c in cluster.data_collectors.items()},
        "data_collector_interval": {n: c["interval"] for n, c in cluster.data_collectors.items()},
    }
    result.update({name: stored[name] for name in _SHOWN_AS_STORED})
    return result


_SHOWN_AS_STORED = (
    "uuid", "ctime", "mtime", "tags", "enabled_hypervisors", "os_hvp", "ipolicy", "ndparams", "diskparams",
    "candidate_pool_size", "max_running_jobs", "max_tracked_jobs", "mac_prefix", "master_netdev", "master_netmask",
    "use_external_mip_script", "file_storage_dir", "shared_file_storage_dir", "gluster_storage_dir",
    "enabled_disk_templates", "reserved_lvs", "prealloc_wipe_disks", "maintain_node_health", "uid_pool",
    "default_iallocator", "default_iallocator_params", "hidden_os", "blacklisted_os", "install_image",
    "instance_communication_network", "zeroing_image", "compression_tools", "enabled_user_shutdown",
    "modify_ssh_setup", "ssh_key_type", "ssh_key_bits",
)  # fmt: skip
