"""A root under construction: what a change touched, the serial rules, and what must hold when it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ganeti import constants, errors, ht, objects, ssconf
from ganeti.store import Row

T = TypeVar("T", bound=objects.ConfigObject)

# Values that only one object may have, and how a second one is rejected.
UNIQUE = {
    **dict.fromkeys(("node name", "nodegroup name", "instance name", "network name"), "another {kind} has this name"),
    "node address": "address {value} is in use",
    "NIC address": "address {value[1]} of its network is in use",
    "MAC address": "MAC address {value} is in use",
    "attached disk": "disk {value} belongs to an instance",
    "volume": "logical volume {value} is in use",
    "secret": "its DRBD secret is in use",
    "minor": "DRBD minor {value[1]} of node {value[0]} is in use",
    "port": "port {value} is in use",
    "uuid": "uuid {value} is in use",
}


class Draft:
    """Collects changes on top of ``base``.  Used by one change, on the committer's thread.

    ``now`` is the time of the change.  ``OnPublish`` registers what is to be done once it is acknowledged.
    """

    def __init__(self, base: objects.Snapshot, now: float):
        self.base = base
        self.root = base
        self.now = now
        self.on_publish: list[Callable[[], None]] = []
        self._touched: dict[tuple[str, str], None] = {}
        self._bump_cluster = False
        self._extra_serial = 0

    # --- reading and changing -----------------------------------------------------------------------------------------

    def Get(self, kind: str, uuid: str) -> Any:
        """Return the object as it is now; ConfigurationError if there is none."""
        found = self.root.Find(kind, uuid)
        if found is None:
            raise errors.ConfigurationError(f"{kind} {uuid} is not in the configuration, or was removed meanwhile")
        return found

    def Put(self, obj: objects.ConfigObject) -> None:
        """Store an object as it is, without touching its serial number."""
        self.root = self.root.WithObject(obj)
        self._touched[self._Key(obj)] = None

    def Add(self, obj: T) -> T:
        """Store a new object with serial 1 and its times; ConfigurationError if its uuid is in use."""
        uuid = obj.__dict__["uuid"]
        if self.root.IsUuidUsed(uuid):
            raise errors.ConfigurationError(f"cannot add {obj.label}: the uuid {uuid} is in use already")
        return self.PutNew(obj)

    def PutNew(self, obj: T) -> T:
        """Store an object as a new one, in the place of one with its uuid if there is one."""
        new = obj.Replace(serial_no=1, ctime=self.now, mtime=self.now)
        self.Put(new)
        return new

    def Touch(self, obj: T, touch_mtime: bool = True) -> T:
        """Store a changed object with its next serial number."""
        changes: dict[str, Any] = {"serial_no": obj.__dict__["serial_no"] + 1}
        if touch_mtime:
            changes["mtime"] = self.now
        new = obj.Replace(**changes)
        self.Put(new)
        return new

    def Remove(self, kind: str, uuid: str) -> Any:
        """Take an object away and returns it."""
        obj = self.Get(kind, uuid)
        self.root = self.root.WithoutObject(kind, uuid)
        self._touched[(kind, uuid)] = None
        return obj

    def BumpCluster(self) -> None:
        """Let the cluster's serial number grow, once however often this is called."""
        self._bump_cluster = True

    def BumpTop(self) -> None:
        """Let the top level's serial number grow by one more than a write makes it."""
        self._extra_serial += 1

    def OnPublish(self, function: Callable[[], None]) -> None:
        self.on_publish.append(function)

    @staticmethod
    def _Key(obj: objects.ConfigObject) -> tuple[str, str]:
        return (obj.KIND, "cluster" if isinstance(obj, objects.Cluster) else obj.__dict__["uuid"])

    # --- the end ------------------------------------------------------------------------------------------------------

    def Finish(self) -> list[Row]:
        """Return the rows of everything that changed, the top level's last; none if nothing did.

        ConfigurationError when what was touched would contradict the rest, OpPrereqError when nodes could not be told of
        it: nothing is stored then.
        """
        if not self._touched and not self._bump_cluster:
            return []
        self._NumberDisks()
        self._CheckUnique()
        self._SettlePorts()
        if self._bump_cluster:
            cluster = self.root.cluster
            if cluster.serial_no == self.base.cluster.serial_no:
                self.Touch(cluster)
        self._Check()
        serial = self.root.serial_no + 1 + self._extra_serial
        self.root = self.root.Replace(serial_no=serial, mtime=self.now)
        rows = []
        for kind, uuid in self._touched:
            obj = self.root.Find(kind, uuid)
            rows.append(Row(kind, uuid, None if obj is None else obj.Json()))
        rows.append(Row("config", "config", self.root.TopRow()))
        return rows

    def _Pairs(self, *kinds: str) -> Iterable[tuple[str, Any, Any]]:
        """Return (uuid, object before, object now) of the touched objects of some kinds; None where there is none."""
        for kind, uuid in self._touched:
            if kind in kinds:
                yield uuid, self.base.Find(kind, uuid), self.root.Find(kind, uuid)

    def _NumberDisks(self) -> None:
        """Name disk N of an instance disk/N, and a detached one not at all."""
        for _, old, new in list(self._Pairs("instance")):
            before = old.disks if old is not None else ()
            after = new.disks if new is not None else ()
            names = {**dict.fromkeys(before, ""), **{uuid: f"disk/{index}" for index, uuid in enumerate(after)}}
            for uuid, name in names.items():
                disk = self.root.disks.get(uuid)
                # A disk that went over to another instance is named there.
                if disk is not None and disk.iv_name != name and (name or self.root.DiskOwner(uuid) is None):
                    self.Put(disk.Replace(iv_name=name))

    def _SettlePorts(self) -> None:
        """Take ports that came into use out of the pool, and put freed ones at its head (config.md 17.1)."""
        pairs = list(self._Pairs("disk", "instance"))
        before = {port for _, old, _ in pairs for port in PortsOf(old)}
        after = [port for _, _, new in pairs for port in PortsOf(new)]
        gained = sorted(set(after) - before)
        lost = sorted(port for port in before - set(after) if not self.root.Users("port", port))
        if not gained and not lost:
            return
        cluster = self.root.cluster
        pool = [port for port in lost if IsPoolPort(port) and port not in cluster.tcpudp_port_pool]
        pool += [port for port in cluster.tcpudp_port_pool if port not in after]
        highest = cluster.highest_used_port
        top = max([port for port in gained if IsPoolPort(port)], default=highest)
        if top > highest:
            # Ports below that were handed out to others and are not stored yet wait in the pool.
            pool += [port for port in range(highest + 1, top) if port not in after]
        self.Put(cluster.Replace(tcpudp_port_pool=pool, highest_used_port=max(highest, top)))

    def _CheckUnique(self) -> None:
        """Raise ConfigurationError if what changed took a value that another object has and only one may have.

        What two objects had before may stay: an administrator must be able to change either.
        """
        for kind, uuid in self._touched:
            new = self.root.Find(kind, uuid)
            if new is None or kind == "cluster":
                continue
            old = self.base.Find(kind, uuid)
            for what, text in UNIQUE.items():
                for value in objects.GainedValues(what, old, new):
                    users = self.root.Users(what, value)
                    if len(users) > 1:
                        other = next((user for user in users if user != uuid), uuid)
                        shown = text.format(value=value, kind=kind)
                        raise errors.ConfigurationError(f"{new.label}: {shown} already ({self._LabelOf(other)})")

    def _LabelOf(self, uuid: str) -> str:
        for kind in ("instance", "disk", "node", "nodegroup", "network", "filter"):
            found = self.root.Find(kind, uuid)
            if found is not None:
                return found.label
        return uuid

    def _Check(self) -> None:
        """Check what must hold for everything that was touched."""
        for uuid, old, new in self._Pairs("node"):
            self._CheckNode(uuid, old, new)
        for uuid, old, new in self._Pairs("nodegroup"):
            self._CheckGroup(uuid, old, new)
        for uuid, old, new in self._Pairs("instance"):
            if new is not None:
                self._CheckInstance(uuid, old, new)
        for uuid, old, new in self._Pairs("disk"):
            self._CheckDisk(uuid, old, new)
        for uuid, old, new in self._Pairs("network"):
            if new is None and any(uuid in group.networks for group in self.root.nodegroups.values()):
                raise errors.ConfigurationError(f"network {old.name} is connected to node groups and cannot be removed")
        if self.root.cluster.master_node not in self.root.nodes:
            raise errors.ConfigurationError("the master cannot be removed")
        self._CheckSsconf()

    def _CheckSsconf(self) -> None:
        """Raise OpPrereqError if a value for every node's ssconf files would become too large to be read."""
        kinds = set()
        for kind, fields in ssconf.SOURCES.items():
            for _, old, new in self._Pairs(kind):
                if new is not None and (old is None or _Differ(old, new, fields)):
                    kinds.add(kind)
        problems = ssconf.SizeProblems(self.root, kinds, self.base) if kinds else []
        if problems:
            raise errors.OpPrereqError(f"This change cannot be made: {problems[0]}", errors.ECODE_NORES)

    def _CheckNode(self, uuid: str, old: Any, new: Any) -> None:
        if new is None:
            primary, secondary = self.root.NodeInstances(uuid)
            if primary or secondary:
                names = sorted(self.root.instances[found].known_as for found in {*primary, *secondary})
                raise errors.ConfigurationError(
                    f"{old.label} cannot be removed: instances have it as a node: {', '.join(names[:10])}"
                )
            left = self.root.NodeDisks(uuid)
            if left:
                raise errors.ConfigurationError(
                    f"{old.label} cannot be removed: detached disks lie on it: {', '.join(left[:10])}"
                )
        elif new.group not in self.root.nodegroups:
            raise errors.ConfigurationError(f"{new.label}: node group {new.group} does not exist")
        elif _MovedVoter(old, new):
            # The store calls its voters by the address they came in with.
            raise errors.ConfigurationError(
                f"{new.label}: name and primary address cannot change while it is a master candidate",
                hint=f"take it out of the candidates first: gnt-node modify --master-candidate no {old.name}",
            )

    def _CheckGroup(self, uuid: str, old: Any, new: Any) -> None:
        if new is None:
            if self.root.GroupNodes(uuid):
                raise errors.ConfigurationError(f"{old.label} has nodes and cannot be removed")
            if not self.root.nodegroups:
                raise errors.ConfigurationError(f"{old.label} is the last one and cannot be removed")
        elif ht.TUuid(new.name):
            raise errors.ConfigurationError(f"{new.label}: its name looks like a uuid")

    def _CheckInstance(self, uuid: str, old: Any, new: objects.Instance) -> None:
        if new.primary_node not in self.root.nodes and not new.forthcoming:
            raise errors.ConfigurationError(f"{new.label}: its primary node {new.primary_node} does not exist")
        for disk in new.disks:
            if disk not in self.root.disks:
                raise errors.ConfigurationError(f"{new.label}: disk {disk} does not exist")

    def _CheckDisk(self, uuid: str, old: Any, new: Any) -> None:
        if new is None:
            owner = self.root.DiskOwner(uuid)
            if owner is not None:
                raise errors.ConfigurationError(
                    f"{old.label} cannot be removed: it is attached to {self.root.instances[owner].label}"
                )
            return
        for node in new.nodes:
            if node not in self.root.nodes and (old is None or node not in old.nodes):
                raise errors.ConfigurationError(f"{new.label}: node {node} does not exist")


def _Differ(old: objects.ConfigObject, new: objects.ConfigObject, fields: Iterable[str]) -> bool:
    """Return whether one of the fields has another value; one that was not replaced is the same object."""
    return any(old.__dict__[f] is not new.__dict__[f] and old.__dict__[f] != new.__dict__[f] for f in fields)


def IsVoter(node: objects.Node) -> bool:
    """Return whether the node's copy of the store counts: exactly the candidates that are not offline."""
    return node.master_candidate and not node.offline


def _MovedVoter(old: objects.Node | None, new: objects.Node) -> bool:
    if old is None or not (IsVoter(old) and IsVoter(new)):
        return False
    return (old.name, old.primary_ip) != (new.name, new.primary_ip)


def IsPoolPort(port: int) -> bool:
    """Return whether a port is of the range that the cluster hands out."""
    return constants.FIRST_DRBD_PORT <= port <= constants.LAST_DRBD_PORT


def PortsOf(obj: Any) -> list[int]:
    """Return the ports of the range that a disk or instance uses."""
    if isinstance(obj, objects.Disk):
        return [port for port in obj.Ports() if isinstance(port, int)]
    if isinstance(obj, objects.Instance) and obj.network_port is not None:
        return [obj.network_port]
    return []
