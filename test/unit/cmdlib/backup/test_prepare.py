"""What the source of a move says: signed with the domain secret, with a key on the primary node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.master import Master

from ganeti import errors, opcodes, pathutils, transferkeys, x509
from ganeti.cmdlib.backup import remote

WEB = "web.example.org"
SECRET = "4f2a"


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    """Three nodes; the example's instance runs on the first one and has the second as a mirror."""
    return make(3, prepare=lambda master: master[0].Write(pathutils.CLUSTER_DOMAIN_SECRET_FILE, SECRET + "\n"))


def _Prepare(master: Master, mode: str = "remote", name: str = WEB, **values: Any) -> Any:
    return master.Run(opcodes.OpBackupPrepare(instance_name=name, mode=mode, **values))


@pytest.mark.req("D22-MOVE-05", "D22-MOVE-24")
def test_the_other_cluster_and_our_own_export_accept_it(three: Master) -> None:
    prepared = _Prepare(three, name="web")
    assert prepared.keys() == {"handshake", "x509_key_name", "x509_ca"}
    remote.CheckHandshake(SECRET, prepared["handshake"])
    name = remote.CheckKeyName(SECRET, prepared["x509_key_name"])
    certificate = remote.CheckCa(SECRET, prepared["x509_ca"])
    folder = f"{pathutils.CRYPTO_KEYS_DIR}/{name}"
    assert three[0].Read(f"{folder}/{transferkeys.CERT_FILE}").decode() == certificate
    key = three[0].Read(f"{folder}/{transferkeys.KEY_FILE}").decode()
    x509.CheckKeyAndCertificate(key + certificate)
    assert key.startswith("-----BEGIN PRIVATE KEY-----") and "CERTIFICATE" not in key
    assert certificate.startswith("-----BEGIN CERTIFICATE-----") and certificate.endswith("-----END CERTIFICATE-----\n")
    start, end = x509.Validity(certificate)
    assert x509.DAY <= end - start <= x509.DAY + 600
    assert three.Instance(WEB).admin_state == "up" and "instance_shutdown" not in three[0].calls


def test_each_time_another_key(three: Master) -> None:
    first, second = _Prepare(three), _Prepare(three)
    assert first["x509_key_name"][0] != second["x509_key_name"][0]
    assert first["handshake"] != second["handshake"]


def test_a_local_export_needs_nothing(three: Master) -> None:
    assert _Prepare(three, "local") is None
    assert "x509_cert_create" not in three[0].calls


def test_a_mirror_that_is_down_does_not_matter(three: Master) -> None:
    three[1].Stop()
    assert _Prepare(three)["x509_ca"]
    assert _Prepare(three, "local") is None


def test_the_primary_node_must_be_there(three: Master) -> None:
    three[0].faults["x509_cert_create"] = "no entropy"
    with pytest.raises(errors.OpExecError, match=r"Can't create X509 key and certificate on node1\S*: no entropy"):
        _Prepare(three)
    instance = three.Instance(WEB)
    three.cfg.Update(three.snapshot.nodes[three.nodes[1]].Replace(offline=True))
    three.cfg.Update(instance.Replace(primary_node=three.nodes[1]))
    with pytest.raises(errors.OpPrereqError, match="Primary node is offline: node2"):
        _Prepare(three)
    assert _Prepare(three, "local") is None


def test_what_a_node_sends_is_checked(three: Master) -> None:
    three[0].answers["x509_cert_create"] = ["x509-a", "no certificate"]
    with pytest.raises(errors.OpExecError, match=r"Node node1\S* sent no certificate"):
        _Prepare(three)


def test_without_a_secret_nothing_is_made(three: Master) -> None:
    three[0].Write(pathutils.CLUSTER_DOMAIN_SECRET_FILE, "")
    with pytest.raises(errors.OpPrereqError, match="must have exactly one line"):
        _Prepare(three)
    assert "x509_cert_create" not in three[0].calls
    assert _Prepare(three, "local") is None


def test_an_unknown_instance(three: Master) -> None:
    with pytest.raises(errors.OpPrereqError, match="Instance 'none' not known"):
        _Prepare(three, name="none")
    with pytest.raises(errors.OpPrereqError, match="the request expected x"):
        _Prepare(three, instance_uuid="x")
