"""Address pools of networks: who has which IPv4 address (doc/reference/config.md 18.2).

A network keeps two strings of 0 and 1 with one character per address: ``reservations`` are taken by instances,
``ext_reservations`` by the administrator or by their nature (network, broadcast, gateway).  An address is free when it
is set in neither.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from ganeti import errors

if TYPE_CHECKING:
    from ganeti import objects

MIN_PREFIX = 16
MAX_PREFIX = 30


def ParseIPv4(text: str) -> int | None:
    """Return the number of an address in dotted form; None if it is none."""
    parts = text.split(".")
    if len(parts) != 4:
        return None
    number = 0
    for part in parts:
        if not (
            part.isascii()
            and part.isdigit()
            and len(part) <= 3
            and int(part) <= 255
            and (part == "0" or part[0] != "0")
        ):
            return None
        number = number << 8 | int(part)
    return number


def FormatIPv4(number: int) -> str:
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


def ParseSubnet(text: str) -> tuple[int, int]:
    """Return (number of the network's address, prefix length) of ``a.b.c.d/nn``; AddressPoolError if it is wrong."""
    address, slash, length = text.partition("/")
    number = ParseIPv4(address)
    if (
        number is None
        or not slash
        or not (length.isascii() and length.isdigit() and len(length) <= 2)
        or int(length) > 32
    ):
        raise errors.AddressPoolError(f"'{text[:60]}' is not a valid IPv4 network: write it like 192.0.2.0/24")
    prefix = int(length)
    if number & ((1 << (32 - prefix)) - 1):
        raise errors.AddressPoolError(f"'{text[:60]}' has bits set behind its prefix: it is the address of a host")
    return number, prefix


class AddressPool:
    """The addresses of one network.  Changes are made in the pool; ``Network()`` gives the object to store."""

    def __init__(self, network: objects.Network):
        # Only networks need it: commands without any never load it.
        from bitarray import bitarray

        self._network = network
        self._first, prefix = ParseSubnet(network.network)
        if not MIN_PREFIX <= prefix <= MAX_PREFIX:
            raise errors.AddressPoolError(
                f"Network {network.name} ({network.network}): its prefix must be /{MIN_PREFIX} to /{MAX_PREFIX}"
            )
        self.size = 1 << (32 - prefix)
        self._taken = self._Bits(bitarray, "reservations")
        self._external = self._Bits(bitarray, "ext_reservations")

    def _Bits(self, bitarray: Any, name: str) -> Any:
        text = getattr(self._network, name)
        bits = bitarray(text if text else "0" * self.size)
        if len(bits) != self.size:
            raise errors.AddressPoolError(
                f"Network {self._network.name}: {name} has {len(bits)} bits, the network has {self.size} addresses"
            )
        return bits

    @classmethod
    def Initialize(cls, network: objects.Network) -> AddressPool:
        """Return the pool of a new network: its first and last address are taken, and its gateway (config.md 18.2)."""
        pool = cls(network.Replace(reservations=None, ext_reservations=None))
        for address in pool.Ends():
            pool.Reserve(address, external=True)
        if network.gateway:
            pool.Reserve(network.gateway, external=True)
        return pool

    def Ends(self) -> tuple[str, str]:
        """Return the network's own address and its broadcast address, which no machine can have."""
        return (self._Address(0), self._Address(self.size - 1))

    def Network(self) -> objects.Network:
        """Return the network with the bits of this pool."""
        return self._network.Replace(reservations=self._taken.to01(), ext_reservations=self._external.to01())

    def Validate(self) -> None:
        """Raise AddressPoolError if an address is taken twice, or the gateway cannot be one."""
        both = self._taken & self._external
        if both.any():
            raise errors.AddressPoolError(
                f"Network {self._network.name}: {self._Address(both.index(1))} is reserved for an instance and"
                " externally"
            )
        gateway = self._network.gateway
        if gateway:
            self._Index(gateway)

    def _Address(self, index: int) -> str:
        return FormatIPv4(self._first + index)

    def _Index(self, address: str) -> int:
        number = ParseIPv4(address)
        if number is None:
            raise errors.AddressPoolError(f"'{address[:60]}' is not a valid IPv4 address")
        if not self._first <= number < self._first + self.size:
            raise errors.AddressPoolError(
                f"Address {address} is not in network {self._network.name} ({self._network.network})"
            )
        return number - self._first

    def Contains(self, address: str) -> bool:
        number = ParseIPv4(address)
        return number is not None and self._first <= number < self._first + self.size

    def IsReserved(self, address: str, external: bool | None = None) -> bool:
        """Return whether an address is taken: at all, or (``external``) by the administrator or by an instance."""
        index = self._Index(address)
        if external is None:
            return bool(self._taken[index] or self._external[index])
        return bool((self._external if external else self._taken)[index])

    def Reserve(self, address: str, external: bool = False) -> None:
        """Take an address; AddressPoolError if it is taken already, by whomever."""
        index = self._Index(address)
        if self._taken[index] or self._external[index]:
            owner = "externally" if self._external[index] else "for an instance"
            raise errors.AddressPoolError(
                f"Address {address} of network {self._network.name} is reserved {owner} already"
            )
        (self._external if external else self._taken)[index] = 1

    def Release(self, address: str, external: bool = False) -> None:
        """Give an address back; AddressPoolError if it was not taken."""
        bits = self._external if external else self._taken
        index = self._Index(address)
        if not bits[index]:
            raise errors.AddressPoolError(f"Address {address} of network {self._network.name} is not reserved")
        bits[index] = 0

    def GenerateFree(self, reserved: Collection[str] = ()) -> str:
        """Return the lowest free address that is not in ``reserved`` either; AddressPoolError if there is none."""
        used = self._taken | self._external
        for address in reserved:
            if self.Contains(address):
                used[self._Index(address)] = 1
        index = used.find(0)
        if index < 0:
            raise errors.AddressPoolError(f"Network {self._network.name} ({self._network.network}) has no free address")
        return self._Address(index)

    def IsFull(self) -> bool:
        return bool((self._taken | self._external).all())

    def GetReservedCount(self) -> int:
        return int((self._taken | self._external).count(1))

    def GetFreeCount(self) -> int:
        return self.size - self.GetReservedCount()

    def GetMap(self) -> str:
        """Return one character per address: ``X`` taken, ``.`` free."""
        used: str = (self._taken | self._external).to01()
        return used.replace("1", "X").replace("0", ".")

    def GetExternalReservations(self) -> list[str]:
        """Return the addresses that the administrator or their nature took."""
        return self._Addresses(self._external)

    def ReleasedSince(self, before: AddressPool) -> list[str]:
        """Return the addresses that the administrator gave back; ``before`` is an older pool of the same network."""
        return self._Addresses(before._external & ~self._external)

    def _Addresses(self, bits: Any) -> list[str]:
        return [self._Address(index) for index in bits.search(type(bits)("1"))]
