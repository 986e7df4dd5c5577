"""What units may rely on and must keep to: locks by name only, priorities, hooks, messages."""

from __future__ import annotations

import ast
import pathlib
from typing import Any

import pytest
from support import sources
from support.actors import Cast
from support.master import Callbacks, Master

from ganeti import constants, errors, locking, mcpu, opcodes, store
from ganeti.cmdlib import LU_MAPPING, LogicalUnit

WEB = "web.example.org"
OP = opcodes.OpTestDelay
LIB = pathlib.Path(mcpu.__file__).parent


class Unit(LogicalUnit[Any]):
    """Takes ``NEEDED`` and does ``Work``."""

    REQ_BGL = False
    NEEDED: dict[int, Any] = {}

    def ExpandNames(self) -> None:
        self.needed_locks = dict(self.NEEDED)

    def BuildHooksEnv(self) -> dict[str, Any]:
        return {}

    def BuildHooksNodes(self) -> tuple[list[str], list[str]]:
        return [], []

    def Exec(self, feedback: Any) -> Any:
        return self.Work()

    def Work(self) -> Any:
        return None


def _Make(**attributes: Any) -> type[Unit]:
    return type("LUOfTest", (Unit,), attributes)


def _Run(master: Master, unit: type[LogicalUnit[Any]], **options: Any) -> Any:
    return master.Run(OP(duration=0), units={OP.OP_ID: unit}, **options)


# --- locks --------------------------------------------------------------------------------------------------------------


@pytest.mark.req("D20-LOCK-04")
def test_units_declare_names_and_never_handle_locks() -> None:
    """No module of theirs names a class of locks or acquires one; names go into the declared attributes.

    But the verification, which holds no locks while it waits, takes those that are free (doc/design-verify.rst).
    """
    handled = []
    for path in sorted(LIB.glob("cmdlib/**/*.py")):
        for node in ast.walk(sources.Parse(path.read_text(encoding="utf-8"))):
            name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
            if name in {"SharedLock", "LockSet", "acquire"}:
                handled.append(f"{path.relative_to(LIB)} {name}")  # type: ignore[attr-defined]
    assert handled == ["cmdlib/cluster/verify_again.py acquire"]


@pytest.mark.req("D20-LOCK-04")
def test_what_a_unit_declares_is_all_that_it_holds(master: Master) -> None:
    held: dict[int, set[str]] = {}

    def work(self: Unit) -> None:
        held.update({level: self.owned_locks(level) for level in locking.LEVELS if self.glm.is_owned(level)})

    node = master.nodes[1]
    _Run(master, _Make(NEEDED={locking.LEVEL_INSTANCE: [WEB], locking.LEVEL_NODE_RES: [node]}, Work=work))
    assert held == {
        locking.LEVEL_CLUSTER: {locking.BGL},
        locking.LEVEL_INSTANCE: {WEB},
        locking.LEVEL_NODE_RES: {node},
    }


@pytest.mark.req("D20-LOCK-28")
def test_names_are_expanded_before_anything_is_locked(master: Master) -> None:
    """Whatever part of its name an administrator types, the lock is that of the whole name."""
    held: list[set[str]] = []

    class Started(LU_MAPPING["OP_INSTANCE_STARTUP"]):  # type: ignore[misc, name-defined]
        def CheckPrereq(self) -> None:
            held.append(self.owned_locks(locking.LEVEL_INSTANCE))
            super().CheckPrereq()

    for typed in ("web", "WEB.example", WEB):
        master.Run(opcodes.OpInstanceStartup(instance_name=typed), units={"OP_INSTANCE_STARTUP": Started})
    assert held == [{WEB}] * 3


@pytest.mark.req("D20-LOCK-31")
def test_the_docstrings_say_how_locks_are_declared() -> None:
    """Every attribute that declares locks, every form of names, and who calls what when."""
    text = f"{LogicalUnit.__doc__} {LogicalUnit.ExpandNames.__doc__} {LogicalUnit.DeclareLocks.__doc__}"
    declared = [name for name in vars(_Example()) if name.endswith("_locks")]
    assert {"needed_locks", "share_locks", "add_locks", "remove_locks", "opportunistic_locks"} <= set(declared)
    assert [name for name in declared if name not in text] == []
    for word in ("ALL_SET", "a list of names", "an empty list", "DeclareLocks", "ExpandNames", "CheckPrereq"):
        assert word in text
    assert "timeout" in (mcpu.Processor.ExecOpCode.__doc__ or "")


def _Example() -> LogicalUnit[Any]:
    return Unit(None, OP(duration=0), mcpu.Context(*[None] * 5))  # type: ignore[arg-type]


@pytest.mark.req("D20-LOCK-10")
def test_locks_are_nowhere_but_in_this_master(master: Master) -> None:
    """The store, which other nodes have, knows nothing of them: the next master begins with all of them free."""
    looked: list[Any] = []

    def work(self: Unit) -> None:
        kinds = {row.kind for row in master.own.database.GetRows()}
        root = self.cfg.Snapshot()
        names = [instance.name for instance in root.instances.values()]
        following = locking.LockManager(root.nodes, root.nodegroups, names, root.networks)
        looked.append((kinds, [row.name for row in following.QueryLocks() if row.owner]))
        looked.append([row.name for row in self.glm.QueryLocks() if row.owner])

    _Run(master, _Make(NEEDED={locking.LEVEL_INSTANCE: [WEB]}, Work=work))
    (kinds, owned), held = looked
    assert owned == []
    assert held == ["cluster/BGL", f"instance/{WEB}"]
    assert not any("lock" in kind for kind in kinds)


def test_the_whole_level_cannot_be_kept_without_the_choice_of_nodes(master: Master) -> None:
    """Either sign of it is enough: that all were asked for, or that the set is held."""
    for share in (0, 1):
        unit = _Make(
            NEEDED={locking.LEVEL_NODE: locking.ALL_SET, locking.LEVEL_NODE_ALLOC: []},
            DeclareLocks=lambda self, level, share=share: self.share_locks.update(
                {locking.LEVEL_NODE: share, locking.LEVEL_NODE_ALLOC: share}
            ),
        )
        with pytest.raises(AssertionError, match="locks all nodes without node-alloc"):
            _Run(master, unit)


def test_names_that_are_taken_opportunistically_are_not_waited_for(master: Master) -> None:
    """Whatever time there is, a lock of somebody else's is left out."""
    got: list[set[str]] = []
    unit = _Make(
        NEEDED={locking.LEVEL_INSTANCE: [WEB]},
        DeclareLocks=lambda self, level: self.opportunistic_locks.update({level: True}),
        Work=lambda self: got.append(self.owned_locks(locking.LEVEL_INSTANCE)),
    )
    for timeout in (None, 5.0):
        _Run(master, unit, timeout=timeout)
    assert got == [{WEB}] * 2
    with Cast("other") as (other,):
        other.Do(master.glm.acquire, locking.LEVEL_CLUSTER, locking.BGL, shared=1)
        other.Do(master.glm.acquire, locking.LEVEL_INSTANCE, WEB)
        mcpu.Processor(master.context, 9, {OP.OP_ID: unit}).ExecOpCode(OP(duration=0), None, timeout=5.0)
        other.Do(master.glm.release, locking.LEVEL_INSTANCE)
        other.Do(master.glm.release, locking.LEVEL_CLUSTER)
    assert got[-1] == set()


def test_the_priority_of_the_callbacks_goes_before_the_callers(master: Master) -> None:
    asked: list[int | None] = []

    class Manager(locking.LockManager):
        def acquire(self, level: int, names: Any, timeout: Any = None, shared: int = 0, priority: Any = None,
                    opportunistic: bool = False) -> Any:  # fmt: skip
            asked.append(priority)
            return super().acquire(level, names, timeout, shared, priority, opportunistic)

    manager = Manager(master.nodes, [], [WEB], [])
    context = mcpu.Context(master.cfg, manager, master.rpc, master.store, master.context.hooks)
    processor = mcpu.Processor(context, 3, {OP.OP_ID: _Make(NEEDED={locking.LEVEL_INSTANCE: [WEB]})})
    processor.ExecOpCode(OP(duration=0), None, priority=7)
    assert asked == [7, 7]

    class Urgent(Callbacks):
        def CurrentPriority(self) -> int | None:
            return -3

    processor.ExecOpCode(OP(duration=0), Urgent(), priority=7)
    assert asked[2:] == [-3, -3]
    assert manager._monitor.OwnerName() != "3", "the thread has its own name again"


def test_locks_that_cannot_be_added_are_named(master: Master) -> None:
    for names, shown in ((WEB, WEB), ([WEB, "a.example.org"], f"a.example.org, {WEB}")):
        unit = _Make(ExpandNames=lambda self, names=names: (
            setattr(self, "needed_locks", {}), self.add_locks.update({locking.LEVEL_INSTANCE: names})
        ))  # fmt: skip
        with pytest.raises(errors.OpPrereqError, match=f"locks for instance {shown}: "):
            _Run(master, unit)


# --- hooks and messages -------------------------------------------------------------------------------------------------


def test_a_unit_hears_of_its_hooks_before_and_after(master: Master) -> None:
    heard: list[tuple[str, Any]] = []

    def callback(self: Unit, phase: str, results: Any, feedback: Any, result: Any) -> Any:
        heard.append((phase, result))
        return f"{result} with hooks" if phase == constants.HOOKS_PHASE_POST else None

    with pytest.raises(errors.OpResultError, match="done with hooks"):  # it became the result, which is to be null
        _Run(master, _Make(HooksCallBack=callback, Work=lambda self: "done"))
    assert heard == [(constants.HOOKS_PHASE_PRE, None), (constants.HOOKS_PHASE_POST, "done")]


def test_messages_of_a_unit_stand_in_the_jobs_log(master: Master) -> None:
    def work(self: Unit) -> None:
        self.proc.LogStep(1, 3, "copying")
        self.LogWarning("it is slow", hint="wait")
        self.LogWarning("it is still slow")
        self.LogInfo("done")

    _Run(master, _Make(Work=work))
    assert master.last.messages == [
        "STEP 1/3 copying",
        " - WARNING: it is slow",
        "      Hint: wait",
        " - WARNING: it is still slow",
        " - INFO: done",
    ]


def test_a_unit_may_run_the_post_hooks_itself(master: Master) -> None:
    """For a node that is about to leave; what goes wrong there stops nothing."""
    name = master[1].name
    master[1].AddHook("test-hook", "post", "10-seen", lambda env: (0, "ok"))
    unit = _Make(HPATH="test-hook", HTYPE="CLUSTER", Work=lambda self: self.proc.RunPostHooks([name]))
    _Run(master, unit)
    assert [(path, phase) for path, phase, _ in master[1].hook_runs] == [("test-hook", "post")]

    def fails(self: Unit) -> dict[str, Any]:
        if hasattr(self, "begun"):
            raise errors.ProgrammerError("no environment")
        self.begun = True  # type: ignore[attr-defined]
        return {}

    broken = _Make(
        HPATH="test-hook", HTYPE="CLUSTER", BuildHooksEnv=fails,
        Work=lambda self: self.proc.RunPostHooks([name]) or delattr(self, "begun"),
    )  # fmt: skip
    _Run(master, broken)
    assert f" - WARNING: Errors occurred running hooks on {name}" in master.last.messages


# --- a master that ends -------------------------------------------------------------------------------------------------


def test_an_opcode_whose_master_ends_leaves_no_locks(master: Master) -> None:
    """The change is never acknowledged; the error goes up as it is, past whatever the unit would do about errors of its own."""

    def work(self: Unit) -> None:
        master.store.Stop(1.0)
        try:
            self.cfg.MarkInstanceDown(self.cfg.Snapshot().InstanceByName(WEB).uuid)
        except errors.OpExecError:  # what units catch
            raise AssertionError("this is not an error of the operation") from None

    with pytest.raises(store.MasterEnded):
        _Run(master, _Make(NEEDED={locking.LEVEL_INSTANCE: [WEB]}, Work=work))
