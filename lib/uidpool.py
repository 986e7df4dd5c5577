"""User ids set aside for processes of the cluster, such as virtual machines (design 2.1).

The pool is a list of inclusive ranges on the cluster object, published through ssconf.  On a node an id is handed out
while its file in RUN/uid-pool is locked and no process has it; the file that stays behind says "probably in use".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import errors, pathutils, runtime
from ganeti.utils import owndirs, procfs

if TYPE_CHECKING:
    from ganeti.runtime import protocols

UidPool = Sequence[Sequence[int]]
MAX_UID = 2**32 - 1
_MAX_TEXT = 65536
_MAX_EXPANDED = 1 << 20
_RANGE = re.compile(r"\s*(\d{1,10})\s*(?:-\s*(\d{1,10}))?\s*", re.ASCII)
_STATUS_LIMIT = 65536


def _Refuse(message: str) -> errors.OpPrereqError:
    return errors.OpPrereqError(message, errors.ECODE_INVAL)


def ParseUidPool(text: str, separator: str = ",") -> list[tuple[int, int]]:
    """Return the ranges of ``1000-2000,3000``; OpPrereqError names the part that is wrong."""
    if len(text) > _MAX_TEXT:
        raise _Refuse(f"A user-id pool of {len(text)} characters is too long")
    ranges = []
    for part in text.split(separator) if text.strip() else []:
        match = _RANGE.fullmatch(part)
        if match is None:
            raise _Refuse(
                f"'{part.strip()[:60]}' is neither a user id nor a range of them: write it like 1000-2000,3000"
            )
        low = int(match.group(1))
        ranges.append((low, int(match.group(2)) if match.group(2) else low))
    CheckUidPool(ranges)
    return ranges


def FormatUidPool(pool: UidPool, separator: str = ",") -> str:
    """Return the text that ParseUidPool reads."""
    return separator.join(str(low) if low == high else f"{low}-{high}" for low, high in pool)


def CheckUidPool(pool: Any) -> None:
    """Raise OpPrereqError unless ``pool`` is a list of [low, high] with 0 <= low <= high < 2^32."""
    if not isinstance(pool, (list, tuple)):
        raise _Refuse("A user-id pool must be a list of [low, high]")
    for item in pool:
        if not (isinstance(item, (list, tuple)) and len(item) == 2 and all(type(bound) is int for bound in item)):
            raise _Refuse("A user-id range must be [low, high]")
        low, high = item
        if low > high:
            raise _Refuse(f"User-id range {low}-{high}: the lower bound is above the higher one")
        if low < 0 or high > MAX_UID:
            raise _Refuse(f"User-id range {low}-{high} is not within 0-{MAX_UID}")


def _Merge(pool: Iterable[Sequence[int]], gap: int = 0) -> list[tuple[int, int]]:
    """Return the same ids in ascending ranges of which no two overlap; with ``gap`` 1, adjacent ones become one, too."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted((item[0], item[1]) for item in pool):
        if merged and low <= merged[-1][1] + gap:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def AddToUidPool(pool: UidPool, added: UidPool) -> list[tuple[int, int]]:
    """Return ``pool`` with more ids."""
    CheckUidPool(added)
    return _Merge([*pool, *added])


def RemoveFromUidPool(pool: UidPool, removed: UidPool) -> list[tuple[int, int]]:
    """Return ``pool`` without these ids; OpPrereqError if it does not have all of them."""
    CheckUidPool(removed)
    whole = _Merge(pool, gap=1)
    result = _Merge(pool)
    for low, high in _Merge(removed):
        if not any(first <= low and high <= last for first, last in whole):
            raise _Refuse(f"User-id range {FormatUidPool([(low, high)])} to be removed is not in the user-id pool")
        result = [part for item in result for part in _Without(item, low, high)]
    return result


def _Without(item: tuple[int, int], low: int, high: int) -> list[tuple[int, int]]:
    first, last = item
    if last < low or high < first:
        return [item]
    return [(a, b) for a, b in ((first, low - 1), (high + 1, last)) if a <= b]


def ExpandUidPool(pool: UidPool) -> set[int]:
    """Return all ids of the pool."""
    total = sum(high - low + 1 for low, high in _Merge(pool))
    if total > _MAX_EXPANDED:
        raise errors.ConfigurationError(
            f"the user-id pool has {total} ids, at most {_MAX_EXPANDED} can be used: make it smaller with"
            " 'gnt-cluster modify --uid-pool=LOW-HIGH'"
        )
    return {uid for low, high in _Merge(pool) for uid in range(low, high + 1)}


# --- on a node --------------------------------------------------------------------------------------------------------


class LockedUid:
    """An id of the pool whose file is locked by this process."""

    def __init__(self, uid: int, lock: protocols.FileLock):
        self.uid = uid
        self._lock = lock

    def Unlock(self) -> None:
        """Unlock the file once the process runs; it stays as a hint."""
        self._lock.release()

    def __str__(self) -> str:
        return str(self.uid)


def _LockPath(uid: int) -> str:
    return f"{pathutils.UIDPOOL_LOCK_DIR}/{uid}"


def _UidsOf(pid: str) -> list[int]:
    """Return real, effective, saved and file system user id of a process; none if it is gone."""
    try:
        status = procfs.ReadText(f"/proc/{pid}/status", _STATUS_LIMIT)
    except OSError:
        return []
    for line in procfs.Lines(status):
        if line.startswith("Uid:"):
            return [int(word) for word in line.split()[1:]]
    return []


def _IsUidUsed(uid: int) -> bool:
    """Return whether any process of this machine has the id."""
    return any(uid in _UidsOf(pid) for pid in runtime.ListDir("/proc") if pid.isdigit())


def RequestUnusedUid(all_uids: Collection[int]) -> LockedUid:
    """Return an id of ``all_uids`` that no process has, locked; ids without a file come first, in random order.

    LockError when there is none.  The caller starts its process and calls ``Unlock``.
    """
    owndirs.MakeOwn(pathutils.UIDPOOL_LOCK_DIR, 0o750)
    seen = {int(name) for name in runtime.ListDir(pathutils.UIDPOOL_LOCK_DIR) if name.isascii() and name.isdigit()}
    fresh = sorted(set(all_uids) - seen)
    hinted = sorted(set(all_uids) & seen)
    for uids in (fresh, hinted):
        runtime.Random().shuffle(uids)
        for uid in uids:
            try:
                lock = runtime.LockFile(_LockPath(uid), exclusive=True, timeout=0)
            except runtime.LockBusy:
                continue
            try:
                used = _IsUidUsed(uid)
            except BaseException:
                lock.release()
                raise
            if not used:
                return LockedUid(uid, lock)
            lock.release()
    raise errors.LockError(
        f"No unused user id in the pool of {len(set(all_uids))}: stop something, or add ids with"
        " 'gnt-cluster modify --add-uids=LOW-HIGH'"
    )


def ReleaseUid(uid: LockedUid | int) -> None:
    """Remove the id's file; call it when the process has ended."""
    if isinstance(uid, LockedUid):
        runtime.RemoveFile(_LockPath(uid.uid))
        uid.Unlock()
    else:
        runtime.RemoveFile(_LockPath(uid))


def ExecWithUnusedUid(function: Callable[..., Any], all_uids: Collection[int], *args: Any, **kwargs: Any) -> Any:
    """Return ``function(uid, ...)`` with a fresh id; it goes back to the pool if the function raises."""
    uid = RequestUnusedUid(all_uids)
    try:
        result = function(uid.uid, *args, **kwargs)
    except BaseException:
        ReleaseUid(uid)
        raise
    uid.Unlock()
    return result
