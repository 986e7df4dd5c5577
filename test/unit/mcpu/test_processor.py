"""The way of an opcode: order, locks, hooks, errors (doc/reference/locking.md 8, invariants M4 to M8 and M11)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.actors import Cast, Until
from support.master import Callbacks, Master

from ganeti import errors, locking, mcpu, opcodes, runtime
from ganeti.cmdlib import LogicalUnit, NoHooksLU, ResultWithJobs, Tasklet

WEB = "web.example.org"
OP = opcodes.OpTestDelay


class Unit(LogicalUnit):
    """Notes what is called and what it holds then; tests change the class attributes of a subclass."""

    HPATH = "test-hook"
    HTYPE = "CLUSTER"
    REQ_BGL = False
    NEEDED: dict[int, Any] = {}
    ADD: dict[int, Any] = {}
    FAIL_IN = ""
    seen: list[tuple[str, Any]]

    def _Note(self, what: str) -> None:
        held = {locking.LEVEL_NAMES[n]: sorted(self.owned_locks(n)) for n in locking.LEVELS if self.glm.is_owned(n)}
        type(self).seen.append((what, held))
        if what == self.FAIL_IN:
            raise errors.OpExecError(f"failed in {what}")

    def CheckArguments(self) -> None:
        self._Note("CheckArguments")

    def ExpandNames(self) -> None:
        self._Note("ExpandNames")
        self.needed_locks = dict(self.NEEDED)
        self.add_locks = dict(self.ADD)

    def DeclareLocks(self, level: int) -> None:
        self._Note(f"DeclareLocks {locking.LEVEL_NAMES[level]}")

    def CheckPrereq(self) -> None:
        self._Note("CheckPrereq")

    def BuildHooksEnv(self) -> dict[str, Any]:
        self._Note("BuildHooksEnv")
        return {"OP_TARGET": "x", "TAGS": len(self.snapshot.cluster.tags), "NOTHING": None}

    def BuildHooksNodes(self) -> tuple[list[str], list[str]]:
        nodes = list(self.snapshot.nodes)
        return nodes, nodes[:1]

    def Exec(self, feedback: Any) -> Any:
        self._Note("Exec")
        feedback("working")
        return self.Work()

    def Work(self) -> Any:
        return None


def _Make(name: str = "LUOfTest", **attributes: Any) -> type[Unit]:
    return type(name, (Unit,), {"seen": [], **attributes})


def _Run(master: Master, unit: type[LogicalUnit], **options: Any) -> Any:
    values = options.pop("values", {})
    return master.Run(OP(duration=0, **values), units={OP.OP_ID: unit}, **options)


def _Held(seen: list[tuple[str, Any]], what: str) -> Any:
    return next(held for name, held in seen if name == what)


@pytest.mark.req("D20-LOCK-27", "D20-LOCK-29", "D20-LOCK-30")
def test_order_of_calls_and_locks_held(master: Master) -> None:
    node = master.nodes[1]
    unit = _Make(
        NEEDED={
            locking.LEVEL_NODE: [node],
            locking.LEVEL_INSTANCE: WEB,
            locking.LEVEL_NODE_RES: [],
            locking.LEVEL_NODEGROUP: locking.ALL_SET,
        }
    )
    cbs = Callbacks()
    original = cbs.NotifyStart

    def started() -> None:
        original()
        unit.seen.append(("NotifyStart", None))

    cbs.NotifyStart = started  # type: ignore[method-assign]
    _Run(master, unit, cbs=cbs)
    assert [name for name, _ in unit.seen] == [
        "CheckArguments",
        "ExpandNames",
        "DeclareLocks instance",
        "DeclareLocks nodegroup",
        "DeclareLocks node",
        "DeclareLocks node-res",
        "NotifyStart",
        "CheckPrereq",
        "BuildHooksEnv",
        "Exec",
        "BuildHooksEnv",
    ]
    bgl = {"cluster": ["BGL"]}
    group = sorted(master.snapshot.nodegroups)
    assert _Held(unit.seen, "CheckArguments") == _Held(unit.seen, "ExpandNames") == bgl
    assert _Held(unit.seen, "DeclareLocks node") == {**bgl, "instance": [WEB], "nodegroup": group}
    everything = {**bgl, "instance": [WEB], "nodegroup": group, "node": [node], "node-res": []}
    assert _Held(unit.seen, "CheckPrereq") == _Held(unit.seen, "Exec") == everything
    assert cbs.messages == ["working"]
    assert master[0].calls.count("hooks_runner") == 2 and master[1].calls.count("hooks_runner") == 1


def test_locks_are_shown_under_the_job(master: Master) -> None:
    found: list[Any] = []
    unit = _Make(Work=lambda self: found.extend(self.glm.QueryLocks()))
    _Run(master, unit)
    assert found[0][:3] == ("cluster/BGL", "shared", ["1"])


@pytest.mark.req("D20-LOCK-26")
@pytest.mark.parametrize(
    "stage", ["CheckArguments", "ExpandNames", "DeclareLocks node", "CheckPrereq", "BuildHooksEnv", "Exec"]
)
def test_nothing_is_left_after_a_failure_anywhere(master: Master, stage: str) -> None:
    class Failing(_Make(FAIL_IN=stage, NEEDED={locking.LEVEL_NODE: [master.nodes[0]]})):  # type: ignore[misc]
        def _Note(self, what: str) -> None:
            self.cfg.GenerateMAC(None, self.ec_id)
            super()._Note(what)

    with pytest.raises(errors.OpExecError, match=f"failed in {stage}"):
        _Run(master, Failing)


def test_callbacks_may_stop_the_opcode(master: Master) -> None:
    class Stop(Exception):
        pass

    for name in ("NotifyStart", "CurrentPriority", "Feedback"):
        cbs = Callbacks()

        def stop(*args: Any) -> Any:
            raise Stop

        setattr(cbs, name, stop)
        with pytest.raises(Stop):
            _Run(master, _Make(NEEDED={locking.LEVEL_NODE: [master.nodes[0]]}), cbs=cbs)


@pytest.mark.req("D20-LOCK-14", "D20-LOCK-13")
def test_an_exclusive_opcode_runs_alone(master: Master) -> None:
    alone = _Make(REQ_BGL=True, ExpandNames=LogicalUnit.ExpandNames)
    with Cast("other") as (other,):
        other.Do(master.glm.acquire, locking.LEVEL_CLUSTER, locking.BGL, shared=1)
        with pytest.raises(errors.LockAcquireTimeout):
            mcpu.Processor(master.context, 9, {OP.OP_ID: alone}).ExecOpCode(OP(duration=0), None, timeout=0.02)
        other.Do(master.glm.release, locking.LEVEL_CLUSTER)
    _Run(master, alone)
    assert _Held(alone.seen, "Exec") == {"cluster": ["BGL"]}


def test_one_timeout_for_all_levels(master: Master) -> None:
    node = master.nodes[0]
    unit = _Make(NEEDED={locking.LEVEL_INSTANCE: WEB, locking.LEVEL_NODE: [node]})
    with Cast("holder") as (holder,):
        holder.Do(master.glm.acquire, locking.LEVEL_CLUSTER, locking.BGL, shared=1)
        holder.Do(master.glm.acquire, locking.LEVEL_INSTANCE, WEB)
        holder.Do(master.glm.acquire, locking.LEVEL_NODE, node)
        started = runtime.Monotonic()

        def free_instance() -> None:
            Until(lambda: any(row.pending for row in master.glm.QueryLocks() if row.name == f"instance/{WEB}"))
            runtime.Sleep(1.5)
            # Out of order on purpose: only the instance is given back.
            master.glm._sets[locking.LEVEL_INSTANCE].release()

        freeing = holder.Start(free_instance)
        with pytest.raises(errors.LockAcquireTimeout):
            mcpu.Processor(master.context, 9, {OP.OP_ID: unit}).ExecOpCode(OP(duration=0), None, timeout=3.0)
        # A time-out of its own for the second level would end it after 4.5 s.
        assert 2.9 < runtime.Monotonic() - started < 4.4
        freeing.Result()
        assert all(row.owner in (None, ["holder"]) for row in master.glm.QueryLocks())
        holder.Do(master.glm.release, locking.LEVEL_NODE)
        holder.Do(master.glm.release, locking.LEVEL_CLUSTER)
    assert "DeclareLocks node" in [name for name, _ in unit.seen]
    assert "CheckPrereq" not in [name for name, _ in unit.seen]


# --- locks of new objects ------------------------------------------------------------------------------------------------

ADDED = {locking.LEVEL_INSTANCE: "new.example.org"}


@pytest.mark.req("D20-LOCK-17")
@pytest.mark.parametrize("stage", ["CheckPrereq", "Exec", ""])
def test_added_locks_disappear_unless_the_object_exists(master: Master, stage: str) -> None:
    unit = _Make(ADD=ADDED, FAIL_IN=stage)
    if stage:
        with pytest.raises(errors.OpExecError):
            _Run(master, unit)
    else:
        _Run(master, unit)
    assert master.glm.Names(locking.LEVEL_INSTANCE) == {WEB}

    def made(self: Unit) -> None:
        assert self.owned_locks(locking.LEVEL_INSTANCE) == {"new.example.org"}
        del self.remove_locks[locking.LEVEL_INSTANCE]

    _Run(master, _Make(ADD=ADDED, Work=made))
    assert master.glm.Names(locking.LEVEL_INSTANCE) == {WEB, "new.example.org"}


def test_adding_a_lock_that_exists(master: Master) -> None:
    with pytest.raises(errors.OpPrereqError, match="another job created the object first") as caught:
        _Run(master, _Make(ADD={locking.LEVEL_INSTANCE: [WEB]}))
    assert caught.value.args[1] == errors.ECODE_NOTUNIQUE
    assert master.glm.Names(locking.LEVEL_INSTANCE) == {WEB}


def test_adding_waits_for_holders_of_the_level_in_time(master: Master) -> None:
    with Cast("holder") as (holder,):
        holder.Do(master.glm.acquire, locking.LEVEL_CLUSTER, locking.BGL, shared=1)
        holder.Do(master.glm.acquire, locking.LEVEL_INSTANCE, locking.ALL_SET, shared=1)
        with pytest.raises(errors.LockAcquireTimeout):
            mcpu.Processor(master.context, 9, {OP.OP_ID: _Make(ADD=ADDED)}).ExecOpCode(OP(duration=0), None, 0.02)
        holder.Do(master.glm.release, locking.LEVEL_INSTANCE)
        holder.Do(master.glm.release, locking.LEVEL_CLUSTER)
    assert master.glm.Names(locking.LEVEL_INSTANCE) == {WEB}


def test_removed_objects_lose_their_lock(master: Master) -> None:
    def gone(self: Unit) -> None:
        self.remove_locks[locking.LEVEL_INSTANCE] = WEB

    _Run(master, _Make(NEEDED={locking.LEVEL_INSTANCE: [WEB]}, Work=gone))
    assert master.glm.Names(locking.LEVEL_INSTANCE) == set()
    with pytest.raises(
        errors.OpPrereqError, match=f"Instance '{WEB}' was removed or renamed while this job waited"
    ) as caught:
        _Run(master, _Make(NEEDED={locking.LEVEL_INSTANCE: [WEB]}))
    assert caught.value.args[1] == errors.ECODE_NOENT
    with pytest.raises(errors.OpPrereqError, match="A node of this request was removed"):
        _Run(master, _Make(NEEDED={locking.LEVEL_NODE: ["no-such-uuid"]}))


# --- hooks ---------------------------------------------------------------------------------------------------------------


def _AddTag(self: Unit) -> None:
    self.cfg.AddTags("cluster", self.snapshot.cluster.uuid, ["new"])


def test_environment_of_hooks(master: Master) -> None:
    _Run(master, _Make(Work=_AddTag))
    assert [(path, phase) for path, phase, _ in master[0].hook_runs] == [
        ("test-hook", "pre"),
        ("test-hook", "post"),
        ("config-update", "post"),
    ]
    before, after, update = [env for _, _, env in master[0].hook_runs]
    common = {
        "PATH": "/sbin:/bin:/usr/sbin:/usr/bin",
        "GANETI_HOOKS_VERSION": "2",
        "GANETI_OP_CODE": "OP_TEST_DELAY",
        "GANETI_OBJECT_TYPE": "CLUSTER",
        "GANETI_CLUSTER": "cluster.example.org",
        "GANETI_MASTER": "node1.example.org",
        "GANETI_OP_TARGET": "x",
        "GANETI_TAGS": "0",
        "GANETI_NOTHING": "None",
    }
    directory = {"GANETI_DATA_DIR": before["GANETI_DATA_DIR"]}
    assert before == {**common, **directory, "GANETI_HOOKS_PHASE": "pre", "GANETI_HOOKS_PATH": "test-hook"}
    assert after == {
        **common,
        **directory,
        "GANETI_HOOKS_PHASE": "post",
        "GANETI_HOOKS_PATH": "test-hook",
        "GANETI_POST_OP_TARGET": "x",
        "GANETI_POST_TAGS": "1",
        "GANETI_POST_NOTHING": "None",
    }
    assert update == {**common, **directory, "GANETI_HOOKS_PHASE": "post", "GANETI_HOOKS_PATH": "config-update"}


def test_a_pre_hook_stops_the_opcode(master: Master) -> None:
    master[1].AddHook("test-hook", "pre", "10-fine", lambda env: (0, "ok"))
    master[1].AddHook("test-hook", "pre", "20-no", lambda env: (1, "not on a friday"))
    master[1].AddHook("test-hook", "pre", "30.off", lambda env: (1, "not even run"))
    unit = _Make()
    with pytest.raises(errors.HooksAbort) as caught:
        _Run(master, unit)
    assert caught.value.args[0] == [["node2.example.org", "test-hook-pre.d/20-no", "not on a friday"]]
    assert "Exec" not in [name for name, _ in unit.seen]


def test_post_hooks_and_silent_nodes_only_warn(master: Master) -> None:
    master[0].AddHook("test-hook", "post", "a", lambda env: (1, "oh"))
    master[0].AddHook("test-hook", "post", "b", lambda env: (1, ""))
    master[1].faults["hooks_runner"] = "no such directory"
    assert _Run(master, _Make()) is None
    assert [text for text in master.last.messages if "WARNING" in text] == [
        " - WARNING: Communication failure to node node2.example.org: no such directory",
        " - WARNING: On node1.example.org script test-hook-post.d/a failed, output: oh",
        " - WARNING: On node1.example.org script test-hook-post.d/b failed, output: (no output)",
    ]


def test_hooks_of_an_offline_node_are_not_missed(master: Master) -> None:
    node = master.snapshot.nodes[master.nodes[1]]
    master.cfg.Update(node.Replace(offline=True))
    _Run(master, _Make())
    assert master[1].calls == [] and master.last.messages == ["working"]


@pytest.mark.parametrize("values", [{"dry_run": True}])
def test_dry_run_changes_nothing(master: Master, values: dict[str, Any]) -> None:
    unit = _Make(Work=_AddTag, CheckPrereq=lambda self: setattr(self, "dry_run_result", "would work"))
    serial = master.snapshot.serial_no
    assert _Run(master, unit, values=values) == "would work"
    assert master.snapshot.serial_no == serial
    assert [(path, phase) for path, phase, _ in master[0].hook_runs] == [("test-hook", "pre")]
    assert master.last.messages == [" - INFO: dry-run mode requested, not actually executing the operation"]


def test_the_configuration_hook_also_runs_after_a_failure(master: Master) -> None:
    def work(self: Unit) -> None:
        _AddTag(self)
        raise errors.OpExecError("too late")

    with pytest.raises(errors.OpExecError, match="too late"):
        _Run(master, _Make(Work=work))
    assert [path for path, _, _ in master[0].hook_runs] == ["test-hook", "config-update"]


# --- results and errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", [opcodes.OpTestDummy(result=1, messages=0, fail=False, submit_jobs=None)])
def test_an_opcode_without_unit_is_unknown(master: Master, op: opcodes.OpCode) -> None:
    with pytest.raises(errors.OpCodeUnknown, match=op.OP_ID):
        master.Run(op)
    with pytest.raises(errors.OpCodeUnknown, match="OP_TEST_DELAY"):
        master.Run(OP(duration=0), units={})


def test_a_wrong_result_is_told(master: Master) -> None:
    with pytest.raises(errors.OpResultError, match="does not match null for OP_TEST_DELAY"):
        _Run(master, _Make(Work=lambda self: 5))
    assert _Run(master, _Make(Work=lambda self: 5), values={"dry_run": True}) is None


def test_a_failed_assertion_is_a_bug_report(master: Master) -> None:
    def work(self: Unit) -> None:
        assert self.op.duration, "no duration"

    with pytest.raises(errors.OpExecError, match=r"(?s)report this as a bug: 'no duration.*test_processor.py:\d+"):
        _Run(master, _Make(Work=work))


def test_jobs_of_a_result_inherit_from_their_parent(master: Master) -> None:
    jobs = [[OP(duration=1), OP(duration=2, priority=-10, comment="mine")], [opcodes.OpTagsGet(kind="cluster")]]
    unit = _Make(Work=lambda self: ResultWithJobs(jobs, other="value"))
    trail = [["gnt:user", "because", 1]]
    op = opcodes.OpClusterVerifyDisks(priority=10, debug_level=2, reason=trail)
    with pytest.raises(errors.OpResultError):
        # JOBS has no other key.
        master.Run(op, units={op.OP_ID: unit})
    first, second = master.last.jobs[0]
    assert (first.priority, second.priority) == (10, -10)
    assert (first.comment, second.comment) == ("Submitted by OP_CLUSTER_VERIFY_DISKS", "mine")
    assert first.debug_level == 2 and first.reason == trail
    result = master.Run(
        opcodes.OpClusterVerifyDisks(),
        units={op.OP_ID: _Make(Work=lambda self: ResultWithJobs([[OP(duration=1)]]))},
    )
    assert result == {"jobs": [[True, 100]]}


def test_jobs_cannot_be_submitted_outside_the_queue(master: Master) -> None:
    unit = _Make(Work=lambda self: ResultWithJobs([[OP(duration=1)]]))
    with pytest.raises(errors.ProgrammerError, match="outside the job queue"):
        mcpu.Processor(master.context, 5, {OP.OP_ID: unit}).ExecOpCode(OP(duration=0))


def test_tasklets_check_all_before_any_executes(master: Master) -> None:
    order: list[str] = []

    class Part(Tasklet):
        def __init__(self, lu: LogicalUnit, name: str):
            super().__init__(lu)
            self.name = name

        def CheckPrereq(self) -> None:
            order.append(f"check {self.name}")

        def Exec(self, feedback: Any) -> None:
            order.append(f"exec {self.name}")

    class Parts(NoHooksLU):
        REQ_BGL = False

        def ExpandNames(self) -> None:
            self.needed_locks = {}
            self.tasklets = [Part(self, "a"), Part(self, "b")]

    _Run(master, Parts)
    assert order == ["check a", "check b", "exec a", "exec b"]


def test_short_resources_are_tried_again_where_the_unit_can(master: Master) -> None:
    error = errors.OpPrereqError("no memory now", errors.ECODE_TEMP_NORES)

    def check(self: Unit) -> None:
        raise error

    with pytest.raises(errors.OpPrereqError, match="no memory now"):
        _Run(master, _Make(CheckPrereq=check))
    with pytest.raises(errors.LockAcquireTimeout):
        _Run(master, _Make(CheckPrereq=check, PrepareRetry=lambda self, feedback: True))
    assert master.last.events == ["start", "retry"]


def test_secrets_that_were_not_kept_are_asked_for_again(master: Master) -> None:
    op = opcodes.OpTestOsParams(osparams_secret={"password": opcodes.REDACTED})
    with pytest.raises(errors.OpPrereqError, match="re-submit secret parameters"):
        master.Run(op, units={op.OP_ID: _Make()})


# --- nodes confirm the master --------------------------------------------------------------------------------------------


def test_a_silent_node_stops_what_would_change_it(master: Master) -> None:
    node = master.nodes[1]
    master[1].Stop()
    unit = _Make(NEEDED={locking.LEVEL_NODE: [node]}, BuildHooksNodes=lambda self: ([], []))
    with pytest.raises(errors.GenericError, match="node2"):
        _Run(master, unit)
    assert "Exec" not in [name for name, _ in unit.seen]
    # One that only looks goes on; so does one that acts on other nodes.
    _Run(master, _Make(NEEDED={locking.LEVEL_NODE: [node]}, CHANGES_NODES=False, BuildHooksNodes=unit.BuildHooksNodes))
    _Run(master, _Make(NEEDED={locking.LEVEL_NODE: [master.nodes[0]]}, BuildHooksNodes=unit.BuildHooksNodes))
    # The nodes of an instance count when the instance is locked.
    with pytest.raises(errors.GenericError, match="node2"):
        _Run(master, _Make(NEEDED={locking.LEVEL_INSTANCE: [WEB]}, BuildHooksNodes=unit.BuildHooksNodes))
    master.cfg.Update(master.snapshot.nodes[node].Replace(offline=True))
    _Run(master, unit)


@pytest.mark.parametrize(
    ("needed", "shared", "fine"),
    [
        ({locking.LEVEL_NODE: locking.ALL_SET}, {}, False),
        ({locking.LEVEL_NODE: locking.ALL_SET, locking.LEVEL_NODE_ALLOC: locking.ALL_SET}, {}, True),
        ({locking.LEVEL_NODE: []}, {locking.LEVEL_NODE: 1}, False),
        ({locking.LEVEL_NODE: []}, {locking.LEVEL_NODE: 1, locking.LEVEL_NODE_ALLOC: 1}, True),
    ],
)
def test_nodes_and_their_choice_are_locked_alike(
    master: Master, needed: dict[int, Any], shared: dict[int, int], fine: bool
) -> None:
    expand: Callable[[Any], None] = Unit.ExpandNames

    def names(self: Unit) -> None:
        expand(self)
        self.share_locks.update(shared)

    unit = _Make(NEEDED=needed, ExpandNames=names)
    if fine:
        _Run(master, unit)
    else:
        with pytest.raises(AssertionError, match="node-alloc"):
            _Run(master, unit)


def test_the_hint_of_an_error_is_in_the_log(master: Master) -> None:
    """On the wire an error has no room for it."""

    def work(self: Unit) -> None:
        raise errors.OpExecError("it failed", hint="do this")

    with pytest.raises(errors.OpExecError, match="it failed"):
        _Run(master, _Make(Work=work))
    assert master.last.messages[-1].endswith("Hint: do this")


@pytest.mark.req("D20-RAPI-06")
def test_what_was_changed_meanwhile_is_left_alone(master: Master) -> None:
    """The serial number is compared when the locks are held, not when the job was made."""
    unit = _Make(NEEDED={locking.LEVEL_INSTANCE: WEB})
    instance = next(inst for inst in master.snapshot.instances.values() if inst.name == WEB)

    def run(text: str) -> list[str]:
        unit.seen.clear()
        _Run(master, unit, values={"if_match": text})
        return [name for name, _ in unit.seen]

    assert "Exec" in run(f"{instance.uuid}-{instance.serial_no}")
    for text, words in (
        (f"{instance.uuid}-{instance.serial_no + 1}", f"its serial number is {instance.serial_no}, not"),
        ("00000000-0000-4000-8000-000000000000-1", "no longer exists"),
    ):
        with pytest.raises(errors.OpPrereqError, match=words) as caught:
            run(text)
        assert caught.value.args[1] == errors.ECODE_STATE
        assert "CheckPrereq" not in [name for name, _ in unit.seen]
    cluster = master.snapshot.cluster
    assert "Exec" in run(f"{cluster.uuid}-{cluster.serial_no}")
