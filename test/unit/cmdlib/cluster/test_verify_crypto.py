"""Nodes that have or accept old keys are named with the command that completes the renewal."""

from __future__ import annotations

import pytest

from ganeti import renewal
from ganeti.cmdlib.cluster.verify_crypto import Problems
from ganeti.renewal import CLUSTER, CONFD, Client, Held


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
