"""What each method of LUXI does (doc/reference/luxi.md 4).

A handler answers at once or returns a Pending; it runs on a request thread and must not wait.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import constants, errors, ht, objects, runtime, watcherpause
from ganeti.jqueue import filters
from ganeti.luxi import methods
from ganeti.luxi.pending import Begun, Pending
from ganeti.luxi.pieces import Encoded
from ganeti.master.querydata import ClusterInfo
from ganeti.rpc import RpcResult
from ganeti.server.standstill import Standstill

if TYPE_CHECKING:
    from ganeti.config import ConfigWriter
    from ganeti.jqueue import JobQueue
    from ganeti.master.querydata import QueryData
    from ganeti.rpc import RpcRunner
    from ganeti.server.eventring import EventRing
    from ganeti.server.metering import Meter
    from ganeti.store import Store

_TAG_KINDS = {
    constants.TAG_NODE: "node",
    constants.TAG_INSTANCE: "instance",
    constants.TAG_NODEGROUP: "nodegroup",
    constants.TAG_NETWORK: "network",
}
_FILTER_SOURCE = "luxid"
# The largest number that every program reading the configuration has a place for.
_MAX_PRIORITY = (1 << 63) - 1
_LATEST = 1 << 40


class Handlers:
    """The methods of the table, by their names: ``Handle(method, args)``."""

    def __init__(
        self,
        cfg: ConfigWriter,
        queue: JobQueue,
        query: QueryData,
        rpc: RpcRunner,
        store: Store,
        events: EventRing,
        meter: Meter,
    ):
        self._cfg = cfg
        self._standstill = Standstill(cfg, store, queue.SubmitJob)
        self._queue = queue
        self._query = query
        self._events = events
        self._meter = meter
        self._rpc = rpc
        self._cluster_info: tuple[Any, Any, Encoded | None] = (None, None, None)
        self._config_values: dict[str, Callable[[], Any]] = {
            "cluster_name": lambda: cfg.Snapshot().cluster.cluster_name,
            "master_node": lambda: self._cfg.Snapshot().master_name,
            "cluster_uuid": lambda: cfg.Snapshot().cluster.uuid,
            "cluster_serial": lambda: cfg.Snapshot().cluster.serial_no,
            "config_serial": lambda: cfg.Snapshot().serial_no,
            "drain_flag": lambda: queue.drained,
            "watcher_pause": self._WatcherPause,
            "modify_ssh_setup": lambda: cfg.Snapshot().cluster.modify_ssh_setup,
            "ssh_key_type": lambda: cfg.Snapshot().cluster.ssh_key_type,
            "ssh_key_bits": lambda: cfg.Snapshot().cluster.ssh_key_bits,
        }
        self._table: dict[str, Callable[..., Any]] = {name: getattr(self, f"_{name}") for name in methods.METHODS}

    def Handle(self, method: str, args: Sequence[Any]) -> Any:
        return self._table[method](*args)

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def _SubmitJob(self, ops: list[Any]) -> Pending:
        return self._standstill.Submit(ops)

    def _SubmitJobToDrainedQueue(self, ops: list[Any]) -> Pending:
        return self._queue.SubmitJob(ops, to_drained=True)

    def _SubmitManyJobs(self, jobs: list[list[Any]]) -> Pending:
        return self._queue.SubmitManyJobs(jobs)

    def _PickupJob(self, job_id: int) -> Any:
        raise errors.GenericError(f"Job {job_id} need not be picked up: every job that is accepted is also started")

    def _WaitForJobChange(
        self, job_id: int, fields: list[str], info: Any, serial: int | None, timeout: float
    ) -> Pending:
        return self._queue.Wait(job_id, fields, info, serial, timeout)

    def _CancelJob(self, job_id: int, kill: bool) -> Pending:
        return self._queue.CancelJob(job_id, kill)

    def _CancelManyJobs(self, job_ids: list[int], kill: bool) -> Pending:
        return self._queue.CancelManyJobs(job_ids, kill)

    def _ChangeJobPriority(self, job_id: int, priority: int) -> Pending:
        return self._queue.ChangePriority(job_id, priority)

    def _ArchiveJob(self, job_id: int) -> Pending:
        return self._queue.ArchiveJob(job_id)

    def _AutoArchiveJobs(self, age: int, timeout: float) -> Pending:
        return self._queue.AutoArchive(age, timeout)

    def _QueryJobs(self, ids: list[int] | None, fields: list[str]) -> list[list[Any]]:
        return self._queue.QueryJobs(ids, fields)

    def _SetDrainFlag(self, flag: bool) -> Pending:
        return self._queue.SetDrainFlag(flag)

    # --- queries ------------------------------------------------------------------------------------------------------

    def _Query(self, what: str, fields: list[str], qfilter: Any) -> Pending:
        return _Ask(lambda done: self._query.Query(what, fields, qfilter, done))

    def _QueryFields(self, what: str, fields: list[str] | None) -> Any:
        return self._query.QueryFields(what, fields)

    def _Classic(self, kind: str, names: Sequence[str], fields: Sequence[str], use_locking: bool) -> Pending:
        if use_locking:
            raise errors.OpPrereqError("Sync queries are not allowed: queries take no locks", errors.ECODE_INVAL)
        return _Ask(lambda done: self._query.Classic(kind, names, fields, done))

    def _QueryInstances(self, names: list[str], fields: list[str], use_locking: bool) -> Pending:
        return self._Classic("instance", names, fields, use_locking)

    def _QueryNodes(self, names: list[str], fields: list[str], use_locking: bool) -> Pending:
        return self._Classic("node", names, fields, use_locking)

    def _QueryGroups(self, names: list[str], fields: list[str], use_locking: bool) -> Pending:
        return self._Classic("group", names, fields, use_locking)

    def _QueryNetworks(self, names: list[str], fields: list[str], use_locking: bool) -> Pending:
        return self._Classic("network", names, fields, use_locking)

    def _QueryExports(self, nodes: list[str], use_locking: bool) -> Pending:
        return self._Classic("export", nodes, ["node", "export"], use_locking)

    def _QueryFilters(self, uuids: list[str] | None, fields: list[str]) -> Pending:
        return self._Classic("filter", uuids or [], fields, False)

    def _QueryClusterInfo(self) -> Encoded:
        """Answer from memory while cluster and master node are as before: many clients begin with this question."""
        snapshot = self._cfg.Snapshot()
        cluster, master, answer = self._cluster_info
        if answer is None or cluster is not snapshot.cluster or master is not snapshot.master:
            answer = Encoded(ClusterInfo(snapshot))
            self._cluster_info = (snapshot.cluster, snapshot.master, answer)
        return answer

    def _QueryConfigValues(self, fields: list[str]) -> list[Any]:
        return [self._config_values[name]() if name in self._config_values else None for name in fields]

    def _WatcherPause(self) -> int | None:
        until = watcherpause.PausedUntil()
        return None if until is None else int(until)

    def _QueryTags(self, kind: str, name: str | None) -> list[str]:
        snapshot = self._cfg.Snapshot()
        if kind == constants.TAG_CLUSTER:
            return sorted(snapshot.cluster.tags)
        if kind not in _TAG_KINDS:
            raise errors.OpPrereqError(f"Objects of kind '{kind[:40]}' cannot have tags", errors.ECODE_INVAL)
        found = snapshot.ExpandName(_TAG_KINDS[kind], name or "")
        if found is None:
            raise errors.OpPrereqError(f"The {kind} '{(name or '')[:80]}' does not exist", errors.ECODE_NOENT)
        return sorted(found.tags)

    def _QueryRapiTokens(self, names: list[str] | None) -> list[dict[str, Any]]:
        stored = self._cfg.Snapshot().cluster.rapi_tokens
        wanted = sorted(stored) if names is None else [name for name in dict.fromkeys(names) if name in stored]
        return [{"expires": None, **stored[name], "name": name} for name in wanted]

    def _QueryMetrics(self) -> dict[str, Any]:
        return self._meter.Read()

    def _WaitForEvents(self, last_id: str | None, kinds: list[str] | None, timeout: float) -> Pending:
        return self._events.Wait(last_id, kinds, timeout)

    # --- filter rules -------------------------------------------------------------------------------------------------

    def _ReplaceFilter(
        self,
        uuid: str | None,
        priority: int,
        predicates: list[Any],
        action: Any,
        reason: list[Any],
        expected: dict[str, Any] | None,
    ) -> Pending:
        new = uuid is None
        if uuid is None:
            uuid = runtime.NewUuid()
        elif not ht.TUuid(uuid):
            raise errors.OpPrereqError(f"'{uuid[:80]}' is not a valid UUID of a filter rule", errors.ECODE_INVAL)
        if priority > _MAX_PRIORITY:
            raise errors.OpPrereqError(f"The priority of a rule is at most {_MAX_PRIORITY}", errors.ECODE_INVAL)
        filters.CheckPredicates(predicates)
        nanoseconds = int(runtime.Time() * 1_000_000) * 1000
        try:
            rule = objects.FilterRule.FromDict(
                {
                    "uuid": uuid,
                    "priority": priority,
                    "watermark": self._queue.last_id,
                    "predicates": predicates,
                    "action": action,
                    "reason_trail": [*reason, [_FILTER_SOURCE, "", nanoseconds]],
                }
            )
        except errors.ConfigurationError as err:
            # A rule that does not exist yet is not named: nobody could find it.
            text = str(err).replace(f" '{uuid}'", "") if new else str(err)
            raise errors.OpPrereqError(f"Not a filter rule: {text}", errors.ECODE_INVAL) from err

        return Begun(lambda done: self._cfg.SetFilter(rule, self._Followed(done), expected)).Map(lambda _: uuid)

    def _DeleteFilter(self, uuid: str, expected: dict[str, Any] | None) -> Pending:
        return Begun(lambda done: self._cfg.RemoveFilter(uuid, self._Followed(done), expected))

    def _Followed(self, done: Callable[[Exception | None], None]) -> Callable[[Exception | None], None]:
        """Return what to call once a change of rules is stored: ``done`` is called when the queue follows them."""
        return lambda error: done(error) if error else self._queue.ReconsiderSoon(lambda: done(None))

    # --- watcher ------------------------------------------------------------------------------------------------------

    def _SetWatcherPause(self, until: float | None) -> Pending:
        """Set the pause on every node that is online; completes when all have answered."""
        if until is not None and not runtime.Time() <= until < _LATEST:
            raise errors.OpPrereqError(
                "The watcher's pause must end in the future, and not in thousands of years", errors.ECODE_INVAL
            )
        snapshot = self._cfg.Snapshot()
        nodes = [node.uuid for node in snapshot.nodes.values() if not node.offline]
        pending = Pending()
        lock = runtime.Lock()
        left = len(nodes)
        failed: list[str] = []

        def done(result: RpcResult) -> None:
            nonlocal left
            if result.fail_msg:
                logging.warning("The watcher's pause could not be set on %s: %s", result.node_name, result.fail_msg)
            with lock:
                left -= 1
                if result.fail_msg:
                    failed.append(f"{result.node_name} ({result.fail_msg})")
                if left:
                    return
            if failed:
                pending.Fail(errors.OpExecError(f"Could not set the watcher's pause on {', '.join(sorted(failed))}"))
            else:
                pending.Complete(until)

        self._rpc.Start("set_watcher_pause", nodes, [until], done)
        return pending


def _Ask(start: Callable[[Callable[[Any, Exception | None], None]], None]) -> Pending:
    """Return the answer of what ``start(done)`` begins and ``done(result, error)`` ends."""
    pending = Pending()

    def done(result: Any, error: Exception | None) -> None:
        if error is not None:
            pending.Fail(error)
        else:
            pending.Complete(result)

    start(done)
    return pending
