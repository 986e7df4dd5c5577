"""Nodes with keys that are not theirs: what a renewal that was interrupted leaves (doc/design-renew-crypto.rst), and copies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ganeti import renewal, x509
from ganeti.cmdlib.cluster.verify_report import NODE
from ganeti.renewal import CLIENT, CLUSTER, SECRETS

if TYPE_CHECKING:
    from ganeti import objects
    from ganeti.cmdlib.cluster.verify_report import Report
    from ganeti.rpc import RpcResult

_CLIENT_COMMAND = renewal.Command([CLIENT.option])


def CheckKeys(report: Report, snapshot: objects.Snapshot, results: Mapping[str, RpcResult]) -> None:
    """Report keys that are not those of the master's node, and such that are accepted beside them.

    ``results``: of ``crypto_look`` on the master's node and others; a node that does not answer is reported elsewhere.
    """
    found = {uuid: renewal.ReadReport(result.payload) for uuid, result in results.items() if not result.fail_msg}
    master = found.get(snapshot.cluster.master_node)
    for uuid, has in found.items():
        if has is None:
            continue
        name = snapshot.nodes[uuid].name
        for kind, problem in Problems(has, master).items():
            report.Error("ECLUSTERCERT", NODE, name, f"{problem}; {_WayOut(kind, has, master)}")
        left = None
        if has.client.next is not None:
            left = "it has a staged certificate that is not used yet"
        elif uuid + renewal.NEXT in snapshot.cluster.candidate_certs:
            left = "its replaced certificate is still accepted"
        if left is not None:
            report.Error("ECLUSTERCLIENTCERT", NODE, name, f"{left}; {_CLIENT_COMMAND} completes the renewal")


def _WayOut(kind: str, has: renewal.Report, master: renewal.Report | None) -> str:
    secret = SECRETS[kind]
    # While a renewal is under way nodes may have to get another one than the master uses now.
    underway = master is None or renewal.Unfinished(master.secrets[kind]) is not None
    if secret.copied and not any(has.secrets[kind]) and not underway:
        return "'gnt-cluster redist-conf' copies it from the master"
    return f"{renewal.Command([secret.option])} completes the renewal"


def CheckClient(report: Report, snapshot: objects.Snapshot, node: objects.Node, answer: Any) -> None:
    """Check the certificate with which a node would call the others.

    ``answer``: what it reported of it, [code, text] if it is damaged or expires soon, [None, digest] otherwise.
    """
    if not (isinstance(answer, list) and len(answer) == 2):
        return
    code, value = answer
    if code is not None:
        add = report.Warning if code == x509.WARNING else report.Error
        add("ECLUSTERCLIENTCERT", NODE, node.name, str(value))
        return
    accepted = snapshot.cluster.candidate_certs
    if node.master_candidate:
        # While a renewal is under way both are right, and ``CheckKeys`` says what completes it.
        known = {accepted.get(node.uuid), accepted.get(node.uuid + renewal.NEXT)}
        if node.uuid == snapshot.cluster.master_node or any(uuid.endswith(renewal.NEXT) for uuid in accepted):
            way_out = f"{_CLIENT_COMMAND} makes new ones, which it will know"
        else:
            way_out = f"set the node up again with 'gnt-node add --readd {node.name}'"
        problem = f"the node's certificate is not the one the cluster knows; {way_out}"
        report.ErrorIf(value not in known, "ECLUSTERCLIENTCERT", NODE, node.name, problem)
    else:
        problem = "the node is not a master candidate, but its certificate is accepted"
        report.ErrorIf(node.uuid in accepted, "ECLUSTERCLIENTCERT", NODE, node.name, problem)
    for owner in _OtherOwners(accepted, node.uuid, value):
        name = snapshot.nodes[owner].name if owner in snapshot.nodes else owner
        problem = f"the node has the certificate of node {name} and is accepted as that one, too; {_CLIENT_COMMAND} makes new ones"
        report.Error("ECLUSTERCLIENTCERT", NODE, node.name, problem)


def _OtherOwners(accepted: Mapping[str, str], node_uuid: str, digest: Any) -> list[str]:
    """Return the uuids of the other nodes whose calls are accepted with this certificate."""
    owners = {uuid.removesuffix(renewal.NEXT) for uuid, known in accepted.items() if known == digest}
    return sorted(owners - {node_uuid})


def Problems(has: renewal.Report, master: renewal.Report | None) -> dict[str, str]:
    """Return what is wrong with a node's shared secrets, by kind."""
    problems = {}
    for kind, held in has.secrets.items():
        name = SECRETS[kind].name
        if held.current is None and (master is None or master.secrets[kind].current is not None):
            problems[kind] = f"it has no {name}"
        elif master is not None and held.current != master.secrets[kind].current:
            problems[kind] = f"it does not use the {name} that the master uses"
        elif held.old is not None:
            problems[kind] = f"it still accepts the replaced {name}"
        elif held.next is not None:
            problems[kind] = f"it accepts a new {name} that is not used yet"
    held, client = has.secrets[CLUSTER], has.client
    if CLUSTER not in problems and client.signer is not None and client.signer != held.current:
        problems[CLUSTER] = "its certificate was signed with an old cluster certificate"
    return problems
