"""Certificates: what is made fits together, what is damaged or changed is refused with words."""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import World

from ganeti import errors, runtime, x509

SECRET = "0123456789abcdef0123456789abcdef01234567"
SERVER = x509.MakeServerPem()
CLIENT = x509.MakeClientPem(SERVER, "node1.example.com")


def openssl(*argv: str, stdin: str = "") -> str:
    return subprocess.run(
        ["openssl", *argv], input=stdin, capture_output=True, text=True, check=True, timeout=30
    ).stdout


def test_the_server_certificate_is_what_tls_libraries_take_for_an_authority() -> None:
    text = openssl("x509", "-noout", "-text", stdin=SERVER)
    assert "Version: 3" in text and "CA:TRUE" in text
    assert "CN = ganeti.example.com" in text.replace("CN=", "CN = ")
    assert "Public-Key: (2048 bit)" in text and "sha256WithRSAEncryption" in text
    assert re.search(r"Serial Number: 1 ", text)
    assert SERVER.index("PRIVATE KEY") < SERVER.index("BEGIN CERTIFICATE")
    x509.CheckKeyAndCertificate(SERVER)
    assert x509.IsSelfSigned(SERVER) and x509.HasKey(SERVER)
    start, end = x509.Validity(SERVER)
    assert end - start == pytest.approx(5 * 365 * 86400, abs=600)


def test_the_client_certificate_is_signed_by_the_servers_key(tmp_path: Path) -> None:
    authority, client = tmp_path / "server.pem", tmp_path / "client.pem"
    authority.write_text(SERVER)
    client.write_text(CLIENT)
    assert "OK" in openssl("verify", "-CAfile", str(authority), str(client))
    text = openssl("x509", "-noout", "-text", stdin=CLIENT)
    assert "node1.example.com" in text and "CA:FALSE" in text
    x509.CheckKeyAndCertificate(CLIENT)
    assert not x509.IsSelfSigned(CLIENT)
    other = tmp_path / "other.pem"
    other.write_text(x509.MakeServerPem())
    with pytest.raises(subprocess.CalledProcessError):
        openssl("verify", "-CAfile", str(other), str(client))


def test_digests_are_those_of_ssconf() -> None:
    shown = openssl("x509", "-noout", "-fingerprint", "-sha1", stdin=CLIENT).strip()
    assert shown.partition("=")[2] == x509.Digest(CLIENT)
    assert re.fullmatch(r"([0-9A-F]{2}:){19}[0-9A-F]{2}", x509.Digest(SERVER))
    assert x509.Digest(SERVER) != x509.Digest(CLIENT)


def test_long_host_names_fit() -> None:
    name = "a-very-long-host-name." * 5 + "example.com"
    pem = x509.MakeClientPem(SERVER, name)
    x509.CheckKeyAndCertificate(pem)
    subject = openssl("x509", "-noout", "-subject", "-nameopt", "RFC2253", stdin=pem)
    assert subject.strip() == f"subject=CN={name[:64]}", "X.509 allows 64 characters"


def test_keys_and_certificates_that_do_not_belong_together() -> None:
    key = SERVER[: SERVER.index("-----BEGIN CERTIFICATE")]
    certificate = CLIENT[CLIENT.index("-----BEGIN CERTIFICATE") :]
    with pytest.raises(errors.X509CertError) as caught:
        x509.CheckKeyAndCertificate(key + certificate, "server.pem")
    assert caught.value.args == ("server.pem", "private key and certificate do not belong together")
    with pytest.raises(errors.X509CertError, match="private key cannot be read"):
        x509.CheckKeyAndCertificate(certificate)
    with pytest.raises(errors.X509CertError, match="no certificate"):
        x509.CheckKeyAndCertificate(key)
    assert not x509.HasKey(certificate)


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: SERVER.replace("A", text[:3], 5)))
def test_garbage_is_an_error_with_a_name_and_shows_no_secret(data: bytes | str) -> None:
    for read in (x509.LoadCertificate, x509.LoadKey, x509.Digest):
        try:
            read(data, "some.pem")  # type: ignore[operator]
        except errors.X509CertError as err:
            assert err.args[0] == "some.pem" and err.args[1]
            assert SERVER[200:240] not in str(err)


@pytest.mark.req("D22-X509-08")
def test_expiry_is_warned_of_then_refused() -> None:
    with World(1) as world:
        machine = world.AddMachine("node1")
        pem = machine.Call(lambda: x509.MakeSelfSigned(validity=40 * x509.DAY)[1])

        def after(days: float) -> tuple[str | None, str | None]:
            machine.clock_offset = days * x509.DAY
            return machine.Call(lambda: x509.CheckExpiry(pem, "cert"))  # type: ignore[no-any-return]

        assert after(0) == (None, None)
        assert after(15) == ("WARNING", "Certificate cert expires in about 24 days")
        code, text = after(34)
        assert code == "ERROR" and "expires in about" in str(text)
        code, text = after(41)
        assert code == "ERROR" and "is expired" in str(text)
        assert not machine.Call(lambda: x509.IsInForce(pem))
        code, text = after(-1)
        assert code == "WARNING" and "not valid before" in str(text)
        # Clocks of nodes may differ by a little: a fresh certificate is good on a node that is behind.
        assert after(-150 / x509.DAY) == (None, None)
    assert x509.CheckExpiry("rubbish", "cert")[0] == "ERROR"


@pytest.mark.req("D22-X509-15")
def test_a_signed_certificate_comes_back_and_needs_the_same_secret() -> None:
    certificate = x509.MakeSelfSigned()[1]
    signed = x509.Sign(certificate, SECRET)
    first, blank, *rest = signed.splitlines()
    assert re.fullmatch(r"X-Ganeti-Signature: [0-9a-f]{16}/[0-9a-f]{40}", first) and blank == ""
    assert "\n".join(rest) + "\n" == certificate
    assert x509.LoadSigned(signed, SECRET)[0] == certificate
    with pytest.raises(errors.SignatureError, match="domain secrets"):
        x509.LoadSigned(signed, "f" * 40)


@pytest.mark.req("D22-X509-17")
def test_whatever_is_changed_is_refused() -> None:
    certificate, other = x509.MakeSelfSigned()[1], x509.MakeSelfSigned()[1]
    signed = x509.Sign(certificate, SECRET)
    header = signed.splitlines()[0]
    for text in (
        certificate,
        f"{certificate}{header}\n",
        f"{header}\n\n{other}",
        signed.replace(header[21:25], "0000", 1),
        signed.replace("/", "/0", 1),
        signed.replace(": ", ": ,", 1),
        signed.replace("-----BEGIN", "-----XXXXX"),
        "",
        "X-Ganeti-Signature: /\n",
        "X-Ganeti-Signature: ab/cd\n",
        "x" * 2000000,
    ):
        with pytest.raises(errors.SignatureError):
            x509.LoadSigned(text, SECRET)
    for salt in ("no salt!", "a-b", "a_b", "\u00e4", ""):
        with pytest.raises(errors.ProgrammerError):
            x509.Sign(certificate, SECRET, salt=salt)
        # Even where the signature is right.
        text = f"X-Ganeti-Signature: {salt}/{x509.Hmac(SECRET, certificate, salt)}\n\n{certificate}"
        with pytest.raises(errors.SignatureError, match="signature is missing"):
            x509.LoadSigned(text, SECRET)
    fine = f"X-Ganeti-Signature: aZ9/{x509.Hmac(SECRET, certificate, 'aZ9')}\n\n{certificate}"
    assert x509.LoadSigned(fine, SECRET) == (certificate, "aZ9")


@pytest.mark.req("D22-X509-16")
def test_the_envelope_around_the_certificate_does_not_matter() -> None:
    signed = x509.Sign(x509.MakeSelfSigned()[1], SECRET)
    assert x509.LoadSigned("Subject: hello\n" + signed + "\nbye\n", SECRET)
    assert x509.LoadSigned(signed.replace("\n", "\r\n"), SECRET)


@given(st.text(max_size=200))
def test_signed_text_of_any_kind_never_breaks_the_reader(text: str) -> None:
    with pytest.raises(errors.SignatureError):
        x509.LoadSigned(text, SECRET)


@pytest.mark.req("D22-X509-11")
def test_secrets_are_random_and_have_the_known_shape() -> None:
    made = {x509.NewSecret() for _ in range(50)}
    assert len(made) == 50
    assert all(re.fullmatch(r"[0-9a-f]{40}", secret) for secret in made)


def _SecretAndItsSource() -> tuple[str, bytes]:
    """A secret, and the random bytes that the same machine gives when it is set back to the same moment."""
    state = runtime.Random().getstate()
    secret = x509.NewSecret()
    runtime.Random().setstate(state)
    return secret, runtime.RandomBytes(20)


@pytest.mark.req("D22-X509-11")
def test_a_secret_is_made_of_20_random_bytes_and_of_nothing_else() -> None:
    with World(1) as world:
        secret, source = world.AddMachine("node1").Call(_SecretAndItsSource)
        assert secret == hashlib.sha1(source).hexdigest()


def test_hmacs_are_the_known_ones() -> None:
    # HMAC-SHA1 over salt and message, computed with openssl.
    expected = openssl("dgst", "-sha1", "-hmac", SECRET, stdin="salt0:Hi, I'm Ganeti").split()[-1]
    assert x509.Hmac(SECRET, "0:Hi, I'm Ganeti", "salt") == expected
    assert x509.CheckHmac(SECRET, "0:Hi, I'm Ganeti", expected.upper(), "salt")
    assert not x509.CheckHmac(SECRET, "0:Hi, I'm Ganeti", expected, "other")
    assert not x509.CheckHmac(SECRET, "x", "\ud800", "salt")
