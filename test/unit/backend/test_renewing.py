"""A node is given new secrets, uses them, and forgets the old ones; each step may be repeated and cut off."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.nodes import MakeNodes

from ganeti import errors, pathutils, renewal, ssconf, x509
from ganeti.backend.trust import renewing
from ganeti.renewal import CLUSTER, CONFD, NEXT, OLD, Held
from ganeti.rpc.encoders import Blob

SERVER, RENEWED = x509.MakeServerPem(), x509.MakeServerPem(renewed=True)
OWN = x509.MakeClientPem(SERVER, "node1.example.org")


def D(pem: str) -> str:
    return renewal.Digest(CLUSTER, pem.encode())


@pytest.fixture(autouse=True)
def node(tmp_path: Path) -> Iterator[None]:
    [made] = MakeNodes(tmp_path, "node1.example.org")
    with made:
        Path(pathutils.NODED_CERT_FILE).write_text(SERVER)
        Path(pathutils.NODED_CLIENT_CERT_FILE).write_text(OWN)
        Path(pathutils.CONFD_HMAC_KEY).write_text("old\n")
        ssconf.WriteSsconfFiles({"master_candidates_certs": f"uuid={x509.Digest(OWN)}"})
        yield


def Look() -> renewal.Report:
    report = renewal.ReadReport(renewing.Look())
    assert report is not None
    return report


def test_a_secret_goes_from_staged_to_used_to_alone() -> None:
    assert Look().secrets[CLUSTER] == Held(D(SERVER), None, None) and Look().listed == {x509.Digest(OWN)}
    for _ in range(2):
        renewing.Stage(CLUSTER, Blob(RENEWED))
        assert Look().secrets[CLUSTER] == Held(D(SERVER), D(RENEWED), None)
        renewing.Certify(D(RENEWED))
    client = Look().client
    assert client.current == x509.Digest(OWN) and (client.signer, client.next_signer) == (D(SERVER), D(RENEWED))
    for path in (pathutils.NODED_CERT_FILE + NEXT, pathutils.NODED_CLIENT_CERT_FILE + NEXT):
        assert os.stat(path).st_mode & 0o777 == 0o440
    assert client.next is not None
    ssconf.WriteSsconfFiles({"master_candidates_certs": f"uuid={x509.Digest(OWN)}\nuuid.next={client.next}"})
    renewing.Activate({CLUSTER: D(RENEWED)})
    renewing.Activate({CLUSTER: D(RENEWED)})
    report = Look()
    assert report.secrets[CLUSTER] == Held(D(RENEWED), None, D(SERVER))
    assert (report.client.current, report.client.next, report.client.signer) == (client.next, None, D(RENEWED))
    for _ in range(2):
        renewing.Withdraw({CLUSTER: D(RENEWED)})
        assert Look().secrets[CLUSTER] == Held(D(RENEWED), None, None)


def test_a_certificate_that_is_staged_already_is_kept_unless_another_authority_is() -> None:
    renewing.Certify(None)
    first = Look().client.next
    renewing.Certify(D(SERVER))
    assert Look().client.next == first
    with pytest.raises(errors.RpcCallError, match="has not received the cluster certificate"):
        renewing.Certify(D(RENEWED))
    renewing.Stage(CLUSTER, Blob(RENEWED))
    # It is signed with the one that is meant, whatever else is there.
    renewing.Certify(None)
    assert Look().client.next == first
    renewing.Certify(D(RENEWED))
    assert Look().client.next != first and Look().client.next_signer == D(RENEWED)


def test_a_candidate_does_not_use_a_certificate_that_is_not_in_the_list() -> None:
    renewing.Certify(None)
    staged = Look().client.next
    with pytest.raises(errors.RpcCallError, match="not in the list of accepted ones"):
        renewing.Activate({})
    assert Look().client[:2] == (x509.Digest(OWN), staged)
    ssconf.WriteSsconfFiles({"master_candidates_certs": f"uuid={x509.Digest(OWN)}\nuuid.next={staged}"})
    renewing.Activate({})
    assert Look().client[:2] == (staged, None)
    # A node that is no candidate is in no list.
    ssconf.WriteSsconfFiles({"master_candidates_certs": f"other={x509.Digest(OWN)}"})
    renewing.Certify(None)
    renewing.Activate({})
    assert Look().client[0] not in (staged, None)


def test_what_was_in_use_is_accepted_when_the_power_fails_between_two_files() -> None:
    renewing.Stage(CONFD, Blob("new\n"))
    digest = renewal.Digest(CONFD, b"new\n")
    # The copy is there and the switch is not.
    Path(pathutils.CONFD_HMAC_KEY + OLD).write_text("old\n")
    renewing.Activate({CONFD: digest})
    assert Look().secrets[CONFD] == Held(digest, None, renewal.Digest(CONFD, b"old\n"))


def test_nothing_is_used_or_forgotten_that_was_not_meant() -> None:
    with pytest.raises(errors.RpcCallError, match="has not received the cluster certificate"):
        renewing.Activate({CLUSTER: D(RENEWED)})
    renewing.Stage(CLUSTER, Blob(RENEWED))
    for digests in ({CLUSTER: D(RENEWED)}, {"etc": "x"}):
        with pytest.raises(errors.RpcCallError, match="does not use the secret"):
            renewing.Withdraw(digests)
    with pytest.raises(errors.RpcCallError, match="not a secret that all nodes share"):
        renewing.Activate({"etc": "x"})
    for kind, text in (("etc", "x"), (CLUSTER, "rubbish"), (CONFD, "\n")):
        with pytest.raises(errors.GenericError):
            renewing.Stage(kind, Blob(text))
    # One that was staged before the cluster certificate in use was signed by another one.
    Path(pathutils.NODED_CLIENT_CERT_FILE + NEXT).write_text(OWN)
    with pytest.raises(errors.RpcCallError, match="not signed with the cluster certificate in use"):
        renewing.Activate({CLUSTER: D(RENEWED)})
    assert Look().client.current == x509.Digest(OWN)
