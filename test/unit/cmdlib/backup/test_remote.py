"""What two clusters sign for each other: it comes back as it was, or is rejected with the reason."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import World

from ganeti import errors, pathutils, runtime, x509
from ganeti.cmdlib.backup import remote

SECRET, OTHER = "domain secret", "another one"
KEY = "x509-2026-01-01_10_00_00-0a1b2c3d"
PLACE = ("192.0.2.7", 11000, "5f2a.magic-text")
DAY = x509.DAY
Checked = Callable[[str, Any], Any]


def _Peer(message: str, salt: str = "0123456789abcdef") -> tuple[str, str]:
    """The signature as the other release makes it."""
    return hmac.new(SECRET.encode(), (salt + message).encode(), hashlib.sha1).hexdigest(), salt


@pytest.fixture(scope="module")
def certificate() -> str:
    return x509.MakeSelfSigned("node1.example.com", DAY)[1]


# --- as the other release has it ----------------------------------------------------------------------------------------


@pytest.mark.req("D22-MOVE-05", "D22-MOVE-07", "D22-MOVE-11")
def test_what_the_other_release_signs_is_accepted() -> None:
    remote.CheckHandshake(SECRET, [0, *_Peer("0:Hi, I'm Ganeti")])
    assert remote.CheckKeyName(SECRET, [KEY, *_Peer(KEY)]) == KEY
    host, port, magic = PLACE
    assert remote.CheckDiskInfo(SECRET, 3, [host, port, magic, *_Peer(f"3:{host}:{port}:{magic}")]) == PLACE
    assert remote.CheckKeyName(SECRET, [KEY, *_Peer(KEY, "a" * 40)]) == KEY


@pytest.mark.req("D22-MOVE-05")
def test_what_we_sign_the_other_release_accepts() -> None:
    version, digest, salt = remote.MakeHandshake(SECRET)
    assert version == 0 and (digest, salt) == _Peer("0:Hi, I'm Ganeti", salt) and len(salt) == 16
    assert remote.MakeHandshake(SECRET)[2] != salt
    name, digest, salt = remote.MakeKeyName(SECRET, KEY)
    assert name == KEY and (digest, salt) == _Peer(KEY, salt)
    *place, digest, salt = remote.MakeDiskInfo(SECRET, 1, *PLACE)
    assert tuple(place) == PLACE and (digest, salt) == _Peer("1:192.0.2.7:11000:5f2a.magic-text", salt)


@given(st.integers(0, 15), st.integers(0, 15), st.integers(1, 65535), st.text("abc-_.9", min_size=5, max_size=100))
def test_an_address_holds_for_one_disk(index: int, other: int, port: int, magic: str) -> None:
    info = remote.MakeDiskInfo(SECRET, index, "fe80::1", port, magic)
    if index == other:
        assert remote.CheckDiskInfo(SECRET, other, info) == ("fe80::1", port, magic)
    else:
        with pytest.raises(errors.OpPrereqError, match=f"The address for disk {other} does not match its HMAC"):
            remote.CheckDiskInfo(SECRET, other, info)


# --- rejected -----------------------------------------------------------------------------------------------------------


@pytest.mark.req("D22-X509-10", "D22-X509-12")
def test_different_secrets_are_said_with_what_to_do() -> None:
    with pytest.raises(errors.OpPrereqError, match="the clusters have different domain secrets") as caught:
        remote.CheckHandshake(OTHER, remote.MakeHandshake(SECRET))
    assert "gnt-cluster renew-crypto --cluster-domain-secret" in str(caught.value.hint)
    assert caught.value.args[1] == errors.ECODE_INVAL


def test_another_version_is_said() -> None:
    with pytest.raises(errors.OpPrereqError, match=r"in another way than this one \(version 1, here 0\)"):
        remote.CheckHandshake(SECRET, [1, *_Peer("1:Hi, I'm Ganeti")])


def _Parts() -> list[tuple[Checked, list[Any]]]:
    return [
        (remote.CheckHandshake, remote.MakeHandshake(SECRET)),
        (remote.CheckKeyName, remote.MakeKeyName(SECRET, KEY)),
        (lambda secret, info: remote.CheckDiskInfo(secret, 0, info), remote.MakeDiskInfo(SECRET, 0, *PLACE)),
    ]


@pytest.mark.req("D22-MOVE-07", "D22-MOVE-11")
def test_nothing_signed_with_another_secret_is_accepted() -> None:
    for check, signed in _Parts():
        check(SECRET, signed)
        with pytest.raises(errors.OpPrereqError, match="different domain secrets"):
            check(OTHER, signed)


@pytest.mark.req("D22-MOVE-11", "D22-X509-10", "D22-X509-13")
def test_no_part_can_be_changed_on_the_way() -> None:
    for check, signed in _Parts():
        for place, value in enumerate(signed):
            for changed in (
                (value + 1,) if isinstance(value, int) else (value + "0", "0" + value[1:], "f" + value[1:], "")
            ):
                if changed != value:
                    with pytest.raises(errors.OpPrereqError):
                        check(SECRET, [*signed[:place], changed, *signed[place + 1 :]])


_ANYTHING = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), st.lists, max_leaves=8)


@given(_ANYTHING)
def test_whatever_a_client_sends_is_one_error(value: Any) -> None:
    for check, _ in _Parts():
        with pytest.raises(errors.OpPrereqError):
            check(SECRET, value)


def test_a_salt_cannot_take_over_the_beginning_of_a_message() -> None:
    """What was signed for disk 10 is not the address of disk 0, however salt and message are parted."""
    *place, digest, salt = remote.MakeDiskInfo(SECRET, 10, *PLACE)
    with pytest.raises(errors.OpPrereqError, match="does not match its HMAC"):
        remote.CheckDiskInfo(SECRET, 0, [*place, digest, salt + "1"])


@pytest.mark.parametrize(
    ("host", "port", "magic"),
    [("-oProxy", 11000, "magic"), ("a b", 11000, "magic"), ("", 11000, "magic"), ("a", 0, "magic"), ("a", 65536, "magic"),
     ("a", 11000, "m;rm"), ("a", 11000, "mag"), ("a", 11000, "m" * 101), ("a\n", 11000, "magic")],
)  # fmt: skip
def test_an_address_that_is_none_is_rejected_whoever_signed_it(host: str, port: int, magic: str) -> None:
    with pytest.raises(errors.OpPrereqError, match="The address for disk 0 is not valid"):
        remote.CheckDiskInfo(SECRET, 0, remote.MakeDiskInfo(SECRET, 0, host, port, magic))


def test_a_key_name_that_leads_elsewhere_is_rejected_whoever_signed_it() -> None:
    for name in ("../../etc", "x509-../a", "x509-a/b", "", "x509-a\n"):
        with pytest.raises(errors.OpPrereqError, match="is not a list of name, HMAC and salt"):
            remote.CheckKeyName(SECRET, remote.MakeKeyName(SECRET, name))


# --- certificates -------------------------------------------------------------------------------------------------------


@pytest.mark.req("D22-MOVE-07", "D22-MOVE-24")
def test_a_signed_certificate_is_accepted(certificate: str) -> None:
    assert certificate.startswith("-----BEGIN CERTIFICATE-----\n") and certificate.endswith(
        "-----END CERTIFICATE-----\n"
    )
    assert remote.CheckCa(SECRET, x509.Sign(certificate, SECRET)) == certificate


@pytest.mark.req("D22-MOVE-07")
def test_a_certificate_that_is_not_signed_with_our_secret_is_rejected(certificate: str) -> None:
    other = x509.MakeSelfSigned("node9.example.com", DAY)[1]
    signed = x509.Sign(certificate, SECRET)
    for text, problem in (
        (x509.Sign(certificate, OTHER), "different domain secrets"),
        (signed.partition("\n\n")[0] + "\n\n" + other, "it was changed on its way"),
        (certificate, "signature is missing"),
        (signed.partition("\n\n")[0], "it contains no certificate"),
        ("", "signature is missing"),
    ):
        with pytest.raises(
            errors.OpPrereqError, match="The certificate of the other cluster is not valid: .*" + problem
        ):
            remote.CheckCa(SECRET, text)


@pytest.mark.req("D22-MOVE-07", "D22-X509-09")
def test_a_certificate_holds_for_its_time() -> None:
    world = World(1)
    machine = world.AddMachine("node1")
    try:
        made = machine.Call(lambda: x509.Sign(x509.MakeSelfSigned("node1", DAY)[1], SECRET))
        assert machine.Call(remote.CheckCa, SECRET, made)
        machine.Call(runtime.Sleep, DAY + 1)
        with pytest.raises(errors.OpPrereqError, match="has expired; begin the move again"):
            machine.Call(remote.CheckCa, SECRET, made)
        late = machine.Call(lambda: x509.Sign(x509.MakeSelfSigned("node1", DAY)[1], SECRET))
        early = World(1)
        with pytest.raises(errors.OpPrereqError, match="is not valid yet; compare the clocks"):
            early.AddMachine("node1").Call(remote.CheckCa, SECRET, late)
        early.Close()
    finally:
        world.Close()


# --- the secret ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def machine() -> Iterator[Any]:
    world = World(1)
    machine = world.AddMachine("node1")
    machine.Call(runtime.MakeDirs, pathutils.DATA_DIR)
    yield machine
    world.Close()


def test_the_secret_is_one_line(machine: Any) -> None:
    machine.Call(runtime.WriteFile, pathutils.CLUSTER_DOMAIN_SECRET_FILE, "se cret\n")
    assert machine.Call(remote.ReadDomainSecret) == "se cret"
    machine.Call(runtime.WriteFile, pathutils.CLUSTER_DOMAIN_SECRET_FILE, "se cret")
    assert machine.Call(remote.ReadDomainSecret) == "se cret"


@pytest.mark.parametrize("content", [None, b"", b"\n", b"two\nlines\n", b"one\n\n", b"\xff\n", b"x" * 100000])
def test_without_a_secret_the_error_says_how_to_get_one(machine: Any, content: bytes | None) -> None:
    if content is not None:
        machine.Call(runtime.WriteFile, pathutils.CLUSTER_DOMAIN_SECRET_FILE, content)
    with pytest.raises(errors.OpPrereqError, match=f"{pathutils.CLUSTER_DOMAIN_SECRET_FILE} (cannot|must)") as caught:
        machine.Call(remote.ReadDomainSecret)
    assert "--new-cluster-domain-secret" in str(caught.value.hint) and "two" not in str(caught.value)
