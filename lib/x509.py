"""Certificates: making, checking, comparing and signing them (doc/reference/files.md 11, doc/reference/interfaces.md f.3).

``cryptography`` lives behind this module and is imported when it is first needed.  Everything here works on PEM text;
who reads or writes files is the caller.  Bad input is an X509CertError (name of the thing, cause).
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import re
from typing import TYPE_CHECKING, Any

from ganeti import errors, runtime

if TYPE_CHECKING:
    from cryptography import x509 as crypto_x509
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

KEY_BITS = 2048
DEFAULT_COMMON_NAME = "ganeti.example.com"
DAY = 24 * 3600
DEFAULT_VALIDITY = 5 * 365 * DAY
MAX_TRANSFER_VALIDITY = 7 * DAY
WARN_DAYS = 30
ERROR_DAYS = 7
WARNING, ERROR = "WARNING", "ERROR"

# A node whose clock is behind must be able to use a fresh certificate; nodes may differ by 150 s.
_BACKDATE = 300

SIGNATURE_HEADER = "X-Ganeti-Signature"
_SIGNATURE_RE = re.compile(
    rf"^{SIGNATURE_HEADER}:\s*(?P<salt>[a-zA-Z0-9]{{1,64}})/(?P<sign>[a-fA-F0-9]{{1,128}})$", re.I
)
_BEGIN = "-----BEGIN CERTIFICATE-----"
_SALT_BYTES = 8
_UNIQUE_BYTES = 8
_MAX_COMMON_NAME = 64
_MAX_PEM = 1024 * 1024


# Making


def MakeSelfSigned(
    common_name: str = DEFAULT_COMMON_NAME, validity: int = DEFAULT_VALIDITY, serial: int = 1, unique: str = ""
) -> tuple[str, str]:
    """Make (key PEM, certificate PEM): RSA, SHA-256, X.509 v3 with CA:TRUE, so that it can be its own authority.

    ``unique``: makes its subject another one than that of certificates with the same common name.
    """
    key = _NewKey()
    name = _Name(common_name, unique)
    return _KeyPem(key), _CertificatePem(_Build(name, name, validity, serial, key.public_key(), key, True))


def MakeServerPem(renewed: bool = False) -> str:
    """Make server.pem: the cluster's key and certificate, shared by all nodes.

    ``renewed``: its subject must differ from that of the one before it.  While both are accepted, a certificate without a
    key identifier, as 3.1 makes them, names its signer by the subject only.
    """
    if not renewed:
        return "".join(MakeSelfSigned())
    return "".join(MakeSelfSigned(serial=max(1, int(runtime.Time())), unique=runtime.RandomBytes(_UNIQUE_BYTES).hex()))


def MakeClientPem(server_pem: str, node_name: str) -> str:
    """Make client.pem of a node: key and certificate signed with the key of server.pem."""
    authority = LoadCertificate(server_pem, "server.pem")
    authority_key = LoadKey(server_pem, "server.pem")
    key = _NewKey()
    serial = max(1, int(runtime.Time()))
    certificate = _Build(
        _Name(node_name), authority.subject, DEFAULT_VALIDITY, serial, key.public_key(), authority_key, False
    )
    return _KeyPem(key) + _CertificatePem(certificate)


def MakeRapiPem() -> str:
    """Make rapi.pem: key and self-signed certificate, to be replaced by the administrator."""
    return "".join(MakeSelfSigned())


def MakeSpicePems() -> tuple[str, str]:
    """Make (spice.pem, spice-ca.pem): key and certificate; the certificate again as its own authority."""
    key, certificate = MakeSelfSigned()
    return key + certificate, certificate


def _NewKey() -> RSAPrivateKey:
    from cryptography.hazmat.primitives.asymmetric import rsa

    return rsa.generate_private_key(public_exponent=65537, key_size=KEY_BITS)


def _KeyPem(key: RSAPrivateKey) -> str:
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode("ascii")


def _CertificatePem(certificate: crypto_x509.Certificate) -> str:
    from cryptography.hazmat.primitives import serialization

    return certificate.public_bytes(serialization.Encoding.PEM).decode("ascii")


def _Build(
    subject: crypto_x509.Name,
    issuer: crypto_x509.Name,
    validity: int,
    serial: int,
    public_key: Any,
    signer: Any,
    authority: bool,
) -> crypto_x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    now = datetime.datetime.fromtimestamp(int(runtime.Time()), datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(serial)
        .not_valid_before(now - datetime.timedelta(seconds=_BACKDATE))
        .not_valid_after(now + datetime.timedelta(seconds=validity))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    return builder.sign(signer, hashes.SHA256())


def _Name(common_name: str, unique: str = "") -> crypto_x509.Name:
    from cryptography import x509

    # A common name holds 64 characters at most, host names may be longer.
    parts = [x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name[:_MAX_COMMON_NAME])]
    if unique:
        parts.append(x509.NameAttribute(x509.NameOID.SERIAL_NUMBER, unique))
    return x509.Name(parts)


# Reading


def LoadCertificate(pem: str | bytes, name: str = "certificate") -> crypto_x509.Certificate:
    """Return the first certificate in a PEM text."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(_FirstBlock(pem, name))
    except errors.X509CertError:
        raise
    except Exception as err:
        raise errors.X509CertError(name, f"certificate cannot be read: {_OneLine(err)}") from err


def LoadKey(pem: str | bytes, name: str = "key") -> RSAPrivateKey:
    """Return the private key in a PEM text."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    try:
        key = serialization.load_pem_private_key(_Bytes(pem, name), password=None)
    except errors.X509CertError:
        raise
    except Exception as err:  # noqa: BLE001 - the library raises many kinds
        # No chain of causes: what was read is a secret.
        raise errors.X509CertError(name, f"private key cannot be read: {_OneLine(err)}") from None
    if not isinstance(key, rsa.RSAPrivateKey):
        raise errors.X509CertError(name, "private key is not an RSA key")
    return key


def CertificateOnly(pem: str | bytes, name: str = "certificate") -> str:
    """Return the first certificate of a text that may hold a private key, too."""
    return _CertificatePem(LoadCertificate(pem, name))


def HasKey(pem: str) -> bool:
    """Return whether there is anything like a private key in the text."""
    return re.search(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----", pem) is not None


def CheckKeyAndCertificate(pem: str, name: str = "certificate file") -> None:
    """Raise X509CertError unless the text holds a private key and the certificate made for it."""
    certificate = LoadCertificate(pem, name)
    key = LoadKey(pem, name)
    own, other = key.public_key(), certificate.public_key()
    if _PublicBytes(own) != _PublicBytes(other):
        raise errors.X509CertError(name, "private key and certificate do not belong together")


def Digest(pem: str | bytes, name: str = "certificate") -> str:
    """Return the SHA-1 of a certificate in the form that travels and is kept in ssconf: ``AB:CD:...``."""
    from cryptography.hazmat.primitives import serialization

    return DigestOfDer(LoadCertificate(pem, name).public_bytes(serialization.Encoding.DER))


def Sha256(pem: str | bytes, name: str = "certificate") -> str:
    """Return the SHA-256 of a certificate, written as ``Digest`` does."""
    from cryptography.hazmat.primitives import serialization

    der = LoadCertificate(pem, name).public_bytes(serialization.Encoding.DER)
    return _Octets(hashlib.sha256(der).hexdigest())


_DIGEST = re.compile(r"([0-9A-F]{2}:){19}[0-9A-F]{2}")


def IsDigest(text: str) -> bool:
    """Return whether ``text`` has the form of ``Digest``."""
    return _DIGEST.fullmatch(text) is not None


def DigestOfDer(der: bytes) -> str:
    # The format is 3.1's; it names certificates of our own authority.
    return _Octets(hashlib.sha1(der, usedforsecurity=False).hexdigest())


def _Octets(text: str) -> str:
    return ":".join(text[i : i + 2] for i in range(0, len(text), 2)).upper()


def IsSignedBy(pem: str | bytes, authority: str | bytes, name: str = "certificate") -> bool:
    """Return whether the key of the ``authority`` signed a certificate."""
    try:
        LoadCertificate(pem, name).verify_directly_issued_by(LoadCertificate(authority, "authority"))
    except errors.X509CertError:
        raise
    except Exception:  # noqa: BLE001 - the library raises many kinds
        return False
    return True


def IsSelfSigned(pem: str | bytes, name: str = "certificate") -> bool:
    certificate = LoadCertificate(pem, name)
    return certificate.subject == certificate.issuer


def OwnPin(pem: str | bytes, name: str = "certificate") -> str | None:
    """Return the public key, as curl compares it, of a certificate as a cluster makes it for itself; None for any other.

    Its name is the same in all clusters, so that it says nothing; nobody but the cluster has the key.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    certificate = LoadCertificate(pem, name)
    names = [part.value for part in certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)]
    if certificate.subject != certificate.issuer or names != [DEFAULT_COMMON_NAME]:
        return None
    der = certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return "sha256//" + base64.b64encode(hashlib.sha256(der).digest()).decode("ascii")


def Validity(pem: str | bytes, name: str = "certificate") -> tuple[float, float]:
    """Return (not before, not after) in seconds since the epoch."""
    certificate = LoadCertificate(pem, name)
    return (certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp())


def CheckExpiry(
    pem: str | bytes, name: str, warn_days: int | None = WARN_DAYS, error_days: int | None = ERROR_DAYS
) -> tuple[str | None, str | None]:
    """Return (None, None) for a good certificate, else (WARNING or ERROR, text)."""
    try:
        start, end = Validity(pem, name)
    except errors.X509CertError as err:
        return (ERROR, f"Failed to load certificate {name}: {err.args[1]}")
    now = runtime.Time()
    if end < now:
        return (ERROR, f"Certificate {name} is expired ({_Date(start)} to {_Date(end)})")
    if start > now:
        return (WARNING, f"Certificate {name} is not valid before {_Date(start)}; check this node's clock")
    days = int((end - now) / DAY)
    text = f"Certificate {name} expires in about {days} days"
    if error_days is not None and days <= error_days:
        return (ERROR, text)
    if warn_days is not None and days <= warn_days:
        return (WARNING, text)
    return (None, None)


def IsInForce(pem: str | bytes, name: str = "certificate") -> bool:
    """Return whether a certificate's time has come and is not over."""
    start, end = Validity(pem, name)
    return start <= runtime.Time() <= end


# Signing with the cluster domain secret


def Sign(certificate_pem: str, secret: str, salt: str | None = None) -> str:
    """Return the certificate with a header line that proves it was not changed on its way between two clusters."""
    pem = _CertificatePem(LoadCertificate(certificate_pem))
    salt = runtime.RandomBytes(_SALT_BYTES).hex() if salt is None else salt
    if not re.fullmatch(r"[a-zA-Z0-9]{1,64}", salt):
        raise errors.ProgrammerError(f"salt {salt!r} may have letters and digits only")
    return f"{SIGNATURE_HEADER}: {salt}/{Hmac(secret, pem, salt)}\n\n{pem}"


def LoadSigned(text: str, secret: str) -> tuple[str, str]:
    """Return (certificate PEM, salt) of a signed text; SignatureError when header or signature are not right.

    The signature covers the certificate as our library writes it, so a changed envelope does not matter.
    """
    if len(text) > _MAX_PEM:
        raise errors.SignatureError(f"signed certificate is over {_MAX_PEM} bytes")
    salt, signature = _SignatureOf(text)
    try:
        pem = _CertificatePem(LoadCertificate(text, "signed certificate"))
    except errors.X509CertError as err:
        raise errors.SignatureError(f"signed certificate: {err.args[1]}") from err
    if not CheckHmac(secret, pem, signature, salt):
        raise errors.SignatureError(
            "X509 certificate signature is invalid: it was changed on its way, or the clusters have different domain"
            " secrets"
        )
    return pem, salt


def _SignatureOf(text: str) -> tuple[str, str]:
    for line in text.splitlines():
        if line.startswith("---"):
            break
        match = _SIGNATURE_RE.match(line.strip())
        if match:
            return match.group("salt"), match.group("sign")
    raise errors.SignatureError(f"X509 certificate signature is missing: no line '{SIGNATURE_HEADER}: SALT/HEX'")


def Hmac(secret: str, text: str, salt: str = "") -> str:
    """Return the HMAC-SHA1 in hex over salt and text, as both clusters compute it."""
    message = (salt + text).encode("utf-8", "surrogatepass")
    return hmac.new(secret.encode("utf-8"), message, hashlib.sha1).hexdigest()


def CheckHmac(secret: str, text: str, digest: str, salt: str = "") -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(Hmac(secret, text, salt).encode(), digest.lower().encode("utf-8", "replace"))


def NewSecret() -> str:
    """Return a fresh hmac.key or cluster domain secret: 40 hex characters, SHA-1 over 20 random bytes (design 2.2)."""
    return hashlib.sha1(runtime.RandomBytes(20), usedforsecurity=False).hexdigest()


# Parts


def _Bytes(pem: str | bytes, name: str) -> bytes:
    data = pem.encode("utf-8", "replace") if isinstance(pem, str) else pem
    if len(data) > _MAX_PEM:
        raise errors.X509CertError(name, f"over {_MAX_PEM} bytes")
    return data


def _FirstBlock(pem: str | bytes, name: str) -> bytes:
    data = _Bytes(pem, name)
    start = data.find(_BEGIN.encode("ascii"))
    if start < 0:
        raise errors.X509CertError(name, "it contains no certificate")
    return data[start:]


def _PublicBytes(key: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return bytes(key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo))


def _OneLine(err: Exception) -> str:
    return (str(err).strip() or type(err).__name__).splitlines()[0][:200]


def _Date(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
