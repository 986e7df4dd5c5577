"""Files that nodes need besides the configuration (doc/reference/files.md 8): which, for whom, and their way there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ganeti import pathutils, renewal, runtime
from ganeti.params import hv
from ganeti.utils.text import NiceSort

if TYPE_CHECKING:
    from ganeti import objects
    from ganeti.cmdlib.base import LogicalUnit
    from ganeti.rpc import RpcResult

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


def RedistributeAncillaryFiles(lu: LogicalUnit, only: Iterable[str] | None = None) -> list[str]:
    """Upload the files to all online nodes but the master, or to the nodes of ``only``; failures are warnings.

    Return the names of the nodes that did not get all of their files.
    """
    snapshot = lu.snapshot
    chosen = set(snapshot.nodes if only is None else only)
    online = [
        node
        for node in snapshot.nodes.values()
        if node.uuid in chosen and not node.offline and node.uuid != snapshot.cluster.master_node
    ]
    failed: set[str] = set()
    silent: set[str] = set()
    for path, nodes in _Receivers(snapshot, online):
        # A node that does not answer would cost its time-out with every file.
        results = UploadFile(lu, path, [uuid for uuid in nodes if uuid not in silent])
        failed |= {uuid for uuid, result in results.items() if result.fail_msg}
        silent |= {uuid for uuid, result in results.items() if result.failure is not None}
    return NiceSort(snapshot.nodes[uuid].name for uuid in failed)


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


def UploadFile(lu: LogicalUnit, path: str, nodes: list[str]) -> Mapping[str, RpcResult]:
    """Copy a file of the master to nodes and return the results, none if it does not exist; failures are warnings."""
    if not nodes or not runtime.Exists(path):
        return {}
    results = lu.rpc.call_upload_file(nodes, path)
    for result in results.values():
        if result.fail_msg:
            lu.LogWarning(f"Copy of file {path} to node {result.node_name} failed: {result.fail_msg}")
    return results
