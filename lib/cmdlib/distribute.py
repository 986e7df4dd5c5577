"""Files that nodes need besides the configuration (doc/reference/files.md 8): which, for whom, and their way there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ganeti import pathutils, renewal, runtime
from ganeti.params import hv

if TYPE_CHECKING:
    from ganeti import objects
    from ganeti.cmdlib.base import LogicalUnit

_EXTRA_FILES_LIMIT = 65536


def ExtraFiles() -> list[str]:
    """Return the administrator's list of further files, one path a line, which is distributed too (design 2.1)."""
    try:
        text = runtime.ReadText(pathutils.EXTRA_FILES_LIST, _EXTRA_FILES_LIMIT)
    except FileNotFoundError:
        return []
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [pathutils.EXTRA_FILES_LIST, *(pathutils.AddNodePrefix(line) for line in lines if line.startswith("/"))]


def FilesOfAll(cluster: objects.Cluster) -> list[str]:
    """Return the files that every node gets."""
    files = [
        pathutils.SSH_KNOWN_HOSTS_FILE,
        *renewal.Copied(),
        pathutils.CLUSTER_DOMAIN_SECRET_FILE,
        pathutils.SPICE_CERT_FILE,
        pathutils.SPICE_CACERT_FILE,
    ]
    if cluster.modify_etc_hosts:
        files.append(pathutils.ETC_HOSTS)
    if cluster.use_external_mip_script:
        files.append(pathutils.EXTERNAL_MASTER_SETUP_SCRIPT)
    return files + ExtraFiles()


def FilesOfRapi() -> list[str]:
    """Return the files for nodes on which RAPI can run."""
    return [pathutils.RAPI_CERT_FILE, pathutils.RAPI_USERS_FILE]


def RedistributeAncillaryFiles(lu: LogicalUnit, only: Iterable[str] | None = None) -> None:
    """Upload the files to all online nodes but the master, or to the nodes of ``only``; failures are warnings."""
    snapshot = lu.snapshot
    chosen = set(snapshot.nodes if only is None else only)
    online = [
        node
        for node in snapshot.nodes.values()
        if node.uuid in chosen and not node.offline and node.uuid != snapshot.cluster.master_node
    ]
    for path, nodes in _Receivers(snapshot, online):
        UploadFile(lu, path, nodes)


def BringFiles(lu: LogicalUnit, node: objects.Node, what: str) -> None:
    """Upload the files to a node that joins; raise OpExecError, which begins with ``what``, at the first failure."""
    for path, nodes in _Receivers(lu.snapshot, [node]):
        if nodes and runtime.Exists(path):
            lu.rpc.call_upload_file(nodes, path)[node.uuid].Raise(f"{what}: copy of file {path} failed")


def _Receivers(snapshot: objects.Snapshot, nodes: Sequence[objects.Node]) -> Iterator[tuple[str, list[str]]]:
    """Yield each file with those of the nodes that get it."""
    for path in FilesOfAll(snapshot.cluster):
        yield path, [node.uuid for node in nodes]
    for path in FilesOfRapi():
        yield path, [node.uuid for node in nodes if node.master_capable]
    for path in hv.AncillaryFiles(snapshot):
        yield path, [node.uuid for node in nodes if node.vm_capable]


def UploadFile(lu: LogicalUnit, path: str, nodes: list[str]) -> None:
    """Copy a file of the master to nodes; do nothing if it does not exist."""
    if not nodes or not runtime.Exists(path):
        return
    for result in lu.rpc.call_upload_file(nodes, path).values():
        if result.fail_msg:
            lu.LogWarning(f"Copy of file {path} to node {result.node_name} failed: {result.fail_msg}")
