"""Procedures by which the master renews the secrets of this node (doc/design-renew-crypto.rst); each may be repeated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ganeti import errors, hosts, renewal, runtime, ssconf, x509
from ganeti.daemon import users
from ganeti.renewal import CLIENT, CLUSTER, NEXT, OLD, SECRETS, Secret
from ganeti.rpc.encoders import ReadBlob


def Look() -> dict[str, Any]:
    """Return digests of what this node uses, and of what it accepts; see ``renewal.ReadReport``."""
    secrets = {kind: [_DigestOf(kind, path) for path in renewal.Paths(secret.path)] for kind, secret in SECRETS.items()}
    clients = [renewal.ReadIfThere(path) for path in renewal.Paths(CLIENT.path)[:2]]
    return {
        "secrets": secrets,
        "client": [
            *(None if pem is None else x509.Digest(pem, CLIENT.path) for pem in clients),
            *(None if pem is None else _SignerOf(pem) for pem in clients),
        ],
        "listed": sorted(ssconf.SimpleStore().GetMasterCandidatesCertMap().values()),
    }


def _DigestOf(kind: str, path: str) -> str | None:
    content = renewal.ReadIfThere(path)
    return None if content is None else renewal.Digest(kind, content)


def _SignerOf(pem: bytes) -> str | None:
    """Return the digest of the cluster certificate that signed this node's."""
    for path in renewal.Paths(SECRETS[CLUSTER].path):
        authority = renewal.ReadIfThere(path)
        if authority is not None and x509.IsSignedBy(pem, authority, CLIENT.path):
            return renewal.Digest(CLUSTER, authority)
    return None


def Stage(kind: str, content: Sequence[Any]) -> None:
    """Keep a secret beside the one in use: it is accepted from now on."""
    data = ReadBlob(content)
    renewal.Check(kind, data)
    _Write(SECRETS[kind], SECRETS[kind].path + NEXT, data)


def Certify() -> None:
    """Make a certificate of this node beside the one in use, signed with the cluster certificate that is staged, if any.

    Its key never leaves the node.  One that is there already is kept.
    """
    server = SECRETS[CLUSTER].path
    authority = renewal.ReadIfThere(server + NEXT) or runtime.ReadFile(server)
    staged = renewal.ReadIfThere(CLIENT.path + NEXT)
    if staged is None or not x509.IsSignedBy(staged, authority, CLIENT.path):
        pem = x509.MakeClientPem(authority.decode("utf-8", "replace"), hosts.OwnName())
        _Write(CLIENT, CLIENT.path + NEXT, pem.encode())


def Activate(digests: Mapping[str, str]) -> None:
    """Put staged secrets with these digests into use; those before stay accepted.  This node's own certificate with them."""
    for kind, digest in digests.items():
        if kind not in SECRETS:
            raise errors.RpcCallError(f"'{kind:.40}' is not a secret that all nodes share")
        _ActivateSecret(kind, digest)
    staged = renewal.ReadIfThere(CLIENT.path + NEXT)
    if staged is None:
        return
    if not x509.IsSignedBy(staged, runtime.ReadFile(SECRETS[CLUSTER].path), CLIENT.path):
        raise errors.RpcCallError(
            "The staged certificate of this node is not signed with the cluster certificate in use"
        )
    runtime.Rename(CLIENT.path + NEXT, CLIENT.path)


def _ActivateSecret(kind: str, digest: str) -> None:
    secret = SECRETS[kind]
    if _DigestOf(kind, secret.path) == digest:
        return
    if _DigestOf(kind, secret.path + NEXT) != digest:
        raise errors.RpcCallError(f"This node was not given {secret.name} that it shall use")
    # At no moment is what was in use not accepted.
    _Write(secret, secret.path + OLD, runtime.ReadFile(secret.path))
    runtime.Rename(secret.path + NEXT, secret.path)


def Withdraw(digests: Mapping[str, str]) -> None:
    """Accept nothing any more but what is in use, where that has the given digest."""
    for kind, digest in digests.items():
        if kind not in SECRETS or _DigestOf(kind, SECRETS[kind].path) != digest:
            raise errors.RpcCallError(f"This node does not use the secret '{kind:.40}' that it shall keep")
    paths = [SECRETS[kind].path + suffix for kind in digests for suffix in (NEXT, OLD)]
    runtime.RemoveFiles([CLIENT.path + NEXT, *paths])


def _Write(secret: Secret, path: str, data: bytes) -> None:
    runtime.WriteFile(
        path, data, mode=renewal.FILE_MODE, uid=users.UserId(secret.user), gid=users.GroupId(secret.group)
    )


HANDLERS: dict[str, Callable[..., Any]] = {
    "crypto_look": Look,
    "crypto_stage": Stage,
    "crypto_certify": Certify,
    "crypto_activate": Activate,
    "crypto_withdraw": Withdraw,
}
