"""The whole configuration at one moment: a frozen root, look-ups by index, rows of the store.

A change makes a new root, which shares what did not change: the maps of other kinds, and the indexes except for the keys
of the object that changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn, Self

from ganeti import constants, errors, serializer
from ganeti.objects import indexes
from ganeti.objects.base import ConfigObject, Freeze, FrozenDict, Show
from ganeti.objects.cluster import Cluster
from ganeti.objects.instance import CommonTemplate, Disk, Instance
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

# What a reservation may lack, and jobs need of an instance and its disks.
_NEEDED = ("name", "primary_node", "os", "hypervisor", "admin_state", "disks_active")
_DISK_NEEDED = ("dev_type", "logical_id", "size")


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
        """Return a root with other top-level values; given maps are taken as they are."""
        return self._Derive(changes, {} if any(name in changes for name in _ATTRIBUTES.values()) else None)

    def WithObject(self, obj: ConfigObject) -> Self:
        """Return a root in which ``obj`` stands in place of the object with its kind and uuid, or is new."""
        if isinstance(obj, Cluster):
            return self._Derive({"cluster": obj}, None)
        return self._Exchange(obj.KIND, obj.__dict__["uuid"], obj)

    def WithoutObject(self, kind: str, uuid: str) -> Self:
        """Return a root without that object; KeyError if there is none."""
        if uuid not in self.Objects(kind):
            raise KeyError(uuid)
        return self._Exchange(kind, uuid, None)

    def _Exchange(self, kind: str, uuid: str, new: ConfigObject | None) -> Self:
        attribute = _ATTRIBUTES[kind]
        # Copied as a whole, by the dictionary's own quick way.
        new_map = FrozenDict(self.__dict__[attribute])
        old = new_map.get(uuid)
        if new is None:
            dict.__delitem__(new_map, uuid)
        else:
            dict.__setitem__(new_map, uuid, new)
        return self._Derive({attribute: new_map}, indexes.Exchange(self.__dict__["_indexes"], kind, old, new))

    def _Derive(self, changes: Mapping[str, Any], built: dict[str, indexes.Index | int] | None) -> Self:
        """Return a copy; ``built`` are its indexes, None keeps all of them."""
        clone = type(self).__new__(type(self))
        clone.__dict__.update(self.__dict__)
        for name, value in changes.items():
            if name not in self.__dict__:
                raise TypeError(f"a snapshot has no {name}")
            is_map = name in _ATTRIBUTES.values()
            clone.__dict__[name] = FrozenDict(value) if is_map and type(value) is not FrozenDict else value
        clone.__dict__["_indexes"] = dict(self.__dict__["_indexes"]) if built is None else built
        return clone

    def _Get(self, name: str) -> Any:
        built: dict[str, indexes.Index | int] = self.__dict__["_indexes"]
        found = built.get(name)
        if found is None:
            # Two threads may both build it: the results are equal.
            found = built[name] = indexes.Build(name, lambda kind: self.Objects(kind).values())
        return found

    def BuildIndexes(self) -> None:
        """Build every index now: the roots made of this one then have them all, each at the price of its change."""
        for name in (*indexes.TABLE, *indexes.TOTALS):
            self._Get(name)

    # --- look-ups -----------------------------------------------------------------------------------------------------

    def Objects(self, kind: str) -> Mapping[str, Any]:
        """Return the map of one kind, by uuid."""
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
        found = self._Get(f"{kind} name").Get(name)
        return self.Objects(kind)[found[0]] if found else None

    def ExpandName(self, kind: str, text: str, case_sensitive: bool = False) -> Any:
        """Return the object that ``text`` means, None if there is none or several fit (doc/reference/cli.md 4).

        A uuid, the exact name, or for nodes and instances the only name that is ``text`` followed by a dot and more.
        """
        objects = self.Objects(kind)
        if text in objects:
            return objects[text]
        exact = self._ByName(kind, text)
        if exact is not None or kind not in ("node", "instance"):
            return exact
        for index in (f"{kind} lower name", f"{kind} beginning"):
            found = [objects[uuid] for uuid in self._Get(index).Get(text.lower())]
            if case_sensitive:
                found = [obj for obj in found if obj.name.startswith(text)]
            if len(found) == 1:
                return found[0]
        return None

    @property
    def master(self) -> Node | None:
        """Return the master's node object."""
        return self.nodes.get(self.cluster.master_node)

    @property
    def master_name(self) -> str:
        """Return the master's name; its uuid where the configuration lacks the node."""
        return self.cluster.master_node if self.master is None else self.master.name

    def GroupNodes(self, uuid: str) -> tuple[str, ...]:
        """Return the uuids of the nodes of a group."""
        return self._Get("nodes of group").Get(uuid)

    def NodeName(self, uuid: str) -> str:
        """Return the name of a node for people; of one that is gone, its uuid."""
        node = self.nodes.get(uuid)
        return uuid if node is None else node.name

    def InstanceDisks(self, instance: Instance) -> tuple[Disk, ...]:
        """Return the disk objects of an instance, in its order: those that it carries itself, if it does."""
        if instance.disks_info is not None:
            return instance.disks_info
        try:
            return tuple([self.disks[uuid] for uuid in instance.disks])
        except KeyError as err:
            raise errors.ConfigurationError(
                f"{instance.label}: disk {err.args[0]} is not in the configuration"
            ) from err

    def SecondaryNodes(self, instance: Instance) -> tuple[str, ...]:
        """Return the uuids of the nodes that hold disks of the instance, without its primary node."""
        found: dict[str, None] = {}
        for disk in self.InstanceDisks(instance):
            found.update(dict.fromkeys(disk.nodes))
        found.pop(instance.primary_node, None)
        return tuple(found)

    def AllNodes(self, instance: Instance) -> tuple[str, ...]:
        """Return the primary node, then the secondary ones; a reservation may have none yet."""
        if instance.primary_node is None:
            return self.SecondaryNodes(instance)
        return (instance.primary_node, *self.SecondaryNodes(instance))

    def IsBare(self, instance: Instance) -> bool:
        """Return whether this is a reservation that lacks what jobs need of an instance, such as its name.

        Release 3.1 stores those.  They are shown, and jobs leave them alone.
        """
        if not instance.forthcoming:
            return False
        return any(getattr(instance, name) is None for name in _NEEDED) or any(
            getattr(disk, name) is None for disk in self.InstanceDisks(instance) for name in _DISK_NEEDED
        )

    def WholeInstances(self) -> Iterator[Instance]:
        """Yield the instances that jobs can act on."""
        return (instance for instance in self.instances.values() if not self.IsBare(instance))

    def DiskTemplate(self, instance: Instance) -> str:
        """Return the template that the instance's disks have in common (doc/reference/config.md 8.1)."""
        return CommonTemplate(self.InstanceDisks(instance))

    def NodeInstances(self, uuid: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return (uuids of instances whose primary node this is, those whose secondary node it is)."""
        owners = dict.fromkeys(self.DiskOwner(disk) for disk in self._Get("disks of node").Get(uuid))
        primary = self._Get("primaries of node").Get(uuid)
        others = [own for own in owners if own is not None and self.instances[own].primary_node != uuid]
        return primary, tuple(sorted(others))

    def NodeDisks(self, uuid: str) -> tuple[str, ...]:
        """Return the uuids of the disks that lie on a node, attached or not."""
        return self._Get("disks of node").Get(uuid)

    def PrimaryInstances(self, uuid: str) -> tuple[Instance, ...]:
        """Return the instances whose primary node this is, as far as jobs can act on them."""
        return self._Whole(self.NodeInstances(uuid)[0])

    def SecondaryInstances(self, uuid: str) -> tuple[Instance, ...]:
        """Return the instances whose secondary node this is, as far as jobs can act on them."""
        return self._Whole(self.NodeInstances(uuid)[1])

    def _Whole(self, uuids: Iterable[str]) -> tuple[Instance, ...]:
        found = (self.instances[uuid] for uuid in uuids)
        return tuple([instance for instance in found if not self.IsBare(instance)])

    def DiskOwner(self, uuid: str) -> str | None:
        """Return the uuid of the instance that has this disk; None for a detached one."""
        found = self._Get("attached disk").Get(uuid)
        return found[0] if found else None

    def Users(self, what: str, value: Any) -> tuple[str, ...]:
        """Return the uuids of the objects that have a value that only one should have; ``what``: see ``indexes.TABLE``.

        An object that has it twice stands there twice.
        """
        return self._Get(what).Get(value)

    def AllUsers(self, what: str) -> Iterator[tuple[Any, tuple[str, ...]]]:
        """Yield each value that is in use with the uuids of the objects that have it."""
        return self._Get(what).All()

    def Total(self, what: str) -> int:
        """Return a sum over all objects of a kind; ``what``: see ``indexes.TOTALS``."""
        found: int = self._Get(what)
        return found

    def UsedMinors(self, node_uuid: str) -> Mapping[int, str]:
        """Return the DRBD minors of a node, each with the uuid of the disk that has it."""
        return dict(self._Get("minors of node").Get(node_uuid))

    def IsUuidUsed(self, uuid: str) -> bool:
        """Return whether any object has it, embedded ones included."""
        return uuid == self.cluster.uuid or bool(self.Users("uuid", uuid))

    # --- the store's rows and the file --------------------------------------------------------------------------------

    def TopRow(self) -> str:
        """Return value of the row of kind ``config``: the top level without its objects."""
        return serializer.Dump({**{key: self.__dict__[key] for key in _TOP_KEYS}, **self.extra})

    def ToRows(self) -> Iterator[tuple[str, str, str]]:
        """Yield every row as (kind, id, value)."""
        yield "config", "config", self.TopRow()
        yield "cluster", "cluster", self.cluster.Json()
        for kind, attribute, _ in KIND_MAPS:
            for uuid, obj in getattr(self, attribute).items():
                yield kind, uuid, obj.Json()

    @classmethod
    def FromRows(cls, rows: Iterable[tuple[str, str, str]]) -> Self:
        """Return the root of these rows; rows of other kinds are passed over.  Values become the objects' fragments."""
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
        """Return the root after rows were written (None: deleted); rows of other kinds are passed over."""
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
        """Return the root of the file's object, as it stands: without any check across objects."""
        maps: dict[str, Any] = {}
        for _, attribute, kind_class in KIND_MAPS:
            stored = data.get(attribute, {})
            if not isinstance(stored, dict):
                raise errors.ConfigurationError(f"key '{attribute}' must be an object, found {Show(stored)}")
            wrong = next((uuid for uuid, item in stored.items() if not isinstance(item, dict)), None)
            if wrong is not None:
                raise errors.ConfigurationError(
                    f"key '{attribute}', entry '{wrong}': expected an object, found {Show(stored[wrong])}"
                )
            maps[attribute] = {uuid: kind_class.FromDict(item) for uuid, item in stored.items()}
        top = {key: data[key] for key in data if key != "cluster" and key not in maps}
        return cls(cluster=Cluster.FromDict(data.get("cluster")), **maps, **_TopValues(top))


def _TopValues(stored: Any) -> dict[str, Any]:
    """Return the top level's own values as arguments of Snapshot."""
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
    """Return the text of config.data: compact, keys as declared, objects by uuid, newline at the end.

    Joins the objects' kept fragments: 2000 instances take milliseconds.
    """
    maps = {
        kind: {uuid: obj.Json() for uuid, obj in getattr(snapshot, attribute).items()}
        for kind, attribute, _ in KIND_MAPS
    }
    top = {key: snapshot.__dict__[key] for key in _TOP_KEYS}
    return _JoinText({**top, **snapshot.extra}, snapshot.cluster.Json(), maps)


def ConfigTextOfRows(rows: Mapping[str, Mapping[str, str]]) -> str:
    """Return what ConfigText does, made of the store's rows (kind -> id -> value), of which only the top level is parsed."""
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
