"""The pool of master candidates: what a node gets when it becomes one, and gives back afterwards.

Flag, vote in the store and accepted certificate change in one transaction each (design-store, rule 4); files and SSH
keys follow: failures there are warnings, and ``gnt-cluster redist-conf`` brings the files again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ganeti import errors, pathutils, runtime, ssconf, x509
from ganeti.cmdlib.distribute import RedistributeAncillaryFiles
from ganeti.config.nodes import COPY_TIMEOUT
from ganeti.utils.text import NiceSort

if TYPE_CHECKING:
    from ganeti import objects
    from ganeti.cmdlib.base import LogicalUnit
    from ganeti.rpc import RpcResult

_SSL_REQUEST = ["ssl", "get", None]
_LIST = "master_candidates_certs"
# Seconds for the new list to reach every node, and between two looks.
_REVOKED_WITHIN = 10.0
_REVOKED_STEP = 0.3


def PotentialCandidates(snapshot: objects.Snapshot) -> list[str]:
    """Return the names of the nodes that may become candidates: they know every node's public key."""
    return NiceSort(node.name for node in snapshot.nodes.values() if node.master_capable)


def Promote(lu: LogicalUnit, node_uuid: str, timeout: float = COPY_TIMEOUT, ssh: bool = True) -> objects.Node:
    """Make a node a candidate and give it what candidates need; ``ssh`` False: its key is not known yet.

    OpExecError if it does not send the digest of its certificate, StoreError if it cannot be given a copy: then it
    stays what it was.
    """
    result = lu.rpc.call_node_crypto_tokens(node_uuid, [_SSL_REQUEST])
    name = result.node_name
    result.Raise(f"Node {name} does not send the digest of its certificate and cannot become master candidate")
    digest = _Digest(name, result.payload)
    for uuid, other in lu.cfg.Snapshot().cluster.candidate_certs.items():
        # With one line for two nodes, the demotion of one would leave the other's certificate accepted.
        if other == digest and uuid != node_uuid:
            raise errors.OpExecError(f"Node {name} sent the digest of the certificate of node {uuid}")
    promoted = lu.cfg.PromoteNode(node_uuid, timeout, digest=digest)
    lu.LogInfo(f"Node {name} is now a master candidate")
    RedistributeAncillaryFiles(lu, only=[node_uuid])
    if ssh and lu.snapshot.cluster.modify_ssh_setup:
        AddSshKeys(lu, promoted, to_public=False)
    return promoted


def _Digest(name: str, payload: Any) -> str:
    """Return the digest in a node's answer, which becomes a line of the list that lets callers in."""
    for row in payload if isinstance(payload, list) else ():
        if not (isinstance(row, list) and len(row) == 2 and row[0] == _SSL_REQUEST[0] and isinstance(row[1], str)):
            continue
        if x509.IsDigest(row[1]):
            return row[1]
    raise errors.OpExecError(f"Node {name} did not send a valid digest of its certificate: {str(payload)[:100]!r}")


def MaintainPool(lu: LogicalUnit, exceptions: Iterable[str] = ()) -> None:
    """Promote nodes until there are as many candidates as there should be; warn about those that cannot be promoted."""

    def failed(node: objects.Node, err: Exception) -> None:
        lu.LogWarning(f"Node {node.name} could not be made a master candidate: {err}")

    excepted = list(exceptions)
    lu.cfg.MaintainCandidatePool(excepted, failed, promote=lambda uuid, timeout: Promote(lu, uuid, timeout))
    now, should, _ = lu.cfg.GetMasterCandidateStats(excepted)
    if now > should:
        lu.LogInfo(f"There are more master candidates ({now}) than desired ({should})")
    elif now < should:
        lu.LogWarning(
            f"There are {now} master candidates, {should} are wanted",
            hint="'gnt-node modify --master-candidate yes NODE' once a failed node is healthy",
        )


def Demoted(lu: LogicalUnit, node: objects.Node) -> None:
    """Remove from a former candidate what only candidates have."""
    result = lu.rpc.call_node_demote_from_mc(node.uuid)
    if result.fail_msg:
        lu.LogWarning(f"Node {node.name} failed to demote itself: {result.fail_msg}")


def AwaitRevocation(lu: LogicalUnit, former: objects.Node) -> None:
    """Wait until every node has the list without ``former``, and warn about those that still accept its calls.

    The list reaches the nodes by itself, within a second; a node where something holds it up would obey the former
    candidate, unnoticed.
    """
    root = lu.snapshot
    path = pathutils.MakeVirtualPath(pathutils.SsconfFile(_LIST))
    digest = hashlib.sha1(ssconf.FileText(_LIST, ssconf.Value(root, _LIST)), usedforsecurity=False).hexdigest()
    stale = {node.uuid for node in root.nodes.values() if not node.offline and node.uuid != former.uuid}
    request = {"filelist": [path]}
    deadline = runtime.Monotonic() + min(_REVOKED_WITHIN, lu.context.confirm_timeout)
    while True:
        for uuid, result in lu.rpc.call_node_verify(list(stale), request, root.cluster.cluster_name, {}).items():
            payload = result.payload if isinstance(result.payload, dict) else {}
            if payload.get("filelist") == {path: digest}:
                stale.discard(uuid)
        if not stale:
            return
        if runtime.Monotonic() >= deadline:
            break
        runtime.Sleep(_REVOKED_STEP)
    names = ", ".join(NiceSort(root.nodes[uuid].name for uuid in stale))
    lu.LogWarning(
        f"These nodes did not confirm that they no longer accept calls from node {former.name}: {names}",
        hint="'gnt-cluster verify' shows whether their ssconf files are up to date; the reason is in the log of their"
        " node daemon",
    )


# --- SSH keys: the master's node spreads them -----------------------------------------------------------------------------


def AddSshKeys(lu: LogicalUnit, node: objects.Node, to_public: bool = True) -> None:
    """Make a node's key known: to log in with if it is a candidate, and (``to_public``) as one of the cluster's keys."""
    snapshot = lu.snapshot
    to_public = to_public and node.master_capable
    results = lu.rpc.call_node_ssh_key_add(
        [snapshot.cluster.master_node],
        node.uuid,
        node.name,
        PotentialCandidates(snapshot),
        node.master_candidate,
        to_public,
        to_public,
    )
    _TellSshResults(lu, node, results, f"'gnt-node add --readd {node.name}' tries again once they are healthy")


def RemoveSshKeys(lu: LogicalUnit, node: objects.Node, leaves: bool = False, readd: bool = False) -> None:
    """Withdraw a node's key: to log in with only, or everywhere when it leaves or is set up anew."""
    snapshot = lu.snapshot
    gone = leaves or readd
    results = lu.rpc.call_node_ssh_key_remove(
        [snapshot.cluster.master_node],
        node.uuid,
        node.name,
        [other.uuid for other in snapshot.nodes.values() if other.master_candidate],
        PotentialCandidates(snapshot),
        # What it was before it came back does not matter: its old key is accepted nowhere.
        node.master_candidate or readd,
        gone and node.master_capable,
        leaves,
        leaves,
        readd,
    )
    _TellSshResults(lu, node, results)


def _TellSshResults(lu: LogicalUnit, node: objects.Node, results: dict[str, RpcResult], hint: str = "") -> None:
    for result in results.values():
        failures = [[result.node_name, result.fail_msg]] if result.fail_msg else result.payload or []
        for name, problem in failures:
            lu.LogWarning(
                f"SSH keys of node {node.name} could not be updated on node {name}: {problem}",
                hint=hint or f"update authorized_keys of node {name} by hand once the node is healthy",
            )
