"""What ganeti-confd knows: one configuration, indexed once, without its secrets.

DRBD secrets, private OS parameters and the tokens of the remote interface are left out of everything that is handed on: the
datagrams are signed, not encrypted, and every node and whoever else has the key may ask (doc/security.rst).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ganeti import constants, objects
from ganeti.confd import queries
from ganeti.params import disk as disk_params
from ganeti.params import nic

HIDDEN = "<redacted>"
_MIRRORS = disk_params.With(mirror=disk_params.INTERNAL)
_DRBD_SECRET = 5  # its place in a logical_id

# Keys of objects whose values are hidden, however deep these lie below the key.
_HIDDEN_KEYS = ("osparams_private", "osparams_private_cluster")
# Keys of objects that are left out: the names and roles of tokens say whom to attack, and only the REST daemon needs them.
_ABSENT_KEYS = ("rapi_tokens",)


def _Hide(value: Any) -> Any:
    """Return ``value`` with all but its keys hidden."""
    return {key: _Hide(item) for key, item in value.items()} if isinstance(value, dict) else HIDDEN


def _HideSecrets(data: dict[str, Any]) -> dict[str, Any]:
    """Hide the secrets of an object in its stored form, in place; return it."""
    for key in _HIDDEN_KEYS:
        if key in data:
            data[key] = _Hide(data[key])
    for key in _ABSENT_KEYS:
        data.pop(key, None)
    if data.get("dev_type") in _MIRRORS and len(data.get("logical_id") or ()) > _DRBD_SECRET:
        data["logical_id"][_DRBD_SECRET] = HIDDEN
    for child in data.get("children") or ():
        _HideSecrets(child)
    return data


def Public(value: Any) -> Any:
    """Return ``value`` as a reply may hold it: objects in their stored form, all without secrets.

    What has been brought into its stored form before, with ``ToDict()``, loses its secrets here, too.  Raises TooMuch.
    """
    if isinstance(value, objects.ConfigObject):
        return _HideSecrets(value.ToDict())
    if isinstance(value, Mapping):
        if isinstance(next(iter(value.values()), None), objects.ConfigObject):
            CheckNumber(len(value))
        return _HideSecrets({key: Public(item) for key, item in value.items()})
    if isinstance(value, (list, tuple)):
        return [Public(item) for item in value]
    return value


class View:
    """A configuration with what questions need; it does not change."""

    def __init__(self, root: objects.Snapshot):
        self.root = root
        self.default_link = str(root.cluster.nicparams.get(constants.PP_DEFAULT, {}).get(nic.NIC_LINK, ""))
        # link -> address -> uuid of the instance
        self._addresses: dict[str, dict[str, str]] = {}
        for instance in root.instances.values():
            for interface in instance.nics:
                if interface.ip is not None:
                    link = str(interface.nicparams.get(nic.NIC_LINK, self.default_link))
                    self._addresses.setdefault(link, {})[interface.ip] = instance.uuid
        self._BuildIndexes()

    def _BuildIndexes(self) -> None:
        """Have the root make the indexes now that the first questions would have to wait for."""
        self.FindNode("?")
        self.FindInstance("?")
        self.root.NodeInstances("?")
        self.root.UsedMinors("?")

    def FindNode(self, name: str) -> objects.Node | None:
        """Return the node with this name, uuid, or only name that begins so."""
        found: objects.Node | None = self.root.ExpandName("node", name)
        return found

    def FindInstance(self, name: str) -> objects.Instance | None:
        """Return the instance with this name, uuid, or only name that begins so."""
        found: objects.Instance | None = self.root.ExpandName("instance", name)
        return found

    def Role(self, node: objects.Node) -> int:
        """Return the number of a node's role."""
        return queries.ROLES[node.Role(self.root.cluster.master_node)]

    def MayAnswer(self, name: str) -> bool:
        """Return whether the node of this name answers questions: the master and its candidates do."""
        node = self.FindNode(name)
        return node is not None and (node.master_candidate or node.uuid == self.root.cluster.master_node)

    def Addresses(self, link: str) -> Mapping[str, str]:
        """Return the instances' addresses on a link, each with the instance's uuid."""
        return self._addresses.get(link, {})

    def Minors(self, node: objects.Node) -> Iterator[list[Any]]:
        """Yield [node, minor, instance, disk/N, role, peer node] of each DRBD device of a node."""
        for minor, disk_uuid in sorted(self.root.UsedMinors(node.uuid).items()):
            owner = self.root.DiskOwner(disk_uuid)
            if owner is None:
                continue
            instance, disk = self.root.instances[owner], self.root.disks[disk_uuid]
            role = "primary" if instance.primary_node == node.uuid else "secondary"
            peers = [self.root.NodeName(uuid) for uuid, _ in disk.Minors() if uuid != node.uuid]
            number = instance.disks.index(disk_uuid)
            yield [node.name, minor, instance.known_as, f"disk/{number}", role, peers[0] if peers else ""]

    def Lookup(self, path: str) -> Any:
        """Return the part of the configuration that ``path`` leads to; raises KeyError if it leads nowhere.

        It may hold objects, for ``Public``.  Only what is on the path is built: the whole configuration would take longer than a question may.
        """
        words = [word for word in path.split("/") if word]
        value: Any = self._Top()
        for word in words:
            if isinstance(value, list):
                value = _Item(value, word)
            elif isinstance(value, Mapping):
                value = value[word]
            else:
                raise KeyError(word)
            if isinstance(value, objects.ConfigObject):
                value = Public(value)
        return value

    def _Top(self) -> dict[str, Any]:
        root = self.root
        return {
            "version": root.version,
            "cluster": root.cluster,
            **{attribute: getattr(root, attribute) for _, attribute, _ in objects.KIND_MAPS},
            "ctime": root.ctime,
            "mtime": root.mtime,
            "serial_no": root.serial_no,
            **root.extra,
        }


def _Item(values: list[Any], word: str) -> Any:
    if not (word.isascii() and word.isdigit() and len(word) < 9 and int(word) < len(values)):
        raise KeyError(word)
    return values[int(word)]


# Fewer bytes than any object of the configuration has as text.
_SMALLEST_OBJECT = 80
_MOST_OBJECTS = 65536 // _SMALLEST_OBJECT


class TooMuch(Exception):
    """What was asked for cannot fit into a datagram."""


def CheckNumber(count: int) -> None:
    """Raise TooMuch if so many objects cannot fit into a datagram: building them would only take time."""
    if count > _MOST_OBJECTS:
        raise TooMuch(f"{count} objects do not fit into a datagram: ask for a part of them")
