"""What both sides of a move between clusters must agree on (doc/reference/interfaces.md f.3).

Whatever goes from one cluster to the other passes through the hands of a client, so each piece is signed with the secret that
both clusters share: HMAC-SHA1 over salt and message.  ``Make...`` signs a piece, ``Check...`` returns its content, or raises
OpPrereqError that says what to do.  Nothing here reads a file but ``ReadDomainSecret``.
"""

from __future__ import annotations

import re
from typing import Any

from ganeti import constants, errors, ht, pathutils, runtime, x509
from ganeti.params import checks

VERSION = 0
_GREETING = "Hi, I'm Ganeti"
_SALT_BYTES = 8
# The lengths that releases of 3.1 make.  A salt of any length could take characters over from the message that follows it.
_SALT = re.compile(r"([0-9a-f]{16}|[0-9a-f]{40})", re.ASCII)
_HOST = re.compile(r"[a-zA-Z0-9:][a-zA-Z0-9:._-]{0,254}", re.ASCII)
# How long the key and certificate of one transfer are valid.
KEY_SECONDS = x509.DAY
_MAX_SECRET = 64 * 1024

_TEXT = ht.TString
_HANDSHAKE = ht.TItems(ht.TInt, _TEXT, _TEXT)
_SIGNED_NAME = ht.TItems(_TEXT, _TEXT, _TEXT)
_DISK_INFO = ht.TItems(_TEXT, ht.TInt, _TEXT, _TEXT, _TEXT)


def ReadDomainSecret() -> str:
    """Return the cluster domain secret of this node, which is the master; raise OpPrereqError."""
    path = pathutils.CLUSTER_DOMAIN_SECRET_FILE
    try:
        # Only one line end is not part of it, as in 3.1.
        secret = runtime.ReadText(path, _MAX_SECRET).removesuffix("\n")
    except (OSError, ValueError) as err:
        raise _NoSecret(f"cannot be read: {getattr(err, 'strerror', None) or 'it is not UTF-8 text'}") from None
    if not secret.strip() or "\n" in secret:
        raise _NoSecret("must have exactly one line")
    return secret


def _NoSecret(problem: str) -> errors.OpPrereqError:
    return errors.OpPrereqError(
        f"The cluster domain secret {pathutils.CLUSTER_DOMAIN_SECRET_FILE} {problem}",
        errors.ECODE_ENVIRON,
        hint="'gnt-cluster renew-crypto --cluster-domain-secret FILE' sets it to that of the other cluster,"
        " 'gnt-cluster renew-crypto --new-cluster-domain-secret' makes a new one",
    )


# --- the source speaks first --------------------------------------------------------------------------------------------


def MakeHandshake(secret: str) -> list[Any]:
    """Return [version, HMAC, salt]."""
    return [VERSION, *_Sign(secret, _Greeting(VERSION))]


def CheckHandshake(secret: str, handshake: Any) -> None:
    """Raise OpPrereqError unless the other cluster has the same secret and speaks the same version."""
    if not _HANDSHAKE(handshake):
        raise _Invalid("The handshake of the other cluster is not a list of version, HMAC and salt")
    version, digest, salt = handshake
    if not _IsSigned(secret, _Greeting(version), digest, salt):
        raise errors.OpPrereqError(
            "The handshake of the other cluster does not match: the clusters have different domain secrets",
            errors.ECODE_INVAL,
            hint=f"copy {pathutils.CLUSTER_DOMAIN_SECRET_FILE} of one cluster's master to the other one's, and use"
            " 'gnt-cluster renew-crypto --cluster-domain-secret FILE' there",
        )
    if version != VERSION:
        raise errors.OpPrereqError(
            f"The other cluster moves instances in another way than this one (version {version}, here {VERSION})",
            errors.ECODE_INVAL,
            hint="export the instance there, copy the directory to a node of this cluster, and import it",
        )


def _Greeting(version: int) -> str:
    return f"{version}:{_GREETING}"


def MakeKeyName(secret: str, name: str) -> list[str]:
    """Return [name, HMAC, salt] of a key on a node of this cluster, which comes back with the export."""
    return [name, *_Sign(secret, name)]


def CheckKeyName(secret: str, key_name: Any) -> str:
    """Return the name of a key that this cluster made."""
    if not _SIGNED_NAME(key_name) or not checks.IsTransferKey(key_name[0]):
        raise _Invalid("The name of the X509 key is not a list of name, HMAC and salt")
    name: str = key_name[0]
    if not _IsSigned(secret, name, *key_name[1:]):
        raise _Changed(f"The name of the X509 key, '{name}',")
    return name


def CheckCa(secret: str, signed_pem: str) -> str:
    """Return the other side's certificate of a signed text, if it is valid now."""
    try:
        pem, _ = x509.LoadSigned(signed_pem, secret)
        start, end = x509.Validity(pem)
    except (errors.SignatureError, errors.X509CertError) as err:
        raise _Invalid(f"The certificate of the other cluster is not valid: {err}") from err
    now = runtime.Time()
    if end < now:
        raise _Invalid("The certificate of the other cluster has expired; begin the move again")
    if start > now + constants.MAX_CLOCK_SKEW:
        raise _Invalid(
            "The certificate of the other cluster is not valid yet; compare the clocks of both clusters' nodes"
        )
    return pem


# --- the destination says where it listens ------------------------------------------------------------------------------


def MakeDiskInfo(secret: str, index: int, host: str, port: int, magic: str) -> list[Any]:
    """Return [host, port, magic, HMAC, salt]: where the content of one disk is awaited."""
    return [host, port, magic, *_Sign(secret, _Place(index, host, port, magic))]


def CheckDiskInfo(secret: str, index: int, info: Any) -> tuple[str, int, str]:
    """Return (host, port, magic) of where the content of disk ``index`` is awaited."""
    if not _DISK_INFO(info):
        raise _Invalid(f"The address for disk {index} is not a list of host, port, magic, HMAC and salt")
    host, port, magic, digest, salt = info
    if not _IsSigned(secret, _Place(index, host, port, magic), digest, salt):
        raise _Changed(f"The address for disk {index}")
    if not (_HOST.fullmatch(host) and 0 < port < 65536 and checks.IsMagic(magic)):
        raise _Invalid(f"The address for disk {index} is not valid: {host[:80]!r}, port {port}, magic {magic[:80]!r}")
    return host, port, magic


def _Place(index: int, host: str, port: int, magic: str) -> str:
    return f"{index}:{host}:{port}:{magic}"


# --- signatures ---------------------------------------------------------------------------------------------------------


def _Sign(secret: str, message: str) -> tuple[str, str]:
    salt = runtime.RandomBytes(_SALT_BYTES).hex()
    return x509.Hmac(secret, message, salt), salt


def _IsSigned(secret: str, message: str, digest: str, salt: str) -> bool:
    return _SALT.fullmatch(salt) is not None and x509.CheckHmac(secret, message, digest, salt)


def _Changed(what: str) -> errors.OpPrereqError:
    return _Invalid(
        f"{what} does not match its HMAC: it was changed on its way, or the clusters have different domain secrets"
    )


def _Invalid(message: str) -> errors.OpPrereqError:
    return errors.OpPrereqError(message, errors.ECODE_INVAL)
