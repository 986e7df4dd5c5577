"""The pool of a network after any history: what its bits say is what instances and the administrator have."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from support import configs

from ganeti import errors, network, objects

NET = configs.Uuid(700)
FIRST = network.ParseIPv4("10.0.0.0") or 0
SIZE = 16
NUMBERS = st.integers(0, SIZE - 1)
OWN = frozenset([0, 1, SIZE - 1])  # the network, its gateway, the broadcast address


def _Address(number: int) -> str:
    return network.FormatIPv4(FIRST + number)


class _Pool(RuleBasedStateMachine):
    """Jobs take addresses, store them, give up; the administrator reserves; all in any order."""

    make: Any = None

    def __init__(self) -> None:
        super().__init__()
        setup = type(self).make(1)
        self.cfg, self.node = setup.cfg, setup.nodes[0]
        self.cfg.AddNetwork(objects.Network(name="lan", network="10.0.0.0/28", gateway="10.0.0.1", uuid=NET))
        self.held: dict[int, int] = {}
        """Job -> number of the address it took and has not stored."""
        self.used: dict[str, tuple[int, bool]] = {}
        """Instance -> number of its address, and whether the administrator had reserved it before."""
        self.external = set(OWN)
        self.counter = 0

    def _Job(self) -> int:
        self.counter += 1
        return self.counter

    def _Taken(self) -> set[int]:
        return {number for number, _ in self.used.values()}

    # --- jobs ---------------------------------------------------------------------------------------------------------

    @rule()
    def Generate(self) -> None:
        job = self._Job()
        free = set(range(SIZE)) - self.external - self._Taken() - set(self.held.values())
        if free:
            assert self.cfg.GenerateIp(NET, job) == _Address(min(free))
            self.held[job] = min(free)
        else:
            with pytest.raises(errors.ReservationError, match="no free address"):
                self.cfg.GenerateIp(NET, job)

    @rule(number=NUMBERS)
    def Reserve(self, number: int) -> None:
        job = self._Job()
        if number in self.external | self._Taken() | set(self.held.values()):
            with pytest.raises(errors.ReservationError):
                self.cfg.ReserveIp(NET, _Address(number), job)
        else:
            self.cfg.ReserveIp(NET, _Address(number), job)
            self.held[job] = number

    @rule(number=NUMBERS)
    def ReserveUnchecked(self, number: int) -> None:
        """Without the conflicts check an instance may get what the administrator reserved."""
        job = self._Job()
        if number in self._Taken() | set(self.held.values()):
            return
        self.cfg.ReserveIp(NET, _Address(number), job, check=False)
        self.held[job] = number

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def Store(self, data: Any) -> None:
        job = data.draw(st.sampled_from(sorted(self.held)))
        number = self.held.pop(job)
        nic = objects.NIC(mac=f"aa:00:00:00:{job >> 8:02x}:{job & 255:02x}", uuid=configs.Uuid(9000 + job),
                          network=NET, ip=_Address(number))  # fmt: skip
        uuid = configs.Uuid(1000 + job)
        instance = objects.Instance(
            name=f"i{job}", primary_node=self.node, os="o", hypervisor="kvm", admin_state="down",
            disks_active=False, uuid=uuid, nics=[nic],
        )  # fmt: skip
        self.cfg.AddInstance(instance, job)
        self.used[uuid] = (number, number in self.external)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def GiveUp(self, data: Any) -> None:
        job = data.draw(st.sampled_from(sorted(self.held)))
        self.cfg.DropECReservations(job)
        del self.held[job]

    @precondition(lambda self: self.used)
    @rule(data=st.data())
    def Remove(self, data: Any) -> None:
        uuid = data.draw(st.sampled_from(sorted(self.used)))
        self.cfg.RemoveInstance(uuid)
        del self.used[uuid]

    @precondition(lambda self: self.used)
    @rule(data=st.data(), number=NUMBERS)
    def Change(self, data: Any, number: int) -> None:
        """An instance gives its address back and takes another one, in one change."""
        uuid = data.draw(st.sampled_from(sorted(self.used)))
        if number in self.external | self._Taken() | set(self.held.values()):
            return
        job, old = self._Job(), self.cfg.Snapshot().instances[uuid]
        self.cfg.ReleaseIp(NET, old.nics[0].ip, job)
        self.cfg.ReserveIp(NET, _Address(number), job)
        self.cfg.Update(old.Replace(nics=[old.nics[0].Replace(ip=_Address(number))]), job)
        self.cfg.DropECReservations(job)
        self.used[uuid] = (number, False)

    # --- the administrator --------------------------------------------------------------------------------------------

    @rule(number=NUMBERS)
    def ReserveExternally(self, number: int) -> None:
        pool = network.AddressPool(self.cfg.Snapshot().networks[NET])
        if number in self.external or pool.IsReserved(_Address(number)):
            with pytest.raises(errors.AddressPoolError):
                pool.Reserve(_Address(number), external=True)
            return
        pool.Reserve(_Address(number), external=True)
        self.cfg.Update(pool.Network())
        self.external.add(number)

    @precondition(lambda self: self.external - OWN)
    @rule(data=st.data())
    def ReleaseExternally(self, data: Any) -> None:
        number = data.draw(st.sampled_from(sorted(self.external - OWN)))
        pool = network.AddressPool(self.cfg.Snapshot().networks[NET])
        pool.Release(_Address(number), external=True)
        self.cfg.Update(pool.Network())
        self.external.discard(number)
        self.used = {uuid: (own, was and own != number) for uuid, (own, was) in self.used.items()}

    # --- what always holds ----------------------------------------------------------------------------------------------

    @invariant()
    def AddressesHaveOneOwner(self) -> None:
        numbers = [number for number, _ in self.used.values()]
        assert len(set(numbers)) == len(numbers)
        assert not set(numbers) & set(self.held.values())

    @invariant()
    def BitsAreWhatIsUsed(self) -> None:
        pool = network.AddressPool(self.cfg.Snapshot().networks[NET])
        pool.Validate()
        external = {n for n in range(SIZE) if pool.IsReserved(_Address(n), external=True)}
        taken = {n for n in range(SIZE) if pool.IsReserved(_Address(n), external=False)}
        assert external == self.external
        assert taken == {number for number, was_external in self.used.values() if not was_external}
        assert pool.GetReservedCount() + pool.GetFreeCount() == SIZE
        assert pool.GetReservedCount() == len(external | taken)


def test_any_history(make: Any) -> None:
    class Machine(_Pool):
        pass

    Machine.make = make
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=30, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
