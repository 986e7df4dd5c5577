"""What a logical unit is, and how it says which locks it needs (doc/reference/locking.md 8)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from ganeti import errors, locking, opcodes
from ganeti.locking.lockset import AllSet, NameList

if TYPE_CHECKING:
    from ganeti import objects
    from ganeti.cmdlib.context import Context, Processor
    from ganeti.config import ConfigWriter
    from ganeti.rpc import RpcResult, RpcRunner

# Object types of hooks.
HTYPE_CLUSTER = "CLUSTER"
HTYPE_NODE = "NODE"
HTYPE_GROUP = "GROUP"
HTYPE_NETWORK = "NETWORK"
HTYPE_INSTANCE = "INSTANCE"

# What was removed where a lock of this level is gone.
_LOCKED_KINDS = {
    locking.LEVEL_INSTANCE: "Instance",
    locking.LEVEL_NODEGROUP: "A node group of this request",
    locking.LEVEL_NODE: "A node of this request",
    locking.LEVEL_NODE_RES: "A node of this request",
    locking.LEVEL_NETWORK: "A network of this request",
}

Feedback = Callable[..., None]
Needed = list[str] | str | AllSet


# The opcode that a unit executes.
OpT = TypeVar("OpT", bound=opcodes.OpCode)
T = TypeVar("T")


def Filled(value: T | None) -> T:
    """Return a parameter that may be left out by clients, but was filled in by an earlier phase of the unit."""
    assert value is not None, "a phase of the unit was skipped"
    return value


class DeclareAgain(Exception):
    """Raised by DeclareLocks when what an earlier level was declared for no longer holds.

    The locks from node-alloc on are given back, declared anew and taken again; the unit itself stays.
    """


class ResultWithJobs:
    """A result that also submits jobs: lists of opcodes, one list a job; ``values`` are further keys of the result."""

    def __init__(self, jobs: Sequence[Sequence[opcodes.OpCode]], **values: Any):
        self.jobs = [list(job) for job in jobs]
        self.values = values


class LogicalUnit(Generic[OpT]):
    """The code that executes one opcode.  One object lives for one execution, in one thread.

    ``OpT`` is the class of the opcode; its ``OP_HOOK`` is the path of the unit's hooks, ``HTYPE`` the type of their object.

    The processor calls, in this order (doc/reference/locking.md 8.2)::

        CheckArguments   the opcode alone: no locks but the BGL, no calls to nodes; may fill in defaults
        ExpandNames      turns names into objects and says what to lock
        DeclareLocks     once for each declared level, with the levels before it held
        CheckPrereq      all locks held: can it be done?  Changes nothing
        BuildHooksEnv, BuildHooksNodes
        Exec             does it; the only method that changes the cluster
        BuildHooksEnv    again, for the post hooks

    Locks are declared by name only and never handled otherwise.  ``needed_locks`` maps a level to

    * a list of names, or one name: exactly these, or the opcode fails
    * ``locking.ALL_SET``: every member of the level
    * an empty list: not known yet, DeclareLocks fills it in

    Levels that are not in it are skipped.  ``share_locks[level] = 1`` takes them shared, ``opportunistic_locks[level]``
    takes what is free.  ``add_locks`` maps a level to names that are made and owned, with those of ``needed_locks`` if both name
    the level; they disappear again unless the unit deletes its entry of ``remove_locks`` when the object exists.  ``recalculate_locks[level]`` ("replace" or "append")
    lets DeclareLocks put the nodes of the locked instances in the place of the names, or beside them.  For instance::

        # all nodes and one instance
        self.needed_locks = {locking.LEVEL_NODE: locking.ALL_SET, locking.LEVEL_INSTANCE: ["web.example.com"]}
        # no locks at all
        self.needed_locks = {}

    A job that does not get its locks in time tries again, with a new unit and the same opcode, which may be stored meanwhile.
    So units write into the opcode only what the next try would find as well: full names and UUIDs, which keep meaning the same
    object, and defaults.  What they read from an object that may change goes into the unit, or into a copy of the opcode.

    What was worked out before locks were held (the nodes of an instance, the group of a node) must be checked again in
    CheckPrereq, which fails with ECODE_STATE when it has changed.

    The instance level is named by instance names, all others by uuids.
    """

    HTYPE: ClassVar[str | None] = None
    REQ_BGL: ClassVar[bool] = True
    # The node-alloc lock is taken in another mode than the node locks (doc/reference/locking.md 10.3).
    NAL_MODE_DIFFERS: ClassVar[bool] = False
    # Exec changes something on nodes, not only in the configuration.
    CHANGES_NODES: ClassVar[bool] = True

    def __init__(self, processor: Processor, op: OpT, context: Context):
        self.proc = processor
        self.op = op
        self.context = context
        self.cfg: ConfigWriter = context.cfg
        self.glm: locking.LockManager = context.glm
        self.rpc: RpcRunner = context.rpc
        self.needed_locks: dict[int, Needed] | None = None
        self.share_locks: dict[int, int] = dict.fromkeys(locking.LEVELS, 0)
        self.opportunistic_locks: dict[int, bool] = dict.fromkeys(locking.LEVELS, False)
        self.add_locks: dict[int, list[str] | str] = {}
        self.remove_locks: dict[int, list[str] | str] = {}
        self.recalculate_locks: dict[int, str] = {}
        self.tasklets: list[Tasklet] | None = None
        self.dry_run_result: Any = None
        op.debug_level = op.debug_level or 0
        op.Validate(set_defaults=True)
        self.CheckArguments()

    @property
    def HPATH(self) -> str | None:
        """Path of the hooks; None where the opcode has none."""
        return self.op.OP_HOOK

    # --- for the subclasses -------------------------------------------------------------------------------------------

    @property
    def snapshot(self) -> objects.Snapshot:
        """Return the configuration as it is acknowledged now."""
        return self.cfg.Snapshot()

    @property
    def ec_id(self) -> Any:
        """Return the job's id, under which reservations and changes are made."""
        return self.proc.ec_id

    def owned_locks(self, level: int) -> set[str]:
        return self.glm.list_owned(level)

    def LogWarning(self, message: str, hint: str | None = None) -> None:
        self.proc.LogWarning(message, hint=hint)

    def LogInfo(self, message: str) -> None:
        self.proc.LogInfo(message)

    def LogStep(self, current: int, total: int, message: str) -> None:
        self.proc.LogStep(current, total, message)

    def Pause(self, seconds: float) -> None:
        """Wait between two looks at something that takes long; raise OpExecError if an administrator has ended the job.

        Only where its work can be left in good order.
        """
        self.proc.Pause(seconds)

    def Undisturbed(self) -> AbstractContextManager[None]:
        """Have a kill wait until the block is over: for what is short, and must not be left half done."""
        return self.proc.Undisturbed()

    # --- what units define --------------------------------------------------------------------------------------------

    def CheckArguments(self) -> None:
        """Check the opcode's parameters by themselves; raise OpPrereqError(ECODE_INVAL)."""

    def ExpandNames(self) -> None:
        """Turn names as typed into objects and set ``needed_locks``; a unit that takes the BGL alone needs none."""
        assert self.REQ_BGL, f"{type(self).__name__} shares the BGL and must say what it locks"
        self.needed_locks = {}

    def DeclareLocks(self, level: int) -> None:
        """Called before ``level`` is locked, the earlier levels being held; may change ``needed_locks[level]``.

        May raise DeclareAgain.  The time this takes does not count as waiting for locks.
        """

    def LostLock(self, level: int, err: errors.LockError) -> errors.GenericError:
        """Return what to raise if something that ``needed_locks[level]`` names was removed before its lock was held."""
        needed = (self.needed_locks or {}).get(level)
        if needed is None or isinstance(needed, AllSet) or level not in _LOCKED_KINDS:
            return err
        lost = sorted(set(NameList(needed)) - self.glm.Names(level))
        # Instances are locked by name, all others by uuid, which says nothing to anybody.
        names = f" '{', '.join(lost)}'" if level == locking.LEVEL_INSTANCE else ""
        return errors.OpPrereqError(
            f"{_LOCKED_KINDS[level]}{names} was removed or renamed while this job waited for its lock",
            errors.ECODE_NOENT,
        )

    def CheckPrereq(self) -> None:
        """Raise OpPrereqError if the operation is not possible now."""
        for tasklet in self.tasklets or ():
            tasklet.CheckPrereq()

    def Exec(self, feedback: Feedback) -> Any:
        """Do the work and return the opcode's result; raise OpExecError."""
        assert self.tasklets is not None, f"{type(self).__name__} neither defines Exec nor has tasklets"
        for tasklet in self.tasklets:
            tasklet.Exec(feedback)

    def BuildHooksEnv(self) -> dict[str, Any]:
        """Return the variables of the hooks, without the prefix GANETI_; called before and after Exec."""
        raise NotImplementedError

    def BuildHooksNodes(self) -> tuple[Iterable[str], Iterable[str]]:
        """Return the uuids of the nodes of the pre hooks, and of those of the post hooks."""
        raise NotImplementedError

    def HooksCallBack(
        self, phase: str, results: dict[str, RpcResult] | None, feedback: Feedback, lu_result: Any
    ) -> Any:
        """Look at the hooks' results and return the opcode's result."""
        del phase, results, feedback
        return lu_result

    def PrepareRetry(self, feedback: Feedback) -> bool:
        """Clean up and return whether the unit can start again when resources are short for the moment; it holds no locks."""
        del feedback
        return False

    def NodesToConfirm(self) -> set[str]:
        """Return the uuids of the nodes that this unit may change, which must confirm this master (doc/design-store.rst, 6).

        By default those it holds exclusively and the nodes of instances it holds exclusively.
        """
        nodes: set[str] = set()
        if not self.CHANGES_NODES:
            return nodes
        snapshot = self.snapshot
        for level in (locking.LEVEL_NODE, locking.LEVEL_NODE_RES):
            if not self.share_locks[level]:
                nodes.update(self.owned_locks(level))
        if not self.share_locks[locking.LEVEL_INSTANCE]:
            for name in self.owned_locks(locking.LEVEL_INSTANCE):
                instance = snapshot.InstanceByName(name)
                if instance is not None:
                    nodes.update(snapshot.AllNodes(instance))
        return self.OnlineNodes(nodes)

    def OnlineNodes(self, nodes: Iterable[str]) -> set[str]:
        """Return those of the nodes that are configured and not marked offline."""
        snapshot = self.snapshot
        return {uuid for uuid in nodes if uuid in snapshot.nodes and not snapshot.nodes[uuid].offline}


class NoHooksLU(LogicalUnit[OpT]):
    """A unit whose opcode has no hooks."""

    HTYPE: ClassVar[str | None] = None

    def BuildHooksEnv(self) -> dict[str, Any]:
        raise AssertionError(f"{type(self).__name__} has no hooks")

    def BuildHooksNodes(self) -> tuple[Iterable[str], Iterable[str]]:
        raise AssertionError(f"{type(self).__name__} has no hooks")


class Tasklet:
    """A part of a unit that several units share; uses the unit's locks, configuration and calls."""

    def __init__(self, lu: LogicalUnit):
        self.lu = lu
        self.cfg = lu.cfg
        self.rpc = lu.rpc

    @property
    def snapshot(self) -> objects.Snapshot:
        return self.cfg.Snapshot()

    def CheckPrereq(self) -> None:
        """As LogicalUnit.CheckPrereq."""

    def Exec(self, feedback: Feedback) -> None:
        """As LogicalUnit.Exec."""
        raise NotImplementedError
