"""Address pools (doc/reference/config.md 18.2)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import configs

from ganeti import errors, objects
from ganeti.network import AddressPool, FormatIPv4, ParseIPv4, ParseSubnet


def _Network(subnet: str = "10.0.0.0/29", **values: Any) -> objects.Network:
    return objects.Network(name="lan", network=subnet, uuid=configs.Uuid(5), **values)


def test_a_new_pool_keeps_both_ends_and_the_gateway() -> None:
    pool = AddressPool.Initialize(_Network(gateway="10.0.0.1"))
    assert pool.GetMap() == "XX.....X"
    assert (pool.GetReservedCount(), pool.GetFreeCount(), pool.size) == (3, 5, 8)
    assert pool.GetExternalReservations() == ["10.0.0.0", "10.0.0.1", "10.0.0.7"]
    stored = pool.Network()
    assert (stored.reservations, stored.ext_reservations) == ("00000000", "11000001")
    assert AddressPool(stored).GetMap() == pool.GetMap()
    with pytest.raises(errors.AddressPoolError, match=r"10\.0\.1\.1 is not in network lan"):
        AddressPool.Initialize(_Network(gateway="10.0.1.1"))


def test_addresses_are_taken_from_below_and_given_back() -> None:
    pool = AddressPool.Initialize(_Network())
    assert pool.GenerateFree() == "10.0.0.1"
    assert pool.GenerateFree(reserved=["10.0.0.1", "10.0.0.2", "192.0.2.1"]) == "10.0.0.3"
    pool.Reserve("10.0.0.1")
    pool.Reserve("10.0.0.2", external=True)
    assert pool.GenerateFree() == "10.0.0.3"
    assert pool.IsReserved("10.0.0.1") and pool.IsReserved("10.0.0.2")
    assert pool.IsReserved("10.0.0.1", external=False) and not pool.IsReserved("10.0.0.1", external=True)
    assert pool.IsReserved("10.0.0.2", external=True) and not pool.IsReserved("10.0.0.2", external=False)
    with pytest.raises(errors.AddressPoolError, match="is reserved for an instance already"):
        pool.Reserve("10.0.0.1", external=True)
    with pytest.raises(errors.AddressPoolError, match="is reserved externally already"):
        pool.Reserve("10.0.0.2")
    with pytest.raises(errors.AddressPoolError, match="is not reserved"):
        pool.Release("10.0.0.1", external=True)
    pool.Release("10.0.0.1")
    assert pool.GenerateFree() == "10.0.0.1"


def test_a_full_pool() -> None:
    pool = AddressPool.Initialize(_Network("10.0.0.0/30"))
    pool.Reserve("10.0.0.1")
    pool.Reserve("10.0.0.2")
    assert pool.IsFull()
    with pytest.raises(errors.AddressPoolError, match=r"Network lan \(10\.0\.0\.0/30\) has no free address"):
        pool.GenerateFree()


@given(
    bits=st.integers(16, 30),
    actions=st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 9)), max_size=20),
)
@settings(max_examples=40)
def test_a_pool_is_two_disjoint_sets(bits: int, actions: list[tuple[bool, bool, int]]) -> None:
    pool = AddressPool(_Network(f"10.4.0.0/{bits}"))
    taken: dict[str, bool] = {}
    for reserve, external, index in actions:
        address = f"10.4.0.{index}"
        possible = index < pool.size and ((address not in taken) if reserve else taken.get(address) is external)
        try:
            (pool.Reserve if reserve else pool.Release)(address, external)
        except errors.AddressPoolError:
            assert not possible
            continue
        assert possible
        if reserve:
            taken[address] = external
        else:
            del taken[address]
    assert pool.GetReservedCount() == len(taken)
    assert set(pool.GetExternalReservations()) == {address for address, external in taken.items() if external}
    pool.Validate()
    again = AddressPool(pool.Network())
    assert again.GetMap() == pool.GetMap()
    if not pool.IsFull():
        assert not pool.IsReserved(pool.GenerateFree())


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (_Network("10.0.0.0/15"), "must be /16 to /30"),
        (_Network("10.0.0.0/31"), "must be /16 to /30"),
        (_Network("10.0.0.1/24"), "bits set behind its prefix"),
        (_Network("10.0.0.0"), "not a valid IPv4 network"),
        (_Network("2001:db8::/64"), "not a valid IPv4 network"),
        (_Network("10.0.0.0/029"), "not a valid IPv4 network"),
        (_Network(reservations="0"), "reservations has 1 bits, the network has 8 addresses"),
        (_Network(ext_reservations="0" * 9), "ext_reservations has 9 bits"),
    ],
)
def test_networks_that_have_no_pool(network: objects.Network, message: str) -> None:
    with pytest.raises(errors.AddressPoolError, match=message):
        AddressPool(network)


def test_a_pool_that_contradicts_itself() -> None:
    with pytest.raises(errors.AddressPoolError, match=r"10\.0\.0\.2 is reserved for an instance and externally"):
        AddressPool(_Network(reservations="00100000", ext_reservations="10100001")).Validate()
    with pytest.raises(errors.AddressPoolError, match="is not in network"):
        AddressPool(_Network(gateway="10.9.9.9")).Validate()


@pytest.mark.parametrize(
    "text", ["", "1.2.3", "1.2.3.4.5", "1.2.3.256", "01.2.3.4", "1.2.3.x", "1.2.3.-4", "1.2.3.4 ", "٤.1.1.1"]
)
def test_texts_that_are_no_address(text: str) -> None:
    assert ParseIPv4(text) is None
    pool = AddressPool(_Network())
    assert not pool.Contains(text)
    with pytest.raises(errors.AddressPoolError, match="is not a valid IPv4 address"):
        pool.IsReserved(text)


@given(st.integers(0, 2**32 - 1))
def test_addresses_round_trip(number: int) -> None:
    assert ParseIPv4(FormatIPv4(number)) == number
    assert ParseSubnet(f"{FormatIPv4(number)}/32") == (number, 32)
