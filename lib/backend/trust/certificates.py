"""Procedures about certificates: those of transfers, and this node's own."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from ganeti import errors, hosts, pathutils, runtime, x509
from ganeti.params import checks
from ganeti.transferkeys import CERT_FILE, KEY_FILE, PEM_LIMIT
from ganeti.utils import owndirs


def CertificateFiles(name: str) -> tuple[str, str, str]:
    """Return (directory, key file, certificate file) of a transfer's certificate."""
    if not checks.IsTransferKey(name):
        raise errors.RpcCallError(f"'{name}' is not a valid certificate name")
    directory = posixpath.join(pathutils.CRYPTO_KEYS_DIR, name)
    return directory, posixpath.join(directory, KEY_FILE), posixpath.join(directory, CERT_FILE)


def CreateCertificate(validity: int) -> list[str]:
    """Make a certificate for one transfer and return [name, certificate]; the key stays on this node."""
    now = runtime.Time()
    key, certificate = x509.MakeSelfSigned(
        hosts.OwnHost().name, min(validity, x509.MAX_TRANSFER_VALIDITY), max(1, int(now))
    )
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d_%H_%M_%S")
    name = f"x509-{stamp}-{runtime.RandomBytes(4).hex()}"
    directory, key_file, cert_file = CertificateFiles(name)
    owndirs.MakeOwn(pathutils.CRYPTO_KEYS_DIR, 0o700)
    runtime.MakeDirs(directory, 0o700)
    try:
        runtime.WriteFile(key_file, key, mode=0o400)
        runtime.WriteFile(cert_file, certificate, mode=0o400)
    except OSError:
        runtime.RemoveTree(directory)
        raise
    return [name, certificate]


def RemoveCertificate(name: str) -> None:
    directory, key_file, cert_file = CertificateFiles(name)
    runtime.RemoveFile(key_file)
    runtime.RemoveFile(cert_file)
    try:
        runtime.RemoveDir(directory)
    except FileNotFoundError:
        pass
    except OSError as err:
        raise errors.RpcCallError(f"Cannot remove certificate directory {directory}: {err.strerror}") from err


def CryptoTokens(token_request: Sequence[Sequence[Any]]) -> list[list[str]]:
    """Return [[type, digest]], where each digest is that of this node's client certificate."""
    return [[kind, ClientDigest(kind)] for kind, _action, _options in token_request]


def ClientDigest(kind: str = "ssl") -> str:
    if kind != "ssl":
        raise errors.RpcCallError(f"Token type '{kind}' is not supported, only 'ssl' is")
    path = pathutils.NODED_CLIENT_CERT_FILE
    try:
        return x509.Digest(runtime.ReadFile(path, PEM_LIMIT), path)
    except FileNotFoundError as err:
        raise errors.RpcCallError(
            f"This node has no client certificate ({path}): set it up again with 'gnt-node add --readd NODE'"
        ) from err


HANDLERS: dict[str, Callable[..., Any]] = {
    "x509_cert_create": CreateCertificate,
    "x509_cert_remove": RemoveCertificate,
    "node_crypto_tokens": CryptoTokens,
}
