"""The locks of one level: named members and one lock over the set itself (doc/reference/locking.md 3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ganeti import errors, runtime
from ganeti.locking.monitor import LockMonitor
from ganeti.locking.shared import SharedLock


class AllSet:
    """Type of ``ALL_SET``: every member of a level, whatever they are when the set-lock is held."""

    def __repr__(self) -> str:
        return "ALL_SET"

    def __copy__(self) -> AllSet:
        return self

    def __deepcopy__(self, memo: object) -> AllSet:
        return self


ALL_SET: Final = AllSet()

# What callers may name: several members, one member, or all of them.
LockNames = Iterable[str] | str | AllSet

SET_LOCK_NAME = "[lockset]"


class _Deadline:
    """One timeout for several waits: each gets what is left, never less than nothing."""

    def __init__(self, timeout: float | None):
        self._end = None if timeout is None else runtime.Monotonic() + timeout

    def Remaining(self) -> float | None:
        return None if self._end is None else max(0.0, self._end - runtime.Monotonic())


def NameList(names: Iterable[str] | str) -> list[str]:
    """Return the distinct names in the order in which they are locked."""
    return [names] if isinstance(names, str) else sorted(set(names))


class LockSet:
    """Members by name; a thread owns any subset of them, taken in one call and given back in parts or whole."""

    def __init__(self, members: Iterable[str], name: str, monitor: LockMonitor | None = None):
        self.name = name
        self._monitor = monitor
        self._set_lock = SharedLock(f"{name}/{SET_LOCK_NAME}", monitor)
        # Replaced as a whole on each change, so that readers need no lock.
        self._members: dict[str, SharedLock] = {member: self._NewLock(member) for member in members}
        self._mutex = runtime.Lock()
        # Thread ident -> names owned.  Each thread touches its own key only; an empty set means that just the set-lock
        # is owned.
        self._owners: dict[int, set[str]] = {}

    def _NewLock(self, member: str) -> SharedLock:
        return SharedLock(f"{self.name}/{member}", self._monitor)

    def Names(self) -> set[str]:
        """Return the members that exist now."""
        return set(self._members)

    def FreeNames(self) -> set[str]:
        """Return the members that nobody holds or waits for at the moment."""
        rows = {name: lock.Info() for name, lock in self._members.items()}
        return {name for name, row in rows.items() if row.mode is None and not row.pending}

    # --- questions about the calling thread ---------------------------------------------------------------------------

    def is_owned(self) -> bool:
        return runtime.ThreadIdent() in self._owners

    def owning_all(self) -> bool:
        """Return whether the set-lock is owned: no member can appear."""
        return self._set_lock.is_owned()

    def list_owned(self) -> set[str]:
        return set(self._owners.get(runtime.ThreadIdent(), ()))

    def check_owned(self, names: Iterable[str] | str, shared: int = -1) -> bool:
        """Return whether all ``names`` are owned in this mode (-1 any, 0 exclusive, 1 shared); False for none."""
        wanted = NameList(names)
        if not wanted or not self.is_owned():
            return False
        members = self._members
        for name in wanted:
            if name not in members:
                raise errors.LockError(f"Non-existing lock '{name}' in set '{self.name}'")
        return all(members[name].is_owned(shared) for name in wanted)

    # --- acquiring ----------------------------------------------------------------------------------------------------

    def acquire(
        self,
        names: LockNames,
        timeout: float | None = None,
        shared: int = 0,
        priority: int | None = None,
        opportunistic: bool = False,
    ) -> set[str] | None:
        """Take members in the order of their names; returns the names taken, or None when the timeout was over.

        Named members: all or none; LockError when one does not exist.  ``ALL_SET``: the set-lock, then every member
        there is.  Opportunistic: members are tried without waiting; the timeout then counts for the set-lock only.
        After None or an exception nothing is owned.
        """
        me = runtime.ThreadIdent()
        assert me not in self._owners, f"{self.name}: one thread acquires the same set twice"
        whole = isinstance(names, AllSet)
        assert whole or not opportunistic or timeout is None, "named locks are tried without waiting"
        deadline = _Deadline(timeout)
        done = False
        try:
            if isinstance(names, AllSet):
                if not self._set_lock.acquire(shared, deadline.Remaining(), priority):
                    return None
                wanted = sorted(self._members)
            else:
                wanted = NameList(names)
            self._owners[me] = set()
            for name in wanted:
                taken = self._AcquireMember(
                    name, shared, 0.0 if opportunistic else deadline.Remaining(), priority, whole or opportunistic
                )
                if taken:
                    self._owners[me].add(name)
                elif taken is False and not opportunistic:
                    return None
            done = True
            return set(self._owners[me])
        finally:
            if not done:
                self._ReleaseAll(me)

    def AcquireAndAdd(
        self,
        names: Iterable[str] | str,
        making: Iterable[str] | str,
        timeout: float | None = None,
        priority: int | None = None,
    ) -> bool:
        """Take members exclusively and make others, owned with them; False when the timeout was over.

        LockError as from ``acquire`` and ``add``.  After that, and after False, nothing is owned or made.  The set-lock is
        held until all are there: somebody who took the whole set in between would wait for those that are made, and we
        for those that we take.
        """
        me = runtime.ThreadIdent()
        assert me not in self._owners, f"{self.name}: one thread acquires the same set twice"
        deadline = _Deadline(timeout)
        if not self._set_lock.acquire(0, deadline.Remaining(), priority):
            return False
        try:
            self.add(making, acquired=1)
            done = False
            try:
                for name in NameList(names):
                    if not self._AcquireMember(name, 0, deadline.Remaining(), priority, False):
                        return False
                    self._owners[me].add(name)
                done = True
            finally:
                if not done:
                    self.remove(making)
                    for name in self._owners.pop(me):
                        self._members[name].release()
        finally:
            self._set_lock.release()
        return True

    def _AcquireMember(
        self, name: str, shared: int, timeout: float | None, priority: int | None, may_miss: bool
    ) -> bool | None:
        """Return True: taken; False: not in time; None: it does not exist, which only ``may_miss`` allows."""
        lock = self._members.get(name)
        try:
            if lock is not None:
                return lock.acquire(shared, timeout, priority)
        except errors.LockError:
            pass
        if may_miss:
            return None
        raise errors.LockError(f"Lock '{name}' not found in set '{self.name}' (it may have been removed)")

    # --- giving back --------------------------------------------------------------------------------------------------

    def release(self, names: Iterable[str] | str | None = None) -> None:
        """Give members back, all if None; the set-lock always goes first, so nothing is "all owned" afterwards."""
        me = runtime.ThreadIdent()
        assert me in self._owners, f"{self.name}: release by a thread that owns nothing here"
        owned = self._owners[me]
        going = sorted(owned) if names is None else NameList(names)
        assert owned.issuperset(going), f"{self.name}: release of locks not owned: {sorted(set(going) - owned)}"
        if self._set_lock.is_owned():
            self._set_lock.release()
        for name in going:
            self._members[name].release()
            owned.remove(name)
        if not owned:
            del self._owners[me]

    def _ReleaseAll(self, me: int) -> None:
        if self._set_lock.is_owned():
            self._set_lock.release()
        for name in self._owners.pop(me, ()):
            self._members[name].release()

    def downgrade(self, names: Iterable[str] | str | None = None) -> bool:
        """Make owned members shared, all if None, and the set-lock too once no member is held exclusively."""
        me = runtime.ThreadIdent()
        assert me in self._owners, f"{self.name}: downgrade by a thread that owns nothing here"
        owned = self._owners[me]
        going = sorted(owned) if names is None else NameList(names)
        assert owned.issuperset(going), f"{self.name}: downgrade of locks not owned: {sorted(set(going) - owned)}"
        for name in going:
            self._members[name].downgrade()
        if self._set_lock.is_owned(shared=0) and not any(self._members[name].is_owned(shared=0) for name in owned):
            self._set_lock.downgrade()
        return True

    # --- members come and go ------------------------------------------------------------------------------------------

    def add(
        self,
        names: Iterable[str] | str,
        acquired: int = 0,
        shared: int = 0,
        timeout: float | None = None,
        priority: int | None = None,
    ) -> bool:
        """Make new members, owned by the caller if ``acquired``; False when others held the whole set too long.

        LockError when one exists already; then none is made.
        """
        me = runtime.ThreadIdent()
        held = self._set_lock.is_owned(shared=0)
        assert held or me not in self._owners, f"{self.name}: add while owning some locks but not the whole set"
        if not held and not self._set_lock.acquire(0, timeout, priority):
            return False
        try:
            self._Add(NameList(names), me, acquired, shared)
        finally:
            if not held:
                self._set_lock.release()
        return True

    def _Add(self, wanted: list[str], me: int, acquired: int, shared: int) -> None:
        with self._mutex:
            existing = [name for name in wanted if name in self._members]
            if existing:
                raise errors.LockError(f"Locks already exist in set '{self.name}': {', '.join(existing)}")
            fresh = {name: self._NewLock(name) for name in wanted}
            if acquired:
                for lock in fresh.values():
                    lock.acquire(shared)
                self._owners.setdefault(me, set()).update(fresh)
            self._members = {**self._members, **fresh}

    def remove(self, names: Iterable[str] | str) -> list[str]:
        """Delete members and returns those this call deleted; waits for each that is not owned.

        The caller owns nothing here, or all of ``names``.  Members that do not exist are passed over.
        """
        me = runtime.ThreadIdent()
        going = NameList(names)
        owned = self._owners.get(me)
        assert owned is None or owned.issuperset(going), f"{self.name}: remove while owning only some of the locks"
        removed = []
        for name in going:
            lock = self._members.get(name)
            if lock is None:
                assert owned is None, f"{self.name}: owned lock '{name}' is not a member"
                continue
            try:
                lock.delete()
            except errors.LockError:
                # Somebody else deleted it while we waited; an owned lock cannot be deleted by others.
                assert owned is None
                continue
            removed.append(name)
            with self._mutex:
                self._members = {key: value for key, value in self._members.items() if value is not lock}
            if owned is not None:
                owned.remove(name)
        if owned is not None and not owned and not self._set_lock.is_owned():
            del self._owners[me]
        return removed
