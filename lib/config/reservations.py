"""Values handed out to jobs and not stored yet (doc/reference/config.md 14).

A value is free when no object has it and no other job holds it.  Whoever looks takes the lock first and then the newest
root: a change stores its values before its job ends and drops them, so that one of the two always shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ganeti import errors, runtime

MAC = "MAC address"
VOLUME = "logical volume"
SECRET = "DRBD secret"  # noqa: S105 - the name of a kind
UUID = "uuid"
PORT = "port"
TRIES = 64

RESERVE, RELEASE = "reserve", "release"


class IpAction(NamedTuple):
    """A change of a network's bits when the instance is stored."""

    action: str
    address: str
    network: str


class _Minor(NamedTuple):
    disk: str
    owner: Any


class Reservations:
    """By kind and owner (ec_id).  Thread-safe; ``Held`` gives the lock for look and take in one step."""

    def __init__(self) -> None:
        self._lock = runtime.RLock()
        self._values: dict[str, dict[Any, Any]] = {}
        self._minors: dict[str, dict[int, _Minor]] = {}
        self._ips: dict[Any, list[IpAction]] = {}

    @contextmanager
    def Held(self) -> Iterator[None]:
        self._lock.acquire()
        try:
            yield
        finally:
            self._lock.release()

    def Owner(self, kind: str, value: Any) -> Any:
        """Return who holds a value, None for nobody."""
        with self.Held():
            return self._values.get(kind, {}).get(value)

    def Reserve(self, kind: str, value: Any, ec_id: Any, used: Callable[[Any], bool]) -> None:
        """Take a value; ReservationError if an object has it or another job holds it.  Its own twice is fine."""
        with self.Held():
            holders = self._values.setdefault(kind, {})
            if holders.get(value, ec_id) != ec_id:
                raise errors.ReservationError(f"{kind} {value} is reserved by job {holders[value]}")
            if used(value):
                raise errors.ReservationError(f"{kind} {value} is in use already")
            holders[value] = ec_id

    def Generate(self, kind: str, ec_id: Any, make: Callable[[], Any], used: Callable[[Any], bool]) -> Any:
        """Take a fresh value of ``make``, tried a limited number of times."""
        with self.Held():
            holders = self._values.setdefault(kind, {})
            for _ in range(TRIES):
                value = make()
                if value not in holders and not used(value):
                    holders[value] = ec_id
                    return value
        raise errors.ConfigurationError(f"no unused {kind} found in {TRIES} tries: nearly all of them are in use")

    def TakeFirst(self, kind: str, ec_id: Any, candidates: Iterable[Any], used: Callable[[Any], bool]) -> Any:
        """Take the first candidate that is free; None if none is."""
        with self.Held():
            holders = self._values.setdefault(kind, {})
            for value in candidates:
                if value not in holders and not used(value):
                    holders[value] = ec_id
                    return value
        return None

    # --- DRBD minors --------------------------------------------------------------------------------------------------

    def TakeMinors(
        self, nodes: Iterable[str], disk: str, ec_id: Any, used: Callable[[str], Iterable[int]]
    ) -> list[int]:
        """Return the lowest free minor of each node; ``used(node)`` are those of stored disks."""
        taken = []
        with self.Held():
            for node in nodes:
                held = self._minors.setdefault(node, {})
                busy = {*used(node), *held}
                minor = next(number for number in range(len(busy) + 1) if number not in busy)
                held[minor] = _Minor(disk, ec_id)
                taken.append(minor)
        return taken

    def DropMinors(self, disk: str) -> None:
        with self.Held():
            self._FilterMinors(lambda minor: minor.disk != disk)

    def _FilterMinors(self, keep: Callable[[_Minor], bool]) -> None:
        for node in list(self._minors):
            self._minors[node] = {number: minor for number, minor in self._minors[node].items() if keep(minor)}

    # --- IPv4 addresses -----------------------------------------------------------------------------------------------

    def IpActions(self, ec_id: Any) -> list[IpAction]:
        with self.Held():
            return list(self._ips.get(ec_id, ()))

    def AddIp(self, ec_id: Any, action: IpAction) -> None:
        """Note an action; together with its opposite of the same job both are void."""
        opposite = action._replace(action=RELEASE if action.action == RESERVE else RESERVE)
        with self.Held():
            actions = self._ips.setdefault(ec_id, [])
            if opposite in actions:
                actions.remove(opposite)
            elif action not in actions:
                actions.append(action)

    def ReservedIps(self, network: str) -> dict[str, Any]:
        """Return the addresses of a network that jobs hold, with their owners."""
        with self.Held():
            return {
                item.address: owner
                for owner, actions in self._ips.items()
                for item in actions
                if item.network == network and item.action == RESERVE
            }

    def DropIps(self, ec_id: Any, done: Iterable[IpAction]) -> None:
        """Forget actions that are stored."""
        with self.Held():
            finished = list(done)
            self._ips[ec_id] = [item for item in self._ips.get(ec_id, ()) if item not in finished]

    # --- the end of a job ---------------------------------------------------------------------------------------------

    def Drop(self, ec_id: Any) -> None:
        """Forget all that a job holds."""
        with self.Held():
            for kind, holders in self._values.items():
                self._values[kind] = {value: owner for value, owner in holders.items() if owner != ec_id}
            self._FilterMinors(lambda minor: minor.owner != ec_id)
            self._ips.pop(ec_id, None)

    def Count(self, ec_id: Any) -> int:
        """Return how many values a job holds."""
        with self.Held():
            values = sum(owner == ec_id for holders in self._values.values() for owner in holders.values())
            minors = sum(minor.owner == ec_id for held in self._minors.values() for minor in held.values())
            return values + minors + len(self._ips.get(ec_id, ()))
