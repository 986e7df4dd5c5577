"""Who may call a node: the digests of a chain against the files of the node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.nodes import MakeNodes

from ganeti import pathutils, renewal, x509
from ganeti.http.tls import Digests
from ganeti.server.nodepolicy import NodePolicy

SERVER_PEM = x509.MakeServerPem()
CLIENT_PEM = x509.MakeClientPem(SERVER_PEM, "node1.example.org")
SERVER = Digests(x509.Digest(SERVER_PEM), x509.Sha256(SERVER_PEM, "server"))
CLIENT = Digests(x509.Digest(CLIENT_PEM), x509.Sha256(CLIENT_PEM, "client"))
OTHER = Digests("AA:" * 19 + "AA", "BB:" * 31 + "BB")


@pytest.fixture
def policy(tmp_path: Path) -> Iterator[NodePolicy]:
    [node] = MakeNodes(tmp_path, "node1.example.org")
    with node:
        Path(pathutils.NODED_CERT_FILE).write_text(SERVER_PEM)
        Path(pathutils.SsconfFile("cluster_name")).write_text("cluster.example.org\n")
        SetList(f"uuid1={CLIENT.sha1}")
        yield NodePolicy(pathutils.NODED_CERT_FILE)


def SetList(*lines: str) -> None:
    Path(pathutils.SsconfFile("master_candidates_certs")).write_text("".join(line + "\n" for line in lines))


def test_a_candidate_of_this_cluster_may_call(policy: NodePolicy) -> None:
    assert policy.Refusal([CLIENT, SERVER]) is None
    assert "shows no certificate" in (policy.Refusal([]) or "")
    assert "is not that of a master candidate" in (policy.Refusal([SERVER]) or "")
    assert "is not that of a master candidate" in (policy.Refusal([OTHER, SERVER]) or "")


def test_whoever_signed_it_must_be_the_cluster_itself(policy: NodePolicy) -> None:
    """OpenSSL looks at that first; a list with the digest of a foreign certificate does not help either."""
    assert "not signed by this cluster" in (policy.Refusal([CLIENT, OTHER]) or "")
    # SHA-1 alone would not do here.
    assert "not signed by this cluster" in (policy.Refusal([CLIENT, Digests(SERVER.sha1, OTHER.sha256)]) or "")


def test_lines_that_are_no_digests_name_nobody(policy: NodePolicy) -> None:
    SetList("uuid1=", f"uuid2={CLIENT.sha1[:-3]}", f"uuid3={CLIENT.sha1.lower()}", f"uuid4={CLIENT.sha256}", "uuid5")
    assert policy.Candidates() == frozenset()
    assert policy.Refusal([CLIENT, SERVER]) and policy.Refusal([Digests("", ""), SERVER])


def test_the_cluster_s_certificate_opens_a_machine_that_is_being_set_up_and_no_other(policy: NodePolicy) -> None:
    SetList()
    assert policy.Refusal([SERVER])
    Path(pathutils.SsconfFile("cluster_name")).unlink()
    assert policy.Refusal([SERVER]) is None
    assert "being set up" in (policy.Refusal([CLIENT, SERVER]) or "")
    # SHA-1 alone would not do here either.
    assert policy.Refusal([Digests(SERVER.sha1, OTHER.sha256)])


def test_without_readable_files_nobody_may_call(policy: NodePolicy) -> None:
    assert policy.Refusal([CLIENT, SERVER]) is None
    Path(pathutils.NODED_CERT_FILE).write_text("rubbish")
    assert "cannot be read" in (policy.Refusal([CLIENT, SERVER]) or "")
    Path(pathutils.NODED_CERT_FILE).unlink()
    assert "cannot be read" in (policy.Refusal([CLIENT, SERVER]) or "")


def test_while_the_cluster_certificate_is_renewed_the_old_and_the_new_one_may_have_signed(policy: NodePolicy) -> None:
    chain = [CLIENT, OTHER]
    renewed = x509.MakeServerPem(renewed=True)
    signer = Digests(x509.Digest(renewed), x509.Sha256(renewed))
    for suffix in (renewal.NEXT, renewal.OLD):
        assert "not signed by this cluster" in (policy.Refusal([CLIENT, signer]) or "")
        path = pathutils.NODED_CERT_FILE + suffix
        Path(path).write_text(renewed)
        assert policy.Refusal([CLIENT, signer]) is None and policy.Refusal([CLIENT, SERVER]) is None
        assert policy.Refusal(chain) is not None and policy.authorities == [pathutils.NODED_CERT_FILE, path]
        Path(path).unlink()
    assert policy.ServerDigests() == (SERVER.sha256,)
