"""Unique values for jobs: uuids, MACs, volumes, secrets, minors, ports, IPv4 addresses (config.md 14, 17, 18)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

from ganeti import constants, errors, network, objects, runtime
from ganeti.config import reservations
from ganeti.config.base import ConfigBase
from ganeti.config.draft import Draft
from ganeti.config.reservations import RELEASE, RESERVE, IpAction

_MAC = re.compile("[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_MAC_PREFIX = re.compile("[0-9a-f]{2}(:[0-9a-f]{2}){2}")
_SECRET_BYTES = 20


def NormalizeMAC(mac: str) -> str:
    """Return it in lower case; OpPrereqError if it is not the MAC address of one machine."""
    lowered = mac.lower()
    if not _MAC.fullmatch(lowered):
        raise errors.OpPrereqError(
            f"'{mac[:60]}' is not a valid MAC address: write it like aa:00:00:12:34:56", errors.ECODE_INVAL
        )
    if int(lowered[:2], 16) & 1:
        raise errors.OpPrereqError(f"MAC address {lowered} is a multicast address", errors.ECODE_INVAL)
    return lowered


def NormalizeMACPrefix(prefix: str) -> str:
    """Return it in lower case; OpPrereqError if it is not three octets."""
    lowered = prefix.lower()
    if not _MAC_PREFIX.fullmatch(lowered):
        raise errors.OpPrereqError(
            f"'{prefix[:60]}' is not a valid MAC prefix: write it like aa:00:00", errors.ECODE_INVAL
        )
    return lowered


class Values(ConfigBase):
    """Values handed out to jobs; each belongs to ``ec_id`` until it is stored or the job ends."""

    def GenerateUniqueID(self, ec_id: Any) -> str:
        """Return a new uuid, different from every one in use and from every volume name."""
        return str(self._reservations.Generate(reservations.UUID, ec_id, runtime.NewUuid, self._IsUuidUsed))

    def _IsUuidUsed(self, uuid: str) -> bool:
        return self.Newest().IsUuidUsed(uuid)

    def GenerateMAC(self, net_uuid: str | None, ec_id: Any) -> str:
        """Return a new MAC address with the network's prefix, or the cluster's."""
        root = self.Newest()
        net = root.networks.get(net_uuid) if net_uuid is not None else None
        prefix = net.mac_prefix if net is not None and net.mac_prefix else root.cluster.mac_prefix

        def make() -> str:
            return f"{prefix}:{runtime.RandomBytes(3).hex(':')}"

        return str(self._reservations.Generate(reservations.MAC, ec_id, make, self._IsMacUsed))

    def _IsMacUsed(self, mac: str) -> bool:
        return bool(self.Newest().Users("MAC address", mac))

    def ReserveMAC(self, mac: str, ec_id: Any) -> str:
        """Take a given MAC address and returns it in normal form; ReservationError if it is in use or reserved."""
        normal = NormalizeMAC(mac)
        self._reservations.Reserve(reservations.MAC, normal, ec_id, self._IsMacUsed)
        return normal

    def ReserveLV(self, lv_name: str, ec_id: Any) -> None:
        """Take a volume (``vg/lv``); ReservationError if it is in use or reserved."""
        self._reservations.Reserve(
            reservations.VOLUME, lv_name, ec_id, lambda name: bool(self.Newest().Users("volume", name))
        )

    def GenerateDRBDSecret(self, ec_id: Any) -> str:
        """Return a new shared secret: 40 lower case hexadecimal digits."""
        return str(
            self._reservations.Generate(
                reservations.SECRET,
                ec_id,
                lambda: runtime.RandomBytes(_SECRET_BYTES).hex(),
                lambda secret: bool(self.Newest().Users("secret", secret)),
            )
        )

    def AllocateDRBDMinor(self, node_uuids: Sequence[str], disk_uuid: str, ec_id: Any) -> list[int]:
        """Take the lowest free minor of each node (all different) for one disk, until that is stored."""
        if len(set(node_uuids)) != len(node_uuids):
            raise errors.ProgrammerError("DRBD minors must be asked for with different nodes")
        return self._reservations.TakeMinors(node_uuids, disk_uuid, ec_id, lambda node: self.Newest().UsedMinors(node))

    def ReleaseDRBDMinors(self, disk_uuid: str) -> None:
        """Give back the minors handed out for a disk."""
        self._reservations.DropMinors(disk_uuid)

    def AllocatePort(self, ec_id: Any) -> int:
        """Return a port of the cluster's range: the head of the pool, else the next one that was never used.

        It is stored as used together with the disk or instance that has it, and free again if none ever does.
        """
        cluster = self.Newest().cluster
        never_used = range(max(cluster.highest_used_port + 1, constants.FIRST_DRBD_PORT), constants.LAST_DRBD_PORT + 1)
        port = self._reservations.TakeFirst(
            reservations.PORT,
            ec_id,
            itertools.chain(cluster.tcpudp_port_pool, never_used),
            lambda number: bool(self.Newest().Users("port", number)),
        )
        if port is None:
            raise errors.ConfigurationError(
                f"all ports of {constants.FIRST_DRBD_PORT}-{constants.LAST_DRBD_PORT} are in use",
                hint="remove instances, or those with consoles or DRBD disks that are not needed",
            )
        return int(port)

    # --- IPv4 addresses of networks -----------------------------------------------------------------------------------

    def _Pool(self, root: objects.Snapshot, net_uuid: str) -> network.AddressPool:
        net = root.networks.get(net_uuid)
        if net is None:
            raise errors.ConfigurationError(f"network {net_uuid} is not in the configuration")
        return network.AddressPool(net)

    def ReserveIp(self, net_uuid: str, address: str, ec_id: Any, check: bool = True) -> None:
        """Take an address for an instance; ReservationError if it is taken, with ``check`` also by the administrator.

        The network's bits change when the instance is stored with the same ``ec_id``.
        """
        with self._reservations.Held():
            pool = self._Pool(self.Newest(), net_uuid)
            owner = self._reservations.ReservedIps(net_uuid).get(address)
            if owner is not None:
                raise errors.ReservationError(f"address {address} is reserved by job {owner}")
            returned = IpAction(RELEASE, address, net_uuid) in self._reservations.IpActions(ec_id)
            if pool.IsReserved(address, external=False) and not returned:
                raise errors.ReservationError(f"address {address} is in use already")
            if check and pool.IsReserved(address, external=True):
                raise errors.ReservationError(f"address {address} is reserved externally")
            self._reservations.AddIp(ec_id, IpAction(RESERVE, address, net_uuid))

    def GenerateIp(self, net_uuid: str, ec_id: Any) -> str:
        """Take the lowest free address; ReservationError if there is none."""
        with self._reservations.Held():
            pool = self._Pool(self.Newest(), net_uuid)
            try:
                address = pool.GenerateFree(self._reservations.ReservedIps(net_uuid))
            except errors.AddressPoolError as err:
                raise errors.ReservationError(str(err)) from err
            self._reservations.AddIp(ec_id, IpAction(RESERVE, address, net_uuid))
            return address

    def ReleaseIp(self, net_uuid: str, address: str, ec_id: Any) -> None:
        """Give an instance's address back once the instance is stored with the same ``ec_id``."""
        if net_uuid in self.Newest().networks:
            self._reservations.AddIp(ec_id, IpAction(RELEASE, address, net_uuid))

    def _CommitIps(self, draft: Draft, ec_id: Any) -> None:
        """Apply what a job noted to the networks' bits; their serial numbers stay as they are."""
        if ec_id is None:
            return
        actions = self._reservations.IpActions(ec_id)
        _ChangeBits(draft, actions)
        draft.OnPublish(lambda: self._reservations.DropIps(ec_id, actions))

    def _ReleaseNicIps(self, draft: Draft, nics: Sequence[objects.NIC]) -> None:
        """Give back the addresses of an instance that goes."""
        _ChangeBits(draft, [IpAction(RELEASE, nic.ip, nic.network) for nic in nics if nic.ip and nic.network])


def _ChangeBits(draft: Draft, actions: Sequence[IpAction]) -> None:
    """Change the bits of the networks; an address that the administrator reserved stays reserved."""
    pools: dict[str, network.AddressPool] = {}
    for item in actions:
        if item.network not in draft.root.networks:
            continue
        pool = pools.get(item.network)
        if pool is None:
            pool = pools[item.network] = network.AddressPool(draft.root.networks[item.network])
        if item.action == RESERVE and not pool.IsReserved(item.address, external=True):
            pool.Reserve(item.address)
        elif item.action == RELEASE and pool.Contains(item.address) and pool.IsReserved(item.address, external=False):
            pool.Release(item.address)
    for pool in pools.values():
        changed = pool.Network()
        if changed != draft.root.networks[changed.uuid]:
            draft.Put(changed)
