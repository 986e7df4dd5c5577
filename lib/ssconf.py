"""ssconf: small files on every node with what it must know without a master.

``Values(snapshot)`` makes the texts on the master, ``WriteSsconfFiles`` puts them in place on a node,
``SimpleStore`` reads them.  Everything derives from the table ``KEYS``.

Light to import: command line programs read a file or two of them.

A value above ``MAX_SIZE`` is written nowhere, or no reader would take it.  So a change that would make one is rejected
before it is stored (``SizeProblems``), and what is too large nevertheless leaves its file as it is (``Writable``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ganeti import constants, errors, pathutils, runtime, uidpool
from ganeti.utils.text import NiceSort, NiceSortKey

if TYPE_CHECKING:
    from ganeti.objects import Node, Snapshot
    from ganeti.runtime import protocols

MAX_SIZE = 131072
LOCK_TIMEOUT = 10.0
FILE_MODE = 0o444
HVPARAMS_PREFIX = "hvparams_"


def InCluster() -> bool:
    """Return whether this node belongs to a cluster."""
    return runtime.Exists(pathutils.SsconfFile("master_node"))


class Key(NamedTuple):
    """``lines(snapshot)`` is the value, one text per line.  A key without ``since`` is mandatory for readers.

    ``kind``: the objects that the lines are made of, whose fields in ``SOURCES`` decide on their length.  ``order``: how
    the lines are put in order, where that takes long.
    """

    lines: Callable[[Snapshot], Iterable[str]]
    since: str
    doc: str
    kind: str = "cluster"
    order: Callable[[Iterable[str]], Iterable[str]] = iter


SOURCES: dict[str, tuple[str, ...]] = {
    "cluster": (
        "cluster_name", "master_node", "tags", "file_storage_dir", "shared_file_storage_dir", "gluster_storage_dir", "candidate_certs",
        "master_ip", "master_netdev", "enabled_hypervisors", "uid_pool", "hvparams",
    ),
    "node": ("name", "primary_ip", "secondary_ip", "vm_capable", "offline", "master_candidate"),
    "instance": ("name",),
    "nodegroup": ("name",),
    "network": ("name",),
}  # fmt: skip


def _Nodes(root: Snapshot) -> list[Node]:
    return sorted(root.nodes.values(), key=lambda node: NiceSortKey(node.name))


def _Candidates(root: Snapshot) -> list[Node]:
    return [node for node in _Nodes(root) if node.master_candidate]


def _HvParams(hypervisor: str) -> Key:
    def lines(root: Snapshot) -> Iterable[str]:
        values = root.cluster.hvparams.get(hypervisor, {})
        return [f"{name}={values[name]}" for name in sorted(values)]

    return Key(lines, "2.9", f"cluster-wide parameters of {hypervisor}, KEY=VALUE")


def _SshPorts(root: Snapshot) -> list[str]:
    from ganeti import params

    return [f"{node.name}={params.FillND(root, node).get('ssh_port')}" for node in _Nodes(root)]


def _One(value: Callable[[Snapshot], Any]) -> Callable[[Snapshot], Iterable[str]]:
    return lambda root: [str(value(root))]


KEYS: dict[str, Key] = {
    "cluster_name": Key(_One(lambda root: root.cluster.cluster_name), "", "name of the cluster"),
    "cluster_tags": Key(lambda root: sorted(root.cluster.tags), "", "tags of the cluster"),
    "file_storage_dir": Key(_One(lambda root: root.cluster.file_storage_dir), "", "path or empty"),
    "shared_file_storage_dir": Key(_One(lambda root: root.cluster.shared_file_storage_dir), "", "path or empty"),
    "gluster_storage_dir": Key(_One(lambda root: root.cluster.gluster_storage_dir), "2.11", "path or empty"),
    "master_candidates": Key(
        lambda root: [node.name for node in _Candidates(root)], "", "names of master candidates", "node"
    ),
    "master_candidates_ips": Key(
        lambda root: [node.primary_ip for node in _Candidates(root)],
        "",
        "primary addresses of master candidates",
        "node",
    ),
    "master_candidates_certs": Key(
        lambda root: [f"{uuid}={digest}" for uuid, digest in sorted(root.cluster.candidate_certs.items())],
        "2.11",
        "digests of the candidates' certificates by node uuid",
    ),
    "master_ip": Key(_One(lambda root: root.cluster.master_ip), "", "address of the cluster's name"),
    "master_netdev": Key(_One(lambda root: root.cluster.master_netdev), "", "interface of that address"),
    "master_netmask": Key(_One(lambda root: root.cluster.master_netmask), "2.6", "prefix length of that address"),
    "master_node": Key(_One(lambda root: root.master_name), "", "name of the master"),
    "node_list": Key(lambda root: [node.name for node in _Nodes(root)], "", "names of all nodes", "node"),
    "node_primary_ips": Key(
        lambda root: [f"{node.name} {node.primary_ip}" for node in _Nodes(root)], "", "primary address by name", "node"
    ),
    "node_secondary_ips": Key(
        lambda root: [f"{node.name} {node.secondary_ip}" for node in _Nodes(root)],
        "",
        "secondary address by name",
        "node",
    ),
    "node_vm_capable": Key(
        lambda root: [f"{node.name}={node.vm_capable}" for node in _Nodes(root)],
        "2.11",
        "True or False by name",
        "node",
    ),
    "offline_nodes": Key(lambda root: [node.name for node in _Nodes(root) if node.offline], "", "names", "node"),
    "online_nodes": Key(lambda root: [node.name for node in _Nodes(root) if not node.offline], "", "names", "node"),
    "primary_ip_family": Key(_One(lambda root: root.cluster.primary_ip_family), "2.3", "2 = IPv4, 10 = IPv6"),
    "instance_list": Key(
        lambda root: (inst.name for inst in root.instances.values() if inst.name is not None),
        "",
        "names",
        "instance",
        NiceSort,
    ),
    "release_version": Key(lambda root: [constants.RELEASE_VERSION], "", "release of the master"),
    "hypervisor_list": Key(lambda root: root.cluster.enabled_hypervisors, "", "enabled hypervisors"),
    "maintain_node_health": Key(_One(lambda root: root.cluster.maintain_node_health), "", "True or False"),
    "uid_pool": Key(
        lambda root: [uidpool.FormatUidPool([item]) for item in root.cluster.uid_pool], "", "one range or id per line"
    ),
    "nodegroups": Key(
        lambda root: [
            f"{group.uuid} {group.name}"
            for group in sorted(root.nodegroups.values(), key=lambda group: NiceSortKey(group.name))
        ],
        "2.3",
        "uuid and name",
        "nodegroup",
    ),
    "networks": Key(
        lambda root: [
            f"{network.uuid} {network.name}"
            for network in sorted(root.networks.values(), key=lambda network: NiceSortKey(network.name))
        ],
        "2.7",
        "uuid and name",
        "network",
    ),
    "enabled_user_shutdown": Key(_One(lambda root: root.cluster.enabled_user_shutdown), "2.11", "True or False"),
    "ssh_ports": Key(
        _SshPorts,
        "2.12",
        "port of the SSH daemon by name",
        "node",
    ),
    **{HVPARAMS_PREFIX + name: _HvParams(name) for name in sorted(constants.HYPER_TYPES)},
}


def Values(snapshot: Snapshot) -> dict[str, str]:
    """Return the value of every key, lines joined, without the newline at the end."""
    return {name: Value(snapshot, name) for name in KEYS}


def Value(snapshot: Snapshot, name: str) -> str:
    """Return the value of one key, as ``Values`` does."""
    key = KEYS[name]
    return "\n".join(map(_OneLine, key.order(key.lines(snapshot))))


def _OneLine(text: str) -> str:
    """Return ``text`` without line breaks, each of which would begin a line of its own."""
    return text if text.isprintable() else " ".join(text.splitlines())


def SizeProblems(root: Snapshot, kinds: Collection[str] = tuple(SOURCES), before: Snapshot | None = None) -> list[str]:
    """Describe the values made of objects of these kinds that are too large for their files.

    ``before``: those that are not larger than they were in this snapshot are left out.
    """
    found = []
    for name, key in KEYS.items():
        if key.kind not in kinds:
            continue
        size = _Size(root, key)
        if size > MAX_SIZE and (before is None or size > _Size(before, key)):
            found.append(_TooLarge(name, size))
    return found


def _Size(root: Snapshot, key: Key) -> int:
    if key.kind == "instance":
        # Thousands of names are not counted anew whenever one is added.
        return root.Total("bytes of instance names") + len(root.instances)
    return sum(len(line.encode("utf-8", "replace")) + 1 for line in key.lines(root))


def _TooLarge(key: str, size: int) -> str:
    return f"ssconf value '{key}' has {size} bytes, the limit is {MAX_SIZE}"


def FileText(key: str, value: str) -> bytes:
    """Return the content of a key's file; ConfigurationError if it is too large."""
    if value and not value.endswith("\n"):
        value += "\n"
    data = value.encode("utf-8", "backslashreplace")
    if len(data) > MAX_SIZE:
        raise errors.ConfigurationError(_TooLarge(key, len(data)))
    return data


def Writable(values: Mapping[str, str]) -> dict[str, str]:
    """Return the values that fit into their files, and log the others: one must not keep the rest from being written."""
    fitting = {}
    for key, value in values.items():
        try:
            FileText(key, value)
            fitting[key] = value
        except errors.ConfigurationError as err:
            logging.error("%s: its files keep the former value", err)
    return fitting


def Lock(exclusive: bool = True) -> protocols.FileLock:
    """Take the lock of the files.  Whoever could open it could stop every change, so nobody else can."""
    runtime.MakeDirs(pathutils.RUN_EXT_DIR, 0o770)
    return runtime.LockFile(pathutils.SSCONF_LOCK_FILE, exclusive, LOCK_TIMEOUT)


def WriteSsconfFiles(values: Mapping[str, str], dry_run: bool = False) -> None:
    """Put the values in place, under the exclusive lock; what is unchanged stays.

    All are checked before any is written.
    """
    unknown = sorted(values.keys() - KEYS.keys())
    if unknown:
        raise errors.ConfigurationError(f"unknown ssconf key: {', '.join(unknown)[:200]}")
    texts = {pathutils.SsconfFile(name): FileText(name, value) for name, value in values.items()}
    with Lock():
        for path, data in texts.items():
            if not dry_run and not _Has(path, data):
                runtime.WriteFile(path, data, mode=FILE_MODE)


def _Has(path: str, data: bytes) -> bool:
    try:
        return runtime.ReadFile(path, MAX_SIZE) == data and runtime.Stat(path).st_mode & 0o777 == FILE_MODE
    except (OSError, runtime.FileTooLarge):
        return False


class SimpleStore:
    """Reads the files of this node: a missing mandatory one is a ConfigurationError, any other missing one is empty."""

    def _Read(self, key: str) -> str:
        """Return the value without blanks at its end."""
        if key not in KEYS:
            raise errors.ProgrammerError(f"unknown ssconf key '{key}'")
        path = pathutils.SsconfFile(key)
        try:
            return runtime.ReadText(path, MAX_SIZE).rstrip()
        except FileNotFoundError as err:
            if KEYS[key].since:
                return ""
            raise errors.ConfigurationError(
                f"{path} does not exist: this node is not part of a cluster",
                hint="run this on a node of the cluster, or set the node up with gnt-node add on the master",
            ) from err
        except (OSError, ValueError, runtime.FileTooLarge) as err:
            raise errors.ConfigurationError(f"{path} cannot be read: {err}") from err

    def ReadAll(self) -> dict[str, str]:
        """Return every key as of one moment: under the shared lock, as far as this user may take it."""
        try:
            lock = Lock(exclusive=False)
        except PermissionError:
            return {key: self._Read(key) for key in KEYS}
        with lock:
            return {key: self._Read(key) for key in KEYS}

    def _Lines(self, key: str) -> list[str]:
        return self._Read(key).splitlines()

    def _Map(self, key: str, separator: str) -> dict[str, str]:
        return {name: value for name, found, value in (line.partition(separator) for line in self._Lines(key)) if found}

    def _Int(self, key: str, default: int | None = None) -> int:
        text = self._Read(key)
        if not text and default is not None:
            return default
        try:
            return int(text)
        except ValueError as err:
            raise errors.ConfigurationError(
                f"{pathutils.SsconfFile(key)} must hold a number, found '{text[:60]}'"
            ) from err

    def _Bool(self, key: str) -> bool:
        return self._Read(key) == "True"

    def GetClusterName(self) -> str:
        return self._Read("cluster_name")

    def GetClusterTags(self) -> list[str]:
        return self._Lines("cluster_tags")

    def GetFileStorageDir(self) -> str:
        return self._Read("file_storage_dir")

    def GetSharedFileStorageDir(self) -> str:
        return self._Read("shared_file_storage_dir")

    def GetGlusterStorageDir(self) -> str:
        return self._Read("gluster_storage_dir")

    def GetMasterCandidates(self) -> list[str]:
        return self._Lines("master_candidates")

    def GetMasterCandidatesIPList(self) -> list[str]:
        return self._Lines("master_candidates_ips")

    def GetMasterCandidatesCertMap(self) -> dict[str, str]:
        """Return digests by node uuid."""
        return self._Map("master_candidates_certs", "=")

    def GetMasterIP(self) -> str:
        return self._Read("master_ip")

    def GetMasterNetdev(self) -> str:
        return self._Read("master_netdev")

    def GetMasterNetmask(self) -> int:
        """Return the prefix length; a file of before 2.6 means a whole address."""
        family = self.GetPrimaryIPFamily()
        return self._Int("master_netmask", default=128 if family == constants.IP6_FAMILY else 32)

    def GetMasterNode(self) -> str:
        """Return the name of the master as this node knows it; it may be a moment behind the store."""
        return self._Read("master_node")

    def IsMaster(self) -> bool:
        """Return whether this node is the master as far as it knows; one that knows no master is not."""
        try:
            master = self.GetMasterNode()
        except errors.ConfigurationError:
            return False
        own = pathutils.HostName()
        return master == own or master.partition(".")[0] == own

    def GetNodeList(self) -> list[str]:
        return self._Lines("node_list")

    def GetOnlineNodeList(self) -> list[str]:
        return self._Lines("online_nodes")

    def GetOfflineNodeList(self) -> list[str]:
        return self._Lines("offline_nodes")

    def GetNodePrimaryIPs(self) -> dict[str, str]:
        """Return addresses by name."""
        return self._Map("node_primary_ips", " ")

    def GetNodeSecondaryIPs(self) -> dict[str, str]:
        """Return addresses by name."""
        return self._Map("node_secondary_ips", " ")

    def GetNodesVmCapable(self) -> dict[str, bool]:
        return {name: value == "True" for name, value in self._Map("node_vm_capable", "=").items()}

    def GetSshPortMap(self) -> dict[str, int]:
        return {
            name: int(port) for name, port in self._Map("ssh_ports", "=").items() if port.isascii() and port.isdigit()
        }

    def GetPrimaryIPFamily(self) -> int:
        return self._Int("primary_ip_family", default=constants.IP4_FAMILY)

    def GetInstanceList(self) -> list[str]:
        return self._Lines("instance_list")

    def GetReleaseVersion(self) -> str:
        return self._Read("release_version")

    def GetHypervisorList(self) -> list[str]:
        return self._Lines("hypervisor_list")

    def GetHvparamsForHypervisor(self, hypervisor: str) -> dict[str, Any]:
        """Return the cluster's parameters of a hypervisor, of their types."""
        from ganeti import params
        from ganeti.params import hv
        from ganeti.params.types import MAYBE_STRING

        table = hv.Table(hypervisor)
        found = self._Map(HVPARAMS_PREFIX + hypervisor, "=")
        values: dict[str, Any] = {
            name: None if text == "None" and table[name].type == MAYBE_STRING else text
            for name, text in found.items()
            if name in table
        }
        return params.ForceDictType(values, table)

    def GetHvparams(self) -> dict[str, dict[str, Any]]:
        return {name: self.GetHvparamsForHypervisor(name) for name in constants.HYPER_TYPES}

    def GetMaintainNodeHealth(self) -> bool:
        return self._Bool("maintain_node_health")

    def GetUidPool(self) -> list[tuple[int, int]]:
        return uidpool.ParseUidPool(self._Read("uid_pool"), separator="\n")

    def GetNodegroupList(self) -> dict[str, str]:
        """Return names by uuid."""
        return self._Map("nodegroups", " ")

    def GetNetworkList(self) -> dict[str, str]:
        """Return names by uuid."""
        return self._Map("networks", " ")

    def GetEnabledUserShutdown(self) -> bool:
        return self._Bool("enabled_user_shutdown")
