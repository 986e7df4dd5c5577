"""Nodes that have or accept old keys are named with the command that completes the renewal."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from support import configs

from ganeti import renewal
from ganeti.cmdlib.cluster import verify_crypto, verify_report
from ganeti.cmdlib.cluster.verify_crypto import Problems
from ganeti.renewal import CLUSTER, CONFD, NEXT, Client, Held


def Report(signer: str | None = "S2", **held: Held) -> renewal.Report:
    secrets = {CLUSTER: Held("S2", None, None), CONFD: Held("K2", None, None), **held}
    return renewal.Report(secrets, Client("c", None, signer, None), frozenset())


@pytest.mark.parametrize(
    ("report", "kind", "words"),
    [
        (Report(cluster=Held("S1", None, None)), CLUSTER, "does not use the cluster certificate that the master uses"),
        (Report(cluster=Held("S2", None, "S1")), CLUSTER, "still accepts the replaced cluster certificate"),
        (Report(cluster=Held("S2", "S3", None)), CLUSTER, "accepts a new cluster certificate that is not used yet"),
        (Report(confd=Held("K1", None, None)), CONFD, "does not use the confd HMAC key"),
        (Report(confd=Held("K2", None, "K1")), CONFD, "still accepts the replaced confd HMAC key"),
        (Report(confd=Held(None, None, None)), CONFD, "has no confd HMAC key"),
        (Report("S1"), CLUSTER, "signed with an old cluster certificate"),
    ],
)
def test_what_a_renewal_left_is_named(report: renewal.Report, kind: str, words: str) -> None:
    [(found, text)] = Problems(report, Report()).items()
    assert found == kind and words in text


def test_nothing_is_said_of_a_node_with_the_master_s_keys_or_while_these_are_not_known() -> None:
    assert Problems(Report(), Report()) == {}
    assert Problems(Report(confd=Held("K1", None, None)), None) == {}
    # A certificate of an old release, which nobody's key signed, is another check's business.
    assert Problems(Report(None), Report()) == {}


MASTER, OTHER = configs.NODE1, configs.NODE2


def _Said(certs: dict[str, str], used: dict[str, str], **reported: Any) -> list[str]:
    """What verify says; ``certs``: those that are accepted, ``used``: by node, ``reported``: secrets by node."""
    lines: list[str] = []
    report = verify_report.Report(lines.append)
    root = configs.Example()
    nodes = [root.nodes[uuid].Replace(master_candidate=True, offline=False) for uuid in (MASTER, OTHER)]
    root = root.WithObject(root.cluster.Replace(candidate_certs=certs, master_node=MASTER))
    for node in nodes:
        root = root.WithObject(node)
    client = [None, None, None, None]
    results = {
        uuid: SimpleNamespace(fail_msg="", payload={"secrets": reported[name], "client": client, "listed": []})
        for uuid, name in ((MASTER, "master"), (OTHER, "other"))
        if name in reported
    }
    verify_crypto.CheckKeys(report, root, cast(Any, results))
    for node in nodes:
        if node.uuid in used:
            verify_crypto.CheckClient(report, root, node, [None, used[node.uuid]])
    return lines


def test_a_node_without_a_key_that_is_copied_is_sent_it_by_the_command_that_copies() -> None:
    cluster, key = ["a" * 64, None, None], ["b" * 64, None, None]
    secrets = {CLUSTER: cluster, CONFD: key}
    lacking = {CLUSTER: cluster, CONFD: [None, None, None]}
    [line] = _Said({}, {}, master=secrets, other=lacking)
    assert line.endswith("it has no confd HMAC key; 'gnt-cluster redist-conf' copies it from the master")
    # A renewal is under way: what the master uses now is about to be replaced.
    _, line = _Said({}, {}, master={**secrets, CONFD: ["b" * 64, "c" * 64, None]}, other=lacking)
    assert line.endswith(
        "it has no confd HMAC key; 'gnt-cluster renew-crypto --new-confd-hmac-key' completes the renewal"
    )
    # The release before did not know the key.
    [line] = _Said({}, {}, master=secrets, other={CLUSTER: cluster})
    assert "it has no confd HMAC key; 'gnt-cluster redist-conf'" in line


def test_a_certificate_that_a_renewal_has_put_into_use_is_known() -> None:
    """Interrupted after the nodes have begun to use new certificates, before the old ones were withdrawn."""
    certs = {MASTER: "m1", MASTER + NEXT: "m2", OTHER: "o1", OTHER + NEXT: "o2"}
    secrets = {CLUSTER: ["a" * 64, None, None], CONFD: ["b" * 64, None, None]}
    for used in ({MASTER: "m2", OTHER: "o2"}, {MASTER: "m1", OTHER: "o2"}):
        lines = _Said(certs, used, master=secrets, other=secrets)
        assert len(lines) == 2
        for line in lines:
            assert (
                "its replaced certificate is still accepted; 'gnt-cluster renew-crypto --new-node-certificates'" in line
            )


def test_only_a_node_that_can_be_added_again_is_to_be() -> None:
    certs = {MASTER: "m1", OTHER: "o1"}
    master, other = _Said(certs, {MASTER: "strange", OTHER: "odd"})
    assert "'gnt-cluster renew-crypto --new-node-certificates' makes new ones" in master and "--readd" not in master
    assert "'gnt-node add --readd node2" in other
    [line] = _Said({**certs, MASTER + NEXT: "m2"}, {MASTER: "m2", OTHER: "odd"})
    assert "--readd" not in line and "renew-crypto" in line
