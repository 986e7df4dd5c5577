"""The whole configuration at one moment: a frozen root, look-ups by index, rows of the store.

A change makes a new root.  Kinds that it does not touch keep their maps and every index made of them, so that a new
root costs one map's copy and the look-ups of the next reader cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn, Self

from ganeti import constants, errors, serializer
from ganeti.objects.base import ConfigObject, Freeze, FrozenDict, Show
from ganeti.objects.cluster import Cluster
from ganeti.objects.instance import Disk, Instance
from ganeti.objects.network import FilterRule, Network
from ganeti.objects.node import Node, NodeGroup

# Kinds of objects that the root holds in maps: (kind, attribute and key of the file, class); in the file's order.
KIND_MAPS: tuple[tuple[str, str, type[ConfigObject]], ...] = (
    ("node", "nodes", Node),
    ("nodegroup", "nodegroups", NodeGroup),
    ("instance", "instances", Instance),
    ("network", "networks", Network),
    ("disk", "disks", Disk),
    ("filter", "filters", FilterRule),
)
_ATTRIBUTES = {kind: attribute for kind, attribute, _ in KIND_MAPS}
_CLASSES: dict[str, type[ConfigObject]] = {"cluster": Cluster, **{kind: cls for kind, _, cls in KIND_MAPS}}

# Kinds of the store's rows.  "config" (the top level) and "cluster" have one row each, whose id is the kind.
ROW_KINDS = ("config", "cluster", *(kind for kind, _, _ in KIND_MAPS))
_TOP_KEYS = ("version", "ctime", "mtime", "serial_no")


class _Index(NamedTuple):
    """``build(root)`` makes it; it stays good while ``depends[kind](object)`` of no object changes."""

    build: Callable[[Snapshot], Any]
    depends: Mapping[str, Callable[[Any], Any]]


class Snapshot:
    """A frozen root.  Maps go from uuid to object; look-ups that find nothing return None or an empty tuple."""

    version: int
    cluster: Cluster
    nodes: Mapping[str, Node]
    nodegroups: Mapping[str, NodeGroup]
    instances: Mapping[str, Instance]
    networks: Mapping[str, Network]
    disks: Mapping[str, Disk]
    filters: Mapping[str, FilterRule]
    ctime: float
    mtime: float
    serial_no: int
    extra: Mapping[str, Any]  # undeclared keys of the top level

    def __init__(
        self,
        *,
        cluster: Cluster,
        nodes: Mapping[str, Node] | None = None,
        nodegroups: Mapping[str, NodeGroup] | None = None,
        instances: Mapping[str, Instance] | None = None,
        networks: Mapping[str, Network] | None = None,
        disks: Mapping[str, Disk] | None = None,
        filters: Mapping[str, FilterRule] | None = None,
        version: int = constants.CONFIG_VERSION,
        ctime: float = 0.0,
        mtime: float = 0.0,
        serial_no: int = 1,
        extra: Mapping[str, Any] | None = None,
    ):
        self.__dict__.update(
            version=version,
            cluster=cluster,
            nodes=FrozenDict(nodes or {}),
            nodegroups=FrozenDict(nodegroups or {}),
            instances=FrozenDict(instances or {}),
            networks=FrozenDict(networks or {}),
            disks=FrozenDict(disks or {}),
            filters=FrozenDict(filters or {}),
            ctime=ctime,
            mtime=mtime,
            serial_no=serial_no,
            extra=Freeze(dict(extra or {})),
            _indexes={},
        )

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise TypeError("a snapshot is frozen: use Replace(), WithObject() or WithoutObject()")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Snapshot):
            return NotImplemented
        names = (*_TOP_KEYS, "extra", "cluster", *_ATTRIBUTES.values())
        return all(self.__dict__[name] == other.__dict__[name] for name in names)

    __hash__ = None  # type: ignore[assignment]

    # --- new roots ----------------------------------------------------------------------------------------------------

    def Replace(self, **changes: Any) -> Self:
        """A root with other top-level values; given maps are taken as they are."""
        return self._Derive(changes, {} if any(name in changes for name in _ATTRIBUTES.values()) else None)

    def WithObject(self, obj: ConfigObject) -> Self:
        """A root in which ``obj`` stands in place of the object with its kind and uuid, or is new."""
        if isinstance(obj, Cluster):
            return self._Derive({"cluster": obj}, None)
        attribute = _ATTRIBUTES[obj.KIND]
        old_map = getattr(self, attribute)
        uuid = obj.__dict__["uuid"]
        new_map = dict(old_map)
        new_map[uuid] = obj
        return self._Derive({attribute: FrozenDict(new_map)}, self._Surviving(obj.KIND, old_map.get(uuid), obj))

    def WithoutObject(self, kind: str, uuid: str) -> Self:
        """A root without that object; KeyError if there is none."""
        attribute = _ATTRIBUTES[kind]
        new_map = dict(getattr(self, attribute))
        old = new_map.pop(uuid)
        return self._Derive({attribute: FrozenDict(new_map)}, self._Surviving(kind, old, None))

    def _Derive(self, changes: Mapping[str, Any], indexes: dict[str, Any] | None) -> Self:
        """A copy; ``indexes`` None keeps all of them."""
        clone = type(self).__new__(type(self))
        clone.__dict__.update(self.__dict__)
        for name, value in changes.items():
            if name not in self.__dict__:
                raise TypeError(f"a snapshot has no {name}")
            is_map = name in _ATTRIBUTES.values()
            clone.__dict__[name] = FrozenDict(value) if is_map and type(value) is not FrozenDict else value
        clone.__dict__["_indexes"] = dict(self.__dict__["_indexes"] if indexes is None else indexes)
        return clone

    def _Surviving(self, kind: str, old: ConfigObject | None, new: ConfigObject | None) -> dict[str, Any]:
        """The indexes that the exchange of ``old`` for ``new`` leaves good."""
        kept = {}
        for name, value in list(self.__dict__["_indexes"].items()):
            key = _INDEXES[name].depends.get(kind)
            if key is None or (old is not None and new is not None and key(old) == key(new)):
                kept[name] = value
        return kept

    def _Get(self, name: str) -> Any:
        indexes = self.__dict__["_indexes"]
        found = indexes.get(name)
        if found is None:
            # Two threads may both build it: the results are equal.
            found = indexes[name] = _INDEXES[name].build(self)
        return found

    # --- look-ups -----------------------------------------------------------------------------------------------------

    def Objects(self, kind: str) -> Mapping[str, Any]:
        """The map of one kind, by uuid."""
        found: Mapping[str, Any] = getattr(self, _ATTRIBUTES[kind])
        return found

    def Find(self, kind: str, uuid: str) -> ConfigObject | None:
        if kind == "cluster":
            return self.cluster
        return self.Objects(kind).get(uuid)

    def NodeByName(self, name: str) -> Node | None:
        return self._ByName("node", name)

    def InstanceByName(self, name: str) -> Instance | None:
        return self._ByName("instance", name)

    def GroupByName(self, name: str) -> NodeGroup | None:
        return self._ByName("nodegroup", name)

    def NetworkByName(self, name: str) -> Network | None:
        return self._ByName("network", name)

    def _ByName(self, kind: str, name: str) -> Any:
        uuid = self._Get(f"{kind} names").get(name)
        return None if uuid is None else self.Objects(kind)[uuid]

    def ExpandName(self, kind: str, text: str, case_sensitive: bool = False) -> Any:
        """The object that ``text`` means, None if there is none or several fit (spec/cli.md 4).

        A uuid, the exact name, or for nodes and instances the only name that is ``text`` followed by a dot and more.
        """
        objects = self.Objects(kind)
        if text in objects:
            return objects[text]
        exact = self._ByName(kind, text)
        if exact is not None or kind not in ("node", "instance"):
            return exact
        full, short = self._Get(f"{kind} prefixes")
        for candidates in (full.get(text.lower(), ()), short.get(text.lower(), ())):
            found = [objects[uuid] for uuid in candidates]
            if case_sensitive:
                found = [obj for obj in found if obj.name.startswith(text)]
            if len(found) == 1:
                return found[0]
        return None

    @property
    def master(self) -> Node | None:
        """The master's node object."""
        return self.nodes.get(self.cluster.master_node)

    def GroupNodes(self, uuid: str) -> tuple[str, ...]:
        """Uuids of the nodes of a group."""
        found: tuple[str, ...] = self._Get("group nodes").get(uuid, ())
        return found

    def InstanceDisks(self, instance: Instance) -> tuple[Disk, ...]:
        """The disk objects of an instance, in its order."""
        try:
            return tuple([self.disks[uuid] for uuid in instance.disks])
        except KeyError as err:
            raise errors.ConfigurationError(
                f"{instance.label}: disk {err.args[0]} is not in the configuration"
            ) from err

    def SecondaryNodes(self, instance: Instance) -> tuple[str, ...]:
        """Uuids of the nodes that hold disks of the instance, without its primary node."""
        found: dict[str, None] = {}
        for disk in self.InstanceDisks(instance):
            found.update(dict.fromkeys(disk.nodes))
        found.pop(instance.primary_node, None)
        return tuple(found)

    def AllNodes(self, instance: Instance) -> tuple[str, ...]:
        """The primary node, then the secondary ones."""
        return (instance.primary_node, *self.SecondaryNodes(instance))

    def DiskTemplate(self, instance: Instance) -> str:
        """The template that the instance's disks have in common (spec/config.md 8.1)."""
        kinds = {disk.dev_type for disk in self.InstanceDisks(instance)}
        if not kinds:
            return constants.DT_DISKLESS
        return kinds.pop() if len(kinds) == 1 else constants.DT_MIXED

    def NodeInstances(self, uuid: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(uuids of instances whose primary node this is, those whose secondary node it is)."""
        primary, secondary = self._Get("node instances")
        return primary.get(uuid, ()), secondary.get(uuid, ())

    def PrimaryInstances(self, uuid: str) -> tuple[Instance, ...]:
        """The instances whose primary node this is."""
        return tuple([self.instances[found] for found in self.NodeInstances(uuid)[0]])

    def SecondaryInstances(self, uuid: str) -> tuple[Instance, ...]:
        """The instances whose secondary node this is."""
        return tuple([self.instances[found] for found in self.NodeInstances(uuid)[1]])

    def DiskOwner(self, uuid: str) -> str | None:
        """Uuid of the instance that has this disk; None for a detached one."""
        owner: str | None = self._Get("disk owners").get(uuid)
        return owner

    def UsedMacs(self) -> Mapping[str, str]:
        """MAC addresses to the uuid of the instance that has them."""
        found: Mapping[str, str] = self._Get("macs")
        return found

    def UsedVolumes(self) -> Mapping[str, str]:
        """Logical volumes (``vg/lv``) to the uuid of the disk that has them."""
        found: Mapping[str, str] = self._Get("volumes")
        return found

    def UsedMinors(self, node_uuid: str) -> Mapping[int, str]:
        """DRBD minors of a node to the uuid of the disk that has them."""
        found: Mapping[int, str] = self._Get("minors").get(node_uuid, {})
        return found

    def UsedSecrets(self) -> Mapping[str, str]:
        """DRBD secrets to the uuid of the disk that has them."""
        found: Mapping[str, str] = self._Get("secrets")
        return found

    def UsedPorts(self) -> Mapping[int, str]:
        """Ports of DRBD disks and consoles to the uuid of the disk or instance that has them."""
        found: Mapping[int, str] = self._Get("ports")
        return found

    def IsUuidUsed(self, uuid: str) -> bool:
        """Whether any object has it, embedded ones included."""
        return (
            uuid == self.cluster.uuid
            or any(uuid in self.__dict__[attribute] for attribute in _ATTRIBUTES.values())
            or uuid in self._Get("embedded")
        )

    # --- the store's rows and the file --------------------------------------------------------------------------------

    def TopRow(self) -> str:
        """Value of the row of kind ``config``: the top level without its objects."""
        return serializer.Dump({**{key: self.__dict__[key] for key in _TOP_KEYS}, **self.extra})

    def ToRows(self) -> Iterator[tuple[str, str, str]]:
        """Every row as (kind, id, value)."""
        yield "config", "config", self.TopRow()
        yield "cluster", "cluster", self.cluster.Json()
        for kind, attribute, _ in KIND_MAPS:
            for uuid, obj in getattr(self, attribute).items():
                yield kind, uuid, obj.Json()

    @classmethod
    def FromRows(cls, rows: Iterable[tuple[str, str, str]]) -> Self:
        """The root of these rows; rows of other kinds are passed over.  Values become the objects' fragments."""
        top: dict[str, Any] = {}
        cluster: Cluster | None = None
        maps: dict[str, dict[str, Any]] = {attribute: {} for attribute in _ATTRIBUTES.values()}
        for kind, uuid, value in rows:
            if kind == "config":
                top = _TopValues(serializer.Load(value))
            elif kind == "cluster":
                cluster = Cluster.FromJson(value)
            elif kind in _ATTRIBUTES:
                maps[_ATTRIBUTES[kind]][uuid] = _CLASSES[kind].FromJson(value)
        if cluster is None or not top:
            raise errors.ConfigurationError("the store holds no configuration: the rows config and cluster are missing")
        values: dict[str, Any] = {**maps, **top}
        return cls(cluster=cluster, **values)

    def WithRows(self, rows: Iterable[tuple[str, str, str | None]]) -> Self:
        """The root after rows were written, deleted where the value is None; rows of other kinds are passed over."""
        root = self
        for kind, uuid, value in rows:
            if kind == "config" and value is not None:
                root = root.Replace(**_TopValues(serializer.Load(value)))
            elif kind == "cluster" and value is not None:
                root = root.WithObject(Cluster.FromJson(value))
            elif kind in _ATTRIBUTES and value is not None:
                root = root.WithObject(_CLASSES[kind].FromJson(value))
            elif kind in _ATTRIBUTES and uuid in getattr(root, _ATTRIBUTES[kind]):
                root = root.WithoutObject(kind, uuid)
        return root

    @classmethod
    def FromDict(cls, data: Mapping[str, Any]) -> Self:
        """The root of the file's object, as it stands: without any check across objects."""
        maps: dict[str, Any] = {}
        for _, attribute, kind_class in KIND_MAPS:
            stored = data.get(attribute, {})
            if not isinstance(stored, dict):
                raise errors.ConfigurationError(f"key '{attribute}' must be an object, found {Show(stored)}")
            maps[attribute] = {uuid: kind_class.FromDict(item) for uuid, item in stored.items()}
        top = {key: data[key] for key in data if key != "cluster" and key not in maps}
        return cls(cluster=Cluster.FromDict(data.get("cluster")), **maps, **_TopValues(top))


def _TopValues(stored: Any) -> dict[str, Any]:
    """The top level's own values as arguments of Snapshot."""
    if not isinstance(stored, dict):
        raise errors.ConfigurationError(f"configuration: expected an object, found {Show(stored)}")
    values = {
        "version": stored.get("version"),
        "ctime": stored.get("ctime") or 0.0,
        "mtime": stored.get("mtime") or 0.0,
        "serial_no": stored.get("serial_no", 1),
    }
    for key, value in values.items():
        wanted = (int, float) if key in ("ctime", "mtime") else int
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise errors.ConfigurationError(f"configuration: key '{key}' must be a number, found {Show(value)}")
    return {**values, "extra": {key: value for key, value in stored.items() if key not in _TOP_KEYS}}


def ConfigText(snapshot: Snapshot) -> str:
    """The text of config.data: compact, keys as declared, objects by uuid, newline at the end.

    Joins the objects' kept fragments: 2000 instances take milliseconds.
    """
    maps = {
        kind: {uuid: obj.Json() for uuid, obj in getattr(snapshot, attribute).items()}
        for kind, attribute, _ in KIND_MAPS
    }
    top = {key: snapshot.__dict__[key] for key in _TOP_KEYS}
    return _JoinText({**top, **snapshot.extra}, snapshot.cluster.Json(), maps)


def ConfigTextOfRows(rows: Mapping[str, Mapping[str, str]]) -> str:
    """The text of config.data made of the store's rows, kind -> id -> value: the same as ConfigText's, nothing parsed
    but the top level.
    """
    return _JoinText(serializer.Load(rows["config"]["config"]), rows["cluster"]["cluster"], rows)


def _JoinText(top: Mapping[str, Any], cluster: str, maps: Mapping[str, Mapping[str, str]]) -> str:
    parts = [f'{{"version":{serializer.Dump(top["version"])},"cluster":{cluster}']
    for kind, attribute, _ in KIND_MAPS:
        stored = maps.get(kind, {})
        fragments = ",".join([f'"{uuid}":{stored[uuid]}' for uuid in sorted(stored)])
        parts.append(f'"{attribute}":{{{fragments}}}')
    rest = {key: top[key] for key in ("ctime", "mtime", "serial_no")}
    extra = {key: value for key, value in top.items() if key not in _TOP_KEYS}
    parts.append(serializer.Dump({**rest, **extra})[1:])
    return ",".join(parts) + "\n"


# --- indexes ----------------------------------------------------------------------------------------------------------


def _BuildNames(attribute: str) -> Callable[[Snapshot], dict[str, str]]:
    def build(root: Snapshot) -> dict[str, str]:
        return {obj.name: uuid for uuid, obj in getattr(root, attribute).items() if obj.name is not None}

    return build


def _BuildPrefixes(attribute: str) -> Callable[[Snapshot], tuple[dict[str, list[str]], dict[str, list[str]]]]:
    def build(root: Snapshot) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """(whole name, beginning of a name up to a dot), lower case, to the uuids that have it."""
        full: dict[str, list[str]] = {}
        short: dict[str, list[str]] = {}
        for uuid, obj in getattr(root, attribute).items():
            if obj.name is None:
                continue
            name = obj.name.lower()
            full.setdefault(name, []).append(uuid)
            end = name.find(".")
            while end != -1:
                short.setdefault(name[:end], []).append(uuid)
                end = name.find(".", end + 1)
        return full, short

    return build


def _BuildGroupNodes(root: Snapshot) -> dict[str, tuple[str, ...]]:
    members: dict[str, list[str]] = {}
    for uuid, node in root.nodes.items():
        members.setdefault(node.group, []).append(uuid)
    return {group: tuple(found) for group, found in members.items()}


def _BuildNodeInstances(root: Snapshot) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    primary: dict[str, list[str]] = {}
    secondary: dict[str, list[str]] = {}
    for uuid, instance in root.instances.items():
        if instance.primary_node is not None:
            primary.setdefault(instance.primary_node, []).append(uuid)
        others = {node for disk in instance.disks if disk in root.disks for node in root.disks[disk].nodes}
        for node in others - {instance.primary_node}:
            secondary.setdefault(node, []).append(uuid)
    return {key: tuple(v) for key, v in primary.items()}, {key: tuple(v) for key, v in secondary.items()}


def _BuildDiskOwners(root: Snapshot) -> dict[str, str]:
    return {disk: uuid for uuid, instance in root.instances.items() for disk in instance.disks}


def _BuildMacs(root: Snapshot) -> dict[str, str]:
    return {nic.mac: uuid for uuid, instance in root.instances.items() for nic in instance.nics}


def _BuildMinors(root: Snapshot) -> dict[str, dict[int, str]]:
    minors: dict[str, dict[int, str]] = {}
    for uuid, disk in root.disks.items():
        for node, minor in disk.Minors():
            minors.setdefault(node, {})[minor] = uuid
    return minors


def _BuildPorts(root: Snapshot) -> dict[int, str]:
    ports = {port: uuid for uuid, disk in root.disks.items() for port in disk.Ports()}
    for uuid, instance in root.instances.items():
        if instance.network_port is not None:
            ports[instance.network_port] = uuid
    return ports


def _BuildEmbedded(root: Snapshot) -> set[str]:
    found = {nic.uuid for instance in root.instances.values() for nic in instance.nics}
    found.update(part.uuid for disk in root.disks.values() for child in disk.children for part in child.Walk())
    return found


def _BuildOfDisks(values: Callable[[Disk], Iterable[str]]) -> Callable[[Snapshot], dict[str, str]]:
    def build(root: Snapshot) -> dict[str, str]:
        return {value: uuid for uuid, disk in root.disks.items() for value in values(disk)}

    return build


def _IdentityOf(disk: Any) -> Any:
    return disk.dev_type, disk.logical_id, disk.children


def _NameOf(obj: Any) -> Any:
    return obj.name


_INDEXES: dict[str, _Index] = {
    "group nodes": _Index(_BuildGroupNodes, {"node": lambda node: node.group}),
    "node instances": _Index(
        _BuildNodeInstances,
        {"instance": lambda inst: (inst.primary_node, inst.disks), "disk": lambda disk: disk.nodes},
    ),
    "disk owners": _Index(_BuildDiskOwners, {"instance": lambda inst: inst.disks}),
    "macs": _Index(_BuildMacs, {"instance": lambda inst: inst.nics}),
    "minors": _Index(_BuildMinors, {"disk": _IdentityOf}),
    "volumes": _Index(_BuildOfDisks(Disk.VolumeNames), {"disk": _IdentityOf}),
    "secrets": _Index(_BuildOfDisks(Disk.Secrets), {"disk": _IdentityOf}),
    "ports": _Index(_BuildPorts, {"disk": _IdentityOf, "instance": lambda inst: inst.network_port}),
    "embedded": _Index(_BuildEmbedded, {"instance": lambda inst: inst.nics, "disk": lambda disk: disk.children}),
    **{
        f"{kind} names": _Index(_BuildNames(attribute), {kind: _NameOf})
        for kind, attribute, _ in KIND_MAPS
        if kind not in ("disk", "filter")
    },
    **{
        f"{kind} prefixes": _Index(_BuildPrefixes(attribute), {kind: _NameOf})
        for kind, attribute in (("node", "nodes"), ("instance", "instances"))
    },
}
