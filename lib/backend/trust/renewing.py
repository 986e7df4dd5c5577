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
    secrets = {kind: list(renewal.ReadHeld(kind)) for kind in SECRETS}
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


def Certify(authority: str | None) -> None:
    """Make a certificate of this node beside the one in use; its key never leaves the node.

    ``authority``: digest of the cluster certificate that signs it, staged or in use; None: the one in use.  A certificate
    that is there already and was signed with that one is kept.
    """
    signer = _Authority(authority)
    staged = renewal.ReadIfThere(CLIENT.path + NEXT)
    if staged is None or not x509.IsSignedBy(staged, signer, CLIENT.path):
        pem = x509.MakeClientPem(signer.decode("utf-8", "replace"), hosts.OwnName())
        _Write(CLIENT, CLIENT.path + NEXT, pem.encode())


def _Authority(digest: str | None) -> bytes:
    path = SECRETS[CLUSTER].path
    if digest is None:
        return runtime.ReadFile(path)
    for name in (path + NEXT, path):
        pem = renewal.ReadIfThere(name)
        if pem is not None and renewal.Digest(CLUSTER, pem) == digest:
            return pem
    raise errors.RpcCallError(_NotReceived(CLUSTER))


def _NotReceived(kind: str) -> str:
    return f"This node has not received the {SECRETS[kind].name} that all nodes are to use"


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
    if _IsListed(runtime.ReadFile(CLIENT.path)) and not _IsListed(staged):
        # A candidate that used it would be locked out of every node.
        raise errors.RpcCallError("The staged certificate of this node is not in the list of accepted ones")
    runtime.Rename(CLIENT.path + NEXT, CLIENT.path)


def _IsListed(pem: bytes) -> bool:
    return x509.Digest(pem, CLIENT.path) in ssconf.SimpleStore().GetMasterCandidatesCertMap().values()


def _ActivateSecret(kind: str, digest: str) -> None:
    secret = SECRETS[kind]
    if _DigestOf(kind, secret.path) == digest:
        return
    if _DigestOf(kind, secret.path + NEXT) != digest:
        raise errors.RpcCallError(_NotReceived(kind))
    used = renewal.ReadIfThere(secret.path)
    if used is not None:
        # At no moment is what was in use not accepted.
        _Write(secret, secret.path + OLD, used)
    runtime.Rename(secret.path + NEXT, secret.path)


def Withdraw(digests: Mapping[str, str]) -> None:
    """Remove the staged and the replaced secrets, so that only those in use are accepted; these must have the digests.

    An empty digest: the node has none in use.
    """
    for kind, digest in digests.items():
        if kind not in SECRETS or (_DigestOf(kind, SECRETS[kind].path) or "") != digest:
            raise errors.RpcCallError(f"This node does not use the secret '{kind:.40}' that is to stay")
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
