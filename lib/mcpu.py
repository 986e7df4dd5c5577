"""Runs one opcode: from its logical unit through locks, checks, hooks and execution to a checked result.

The order is that of doc/reference/locking.md 8.2.  The job queue above decides when an opcode runs and how long one try for its
locks may take; a try that was not enough ends in errors.LockAcquireTimeout with nothing held.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from ganeti import constants, errors, locking, opcodes, runtime
from ganeti.cmdlib import LU_MAPPING, LogicalUnit, ResultWithJobs
from ganeti.cmdlib.base import DeclareAgain
from ganeti.cmdlib.context import Context
from ganeti.locking.lockset import AllSet, NameList
from ganeti.master import hooks

__all__ = [
    "Context",
    "Execute",
    "OpExecCbBase",
    "Processor",
]


# Objects that an opcode's ``if_match`` may speak of, beside the cluster.
_VERSIONED = ("instance", "node", "nodegroup", "network", "disk")


class OpExecCbBase:
    """How an opcode's execution talks to whoever runs it.  Methods may raise to stop the opcode."""

    def NotifyStart(self) -> None:
        """Learn that all locks are held and CheckPrereq comes next."""

    def NotifyRetry(self) -> None:
        """Learn that the opcode is given up for now and will be tried again."""

    def Feedback(self, kind: str, message: Any) -> None:
        """Take a message of the opcode: one of constants.ELOG_*, and its content."""

    def Pause(self, seconds: float) -> None:
        """Wait between two looks at something that takes long; the opcode stops where the job is to end."""
        runtime.Sleep(seconds)

    def Undisturbed(self) -> AbstractContextManager[None]:
        """Have a kill wait until the block is over."""
        return nullcontext()

    def CurrentPriority(self) -> int | None:
        """Return the priority of the next lock request; asked before each level."""
        return None

    def SubmitManyJobs(self, jobs: list[list[opcodes.OpCode]]) -> list[list[Any]]:
        """Submit jobs of the opcode's own: [[success, job id or text], ...]."""
        raise errors.ProgrammerError("Opcodes that run outside the job queue can't submit jobs")


class _Deadline:
    """One timeout for all locks of one try."""

    def __init__(self, timeout: float | None):
        self._end = None if timeout is None else runtime.Monotonic() + timeout

    def Remaining(self) -> float | None:
        return None if self._end is None else max(0.0, self._end - runtime.Monotonic())

    @contextmanager
    def Paused(self) -> Iterator[None]:
        """Do not count the time that the body takes."""
        began = runtime.Monotonic()
        try:
            yield
        finally:
            if self._end is not None:
                self._end += runtime.Monotonic() - began


class Processor:
    """Executes opcodes, one at a time, on the calling thread.

    ``ec_id`` is the job's id: locks are shown under it, reservations made in its name are dropped at the end.
    ``units`` maps opcode ids to classes.
    """

    def __init__(self, context: Context, ec_id: Any, units: Mapping[str, type[LogicalUnit]] = LU_MAPPING):
        self.context = context
        self._units = units
        self._ec_id = ec_id
        self._cbs: OpExecCbBase = OpExecCbBase()
        self._deadline = _Deadline(None)
        self._hooks: hooks.HooksMaster | None = None
        self._started = False

    @property
    def ec_id(self) -> Any:
        return self._ec_id

    # --- the way of an opcode -----------------------------------------------------------------------------------------

    def ExecOpCode(
        self,
        op: opcodes.OpCode,
        cbs: OpExecCbBase | None = None,
        timeout: float | None = None,
        priority: int | None = None,
    ) -> Any:
        """Execute an opcode and returns its result.

        ``timeout``: seconds that all locks together may take, None: no limit.  ``priority`` is used where ``cbs``
        names none.  Raises errors.LockAcquireTimeout, errors of the opcode, and whatever ``cbs`` raises; whichever way it
        ends, no lock is held and no reservation is left.
        """
        lu_class = self._LuClass(op)
        self._cbs = cbs or OpExecCbBase()
        self._priority = priority
        self._deadline = _Deadline(timeout)
        self._started = False
        glm = self.context.glm
        glm.SetOwnerName(str(self._ec_id))
        try:
            self._Acquire(locking.LEVEL_CLUSTER, locking.BGL, shared=0 if lu_class.REQ_BGL else 1)
            try:
                lu = lu_class(self, op, self.context)
                _CheckSecrets(op)
                lu.ExpandNames()
                assert lu.needed_locks is not None, f"{lu_class.__name__}: needed_locks is not set by ExpandNames"
                result = self._Attempt(lu)
            except errors.GenericError as err:
                # The error travels without its hint, in the shape of 3.1; the job's log has room for it.
                if err.hint:
                    self.Log(f"Hint: {err.hint}")
                raise
            finally:
                self._Tidy()
        finally:
            glm.SetOwnerName(None)
            self._hooks = None
        if not op.dry_run:
            op.CheckResult(result)
        return result

    def _LuClass(self, op: opcodes.OpCode) -> type[LogicalUnit]:
        if not op.WITH_LU or op.OP_ID not in self._units:
            raise errors.OpCodeUnknown(
                f"Opcode {op.OP_ID} is not supported in this release",
                hint="see 'gnt-cluster version'; the opcode is declared for compatibility and not carried out here",
            )
        return self._units[op.OP_ID]

    def _Tidy(self) -> None:
        """Drop the job's reservations, then the BGL."""
        try:
            self.context.cfg.DropECReservations(self._ec_id)
        finally:
            if self.context.glm.is_owned(locking.LEVEL_CLUSTER):
                self.context.glm.release(locking.LEVEL_CLUSTER)

    def _Attempt(self, lu: LogicalUnit) -> Any:
        """Lock and execute; let the job wait once more if resources are short and the unit can start again."""
        try:
            return self._LockAndExec(lu, locking.LEVELS[1:])
        except errors.OpPrereqError as err:
            if err.args[1:] != (errors.ECODE_TEMP_NORES,) or not lu.PrepareRetry(self.Log):
                raise
            logging.info("Resources are short for %s, it will be tried again: %s", lu.op.OP_ID, err)
            if self._started:
                self._cbs.NotifyRetry()
            raise errors.LockAcquireTimeout("resources are short for the moment") from err

    def _LockAndExec(self, lu: LogicalUnit, levels: tuple[int, ...]) -> Any:
        """Take the locks of the first of ``levels``, continue with the others, and give them back."""
        if not levels:
            return self._CheckAndExec(lu)
        level, *rest = levels
        assert lu.needed_locks is not None
        if level not in lu.needed_locks and level not in lu.add_locks:
            return self._LockAndExec(lu, tuple(rest))
        while True:
            try:
                return self._LockLevel(lu, level, tuple(rest))
            except DeclareAgain:
                if level != locking.LEVEL_NODE_ALLOC:
                    raise

    def _LockLevel(self, lu: LogicalUnit, level: int, rest: tuple[int, ...]) -> Any:
        assert lu.needed_locks is not None
        with self._deadline.Paused():
            lu.DeclareLocks(level)
        try:
            if level in lu.add_locks:
                self._Add(lu, level)
            else:
                self._AcquireFor(lu, level, lu.needed_locks[level])
            return self._LockAndExec(lu, rest)
        finally:
            self._Release(lu, level)

    def _AcquireFor(self, lu: LogicalUnit, level: int, names: Any) -> None:
        try:
            self._Acquire(level, names, shared=lu.share_locks[level], opportunistic=lu.opportunistic_locks[level])
        except errors.LockError as err:
            raise lu.LostLock(level, err) from err

    def _Acquire(self, level: int, names: Any, shared: int, opportunistic: bool = False) -> None:
        # Asking for the priority is also where a cancelled job stops.
        priority = self._CurrentPriority()
        timeout = self._deadline.Remaining()
        if opportunistic and not isinstance(names, AllSet):
            timeout = None
        if self.context.glm.acquire(level, names, timeout, shared, priority, opportunistic) is None:
            raise errors.LockAcquireTimeout(f"locks of level {locking.LEVEL_NAMES[level]} were not free in time")

    def _CurrentPriority(self) -> int | None:
        priority = self._cbs.CurrentPriority()
        return self._priority if priority is None else priority

    def _Add(self, lu: LogicalUnit, level: int) -> None:
        names, wanted = lu.add_locks[level], (lu.needed_locks or {}).get(level)
        assert not isinstance(wanted, AllSet), f"{type(lu).__name__} adds a lock to all of a level"
        lu.remove_locks[level] = names
        try:
            timeout, priority = self._deadline.Remaining(), self._CurrentPriority()
            if wanted is not None:
                added = self.context.glm.AcquireAndAdd(level, wanted, names, timeout, priority)
            else:
                added = self.context.glm.add(level, names, 1, lu.share_locks[level], timeout, priority)
        except errors.LockError as err:
            del lu.remove_locks[level]
            if wanted is not None and self.context.glm.Names(level).isdisjoint(NameList(names)):
                raise lu.LostLock(level, err) from err
            shown = names if isinstance(names, str) else ", ".join(sorted(names))
            raise errors.OpPrereqError(
                f"Couldn't add locks for {locking.LEVEL_NAMES[level]} {shown}: {err}; most likely another job created"
                " the object first",
                errors.ECODE_NOTUNIQUE,
            ) from err
        except BaseException:
            del lu.remove_locks[level]
            raise
        if not added:
            del lu.remove_locks[level]
            raise errors.LockAcquireTimeout(f"locks of level {locking.LEVEL_NAMES[level]} were not free in time")

    def _Release(self, lu: LogicalUnit, level: int) -> None:
        try:
            if level in lu.remove_locks:
                self.context.glm.remove(level, lu.remove_locks[level])
        finally:
            if self.context.glm.is_owned(level):
                self.context.glm.release(level)

    # --- with all locks held ------------------------------------------------------------------------------------------

    def _CheckAndExec(self, lu: LogicalUnit) -> Any:
        _CheckNodeAllocUse(lu)
        self._cbs.NotifyStart()
        self._started = True
        with _BugsAsErrors():
            return self._Exec(lu)

    def _Exec(self, lu: LogicalUnit) -> Any:
        serial = lu.snapshot.serial_no
        _CheckVersion(lu)
        lu.CheckPrereq()
        self._hooks = hooks.HooksMaster(self.context.hooks, lu)
        # Whatever follows may change nodes, hooks included.
        confirm = lu.NodesToConfirm()
        if confirm:
            self.context.store.ConfirmNodes(sorted(confirm), self.context.confirm_timeout)
        results = self._hooks.RunPre()
        lu.HooksCallBack(constants.HOOKS_PHASE_PRE, results, self.Log, None)
        if lu.op.dry_run:
            self.LogInfo("dry-run mode requested, not actually executing the operation")
            return lu.dry_run_result
        try:
            result = self._ProcessResult(lu, lu.Exec(self.Log))
            results = self._hooks.RunPost()
            return lu.HooksCallBack(constants.HOOKS_PHASE_POST, results, self.Log, result)
        finally:
            if lu.snapshot.serial_no != serial:
                self._hooks.RunConfigUpdate()

    def _ProcessResult(self, lu: LogicalUnit, result: Any) -> Any:
        """Submit the jobs of a result that has some (doc/reference/locking.md 8.3)."""
        if not isinstance(result, ResultWithJobs):
            return result
        for job in result.jobs:
            for op in job:
                opcodes.InheritFromParent(op, lu.op)
        return {**result.values, "jobs": self.SubmitManyJobs(result.jobs)}

    # --- what units ask for -------------------------------------------------------------------------------------------

    def SubmitManyJobs(self, jobs: list[list[opcodes.OpCode]]) -> list[list[Any]]:
        return self._cbs.SubmitManyJobs(jobs)

    def Pause(self, seconds: float) -> None:
        self._cbs.Pause(seconds)

    def Undisturbed(self) -> AbstractContextManager[None]:
        return self._cbs.Undisturbed()

    def RunPostHooks(self, node_names: list[str]) -> None:
        """Run the post hooks now on these nodes, for units after which they could not run."""
        assert self._hooks is not None
        try:
            self._hooks.RunPost(node_names)
        except Exception:
            logging.exception("Post hooks on %s failed", ", ".join(node_names))
            self.LogWarning(f"Errors occurred running hooks on {', '.join(node_names)}")

    def Log(self, *args: Any) -> None:
        """Log a message: ``Log(message)`` or ``Log(type, content)``."""
        kind, message = args if len(args) == 2 else (constants.ELOG_MESSAGE, args[0])
        self._cbs.Feedback(kind, message)

    def LogStep(self, current: int, total: int, message: str) -> None:
        logging.debug("Step %d/%d %s", current, total, message)
        self.Log(f"STEP {current}/{total} {message}")

    def LogInfo(self, message: str) -> None:
        logging.info(message)
        self.Log(f" - INFO: {message}")

    def LogWarning(self, message: str, hint: str | None = None) -> None:
        logging.warning(message)
        self.Log(f" - WARNING: {message}")
        if hint:
            self.Log(f"      Hint: {hint}")


@contextmanager
def _BugsAsErrors() -> Iterator[None]:
    """Turn a failed assertion, which is a bug of ours, into an error that says where; the log has the rest."""
    try:
        yield
    except AssertionError as err:
        logging.exception("Assertion failed")
        where = traceback.extract_tb(err.__traceback__)[-1]
        raise errors.OpExecError(
            f"Internal assertion error, please report this as a bug: '{err}' ({where.filename}:{where.lineno})"
        ) from err


def _CheckVersion(lu: LogicalUnit) -> None:
    """Reject what somebody asked for with another state of the object in mind; its lock is held."""
    if lu.op.if_match is None:
        return
    uuid, _, serial = lu.op.if_match.rpartition("-")
    root = lu.snapshot
    found: Any = root.cluster if root.cluster.uuid == uuid else None
    for kind in _VERSIONED:
        found = found or root.Find(kind, uuid)
    if found is None:
        raise errors.OpPrereqError(f"The object {uuid} that was looked at no longer exists", errors.ECODE_STATE)
    if found.serial_no != int(serial):
        raise errors.OpPrereqError(
            f"The {found.KIND} {opcodes.CHANGED_SINCE}: its serial number is {found.serial_no}, not {serial};"
            " look at it again and repeat the request",
            errors.ECODE_STATE,
        )


def _CheckSecrets(op: opcodes.OpCode) -> None:
    for values in op.Secrets().values():
        if opcodes.REDACTED in values.values():
            raise errors.OpPrereqError(
                "Please re-submit secret parameters to job: they are never stored and the master has restarted since",
                errors.ECODE_INVAL,
            )


def _CheckNodeAllocUse(lu: LogicalUnit) -> None:
    """Assert that a unit locks node-alloc in the mode of its node locks (doc/reference/locking.md 10.3)."""
    needed = lu.needed_locks or {}
    alloc = locking.LEVEL_NODE_ALLOC
    for level in (locking.LEVEL_NODE, locking.LEVEL_NODE_RES):
        if level not in needed:
            continue
        same = bool(lu.share_locks[alloc]) == bool(lu.share_locks[level])
        assert same != lu.NAL_MODE_DIFFERS, (
            f"{type(lu).__name__}: node-alloc and {locking.LEVEL_NAMES[level]} are shared differently"
        )
        if isinstance(needed[level], AllSet) or lu.glm.owning_all(level):
            assert lu.glm.check_owned(alloc, locking.NAL), f"{type(lu).__name__} locks all nodes without node-alloc"


def Execute(context: Context) -> Callable[..., Any]:
    """Return ``execute(op, ec_id, callbacks, timeout, priority)`` for the job queue."""

    def execute(
        op: opcodes.OpCode, ec_id: Any, cbs: OpExecCbBase, timeout: float | None = None, priority: int | None = None
    ) -> Any:
        return Processor(context, ec_id).ExecOpCode(op, cbs, timeout, priority)

    return execute
