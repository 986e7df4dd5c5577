"""Keys, certificates and the first files of a cluster (doc/reference/cli.md 9.1, steps 17 to 27; doc/reference/files.md 2, 11)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ganeti import _autoconf, errors, objects, pathutils, renewal, runtime, ssconf, ssh, x509
from ganeti.daemon import users

_LIMIT = 1 << 20
_HOST_KEY_TYPES = {"rsa": "rsahostkeypub", "dsa": "dsahostkeypub"}


def _ReadHostKey(kind: str) -> str | None:
    """Return the base64 part of the public host key, or None if there is no key."""
    _, public = pathutils.SshHostKey(kind)
    try:
        words = runtime.ReadText(public, 65536).split()
    except FileNotFoundError:
        return None
    if len(words) < 2:
        raise errors.OpPrereqError(f"SSH host key {public} has no key in it", errors.ECODE_ENVIRON)
    return words[1]


def _PublicHostKeys() -> dict[str, str]:
    return {name: key for kind, name in _HOST_KEY_TYPES.items() if (key := _ReadHostKey(kind)) is not None}


def CheckHostKeys() -> None:
    """Raise OpPrereqError unless this machine has a host key that a cluster can have, or gets one from ``HostKeys``."""
    if not _PublicHostKeys() and not pathutils.IsVirtual():
        raise errors.OpPrereqError(
            f"There is neither an RSA nor a DSA host key in {pathutils.SSH_CONFIG_DIR}; make one with ssh-keygen -A",
            errors.ECODE_ENVIRON,
        )


def HostKeys() -> dict[str, str]:
    """Return the public host keys as fields of the cluster object, after ``CheckHostKeys``.

    A node of a virtual cluster has host keys of its own, made here when absent.
    """
    if pathutils.IsVirtual() and _ReadHostKey("rsa") is None:
        private, _ = pathutils.SshHostKey("rsa")
        runtime.MakeDirs(os.path.dirname(private), 0o755)
        result = runtime.RunCmd(ssh.BuildKeygen("rsa", 2048, private), timeout=120)
        if result.failed:
            raise errors.OpExecError(f"Could not make the SSH host key {private}: {result.fail_reason}")
    # 3.1 always has this field.
    return {"rsahostkeypub": "", **_PublicHostKeys()}


def MakeRootKey(kind: str, bits: int) -> str:
    """Make a new key pair of root, keep the old one beside it, authorise the public key and return it."""
    public = ssh.MakeUserKey(kind, bits)
    ssh.AuthorizeKeys([public])
    return public


def KnownHosts(cluster: objects.Cluster) -> str:
    """Return ``known_hosts``: one line with the cluster's name, because all nodes share one host key."""
    lines = [f"{cluster.cluster_name} ssh-rsa {cluster.rsahostkeypub}\n"] if cluster.rsahostkeypub else []
    if cluster.dsahostkeypub:
        lines.append(f"{cluster.cluster_name} ssh-dss {cluster.dsahostkeypub}\n")
    return "".join(lines)


def ReadKnownHosts(cluster_name: str) -> list[str]:
    """Return the host keys of the cluster as this node's ``known_hosts`` has them: ``TYPE KEY`` each."""
    lines = [line.split() for line in ssh.ReadIfThere(pathutils.SSH_KNOWN_HOSTS_FILE).splitlines()]
    return [" ".join(words[1:3]) for words in lines if len(words) > 2 and cluster_name in words[0].split(",")]


def _Write(path: str, text: str, mode: int, user: str, group: str) -> None:
    runtime.WriteFile(path, text, mode=mode, uid=users.UserId(user), gid=users.GroupId(group))


def _WriteOnce(path: str, text: str, mode: int, user: str, group: str) -> None:
    """Write a file unless it exists: an administrator may have put it there."""
    if not runtime.Exists(path):
        _Write(path, text, mode, user, group)


def WriteMissing() -> None:
    """Write the keys and certificates, other than those of the nodes, that a cluster needs and does not have."""
    for kind, secret in renewal.SECRETS.items():
        # The cluster certificate is older than the first file of a cluster; new ones are renewal's business.
        if kind != renewal.CLUSTER:
            _WriteOnce(secret.path, renewal.Make(kind), renewal.FILE_MODE, secret.user, secret.group)
    _WriteOnce(
        pathutils.CLUSTER_DOMAIN_SECRET_FILE,
        x509.NewSecret() + "\n",
        0o640,
        _autoconf.MASTERD_USER,
        _autoconf.MASTERD_GROUP,
    )
    _WriteOnce(pathutils.RAPI_CERT_FILE, x509.MakeRapiPem(), 0o440, _autoconf.RAPI_USER, _autoconf.MASTERD_GROUP)
    if not runtime.Exists(pathutils.SPICE_CERT_FILE):
        spice, spice_ca = x509.MakeSpicePems()
        _Write(pathutils.SPICE_CERT_FILE, spice, 0o440, _autoconf.NODED_USER, _autoconf.MASTERD_GROUP)
        _Write(pathutils.SPICE_CACERT_FILE, spice_ca, 0o440, _autoconf.NODED_USER, _autoconf.MASTERD_GROUP)


class NewFile(NamedTuple):
    """A file that is to be replaced."""

    path: str
    text: str
    mode: int
    user: str


def _Given(path: str) -> str:
    """Return the text of the administrator's file."""
    try:
        return runtime.ReadText(path, _LIMIT)
    except (OSError, runtime.FileTooLarge, UnicodeDecodeError) as err:
        reason = err.strerror if isinstance(err, OSError) else str(err)
        raise errors.OpPrereqError(f"{path} cannot be read: {reason}", errors.ECODE_INVAL) from err


def _Checked(path: str, check: Callable[[str, str], object]) -> str:
    text = _Given(path)
    try:
        check(text, path)
    except errors.X509CertError as err:
        raise errors.OpPrereqError(f"{err.args[0]}: {err.args[1]}", errors.ECODE_INVAL) from err
    return text


def NewRapiFile(given: str | None, new: bool) -> list[NewFile]:
    """Return rapi.pem with the content of a ``given`` file, or a ``new`` one; OpPrereqError if it cannot be used."""
    if given is None and not new:
        return []
    text = x509.MakeRapiPem() if given is None else _Checked(given, x509.CheckKeyAndCertificate)
    return [NewFile(pathutils.RAPI_CERT_FILE, text, 0o440, _autoconf.RAPI_USER)]


def NewSpiceFiles(given: str | None, given_ca: str | None, new: bool) -> list[NewFile]:
    """Return spice.pem and spice-ca.pem; the parameters are those of ``NewRapiFile``."""
    if given is not None and given_ca is not None:
        texts = _Checked(given, x509.CheckKeyAndCertificate), _Checked(given_ca, x509.LoadCertificate)
    elif new:
        texts = x509.MakeSpicePems()
    else:
        return []
    paths = (pathutils.SPICE_CERT_FILE, pathutils.SPICE_CACERT_FILE)
    return [NewFile(path, text, 0o440, _autoconf.NODED_USER) for path, text in zip(paths, texts, strict=True)]


def NewDomainSecret(given: str | None, new: bool) -> list[NewFile]:
    """Return the file of the cluster domain secret; the parameters are those of ``NewRapiFile``."""
    if given is None and not new:
        return []
    text = x509.NewSecret() + "\n" if given is None else _Given(given)
    if not text.strip():
        raise errors.OpPrereqError(f"{given} is empty", errors.ECODE_INVAL)
    return [NewFile(pathutils.CLUSTER_DOMAIN_SECRET_FILE, text, 0o640, _autoconf.MASTERD_USER)]


def Replace(files: Iterable[NewFile]) -> None:
    """Write the files of this node; whoever calls has them distributed.

    All are on the disk before the first one takes its place; OpExecError if one cannot be.
    """
    kept = list(files)
    owned = [(users.UserId(file.user), users.GroupId(_autoconf.MASTERD_GROUP)) for file in kept]
    try:
        runtime.WriteFiles(
            [
                runtime.NewFile(file.path, file.text.encode(), file.mode, *ids)
                for file, ids in zip(kept, owned, strict=True)
            ]
        )
    except OSError as err:
        raise errors.OpExecError(
            f"{err.filename or ', '.join(file.path for file in kept)} could not be replaced: {err.strerror}",
            hint="remove the cause and run the same command again; other nodes have the files of before",
        ) from err


def CertifyMaster(snapshot: objects.Snapshot, server_pem: str, node_name: str) -> objects.Snapshot:
    """Write a certificate for the master, this node; return the configuration in which it is the only one."""
    client_pem = x509.MakeClientPem(server_pem, node_name)
    _Write(pathutils.NODED_CLIENT_CERT_FILE, client_pem, 0o440, _autoconf.MASTERD_USER, _autoconf.MASTERD_GROUP)
    cluster = snapshot.cluster
    return snapshot.WithObject(cluster.Replace(candidate_certs={cluster.master_node: x509.Digest(client_pem)}))


# What the files below need; ensure-dirs gives every folder its owner before the first daemon starts.
_FOLDERS = (
    (pathutils.DATA_DIR, 0o755),
    (pathutils.RUN_DIR, 0o775),
    (pathutils.QUEUE_DIR, 0o750),
    (pathutils.LOCK_DIR, 0o755),
)


def WriteClusterFiles(snapshot: objects.Snapshot, node_name: str, root_key: str | None = None) -> None:
    """Write configuration, certificates, secrets and ssconf of the first node.

    ``root_key``: the public SSH key of its root, where the cluster manages such keys.
    """
    for folder, mode in _FOLDERS:
        runtime.MakeDirs(folder, mode)
    server_pem = x509.MakeServerPem()
    _Write(pathutils.NODED_CERT_FILE, server_pem, 0o440, _autoconf.MASTERD_USER, _autoconf.MASTERD_GROUP)
    snapshot = CertifyMaster(snapshot, server_pem, node_name)
    WriteMissing()
    known = KnownHosts(snapshot.cluster)
    _Write(pathutils.SSH_KNOWN_HOSTS_FILE, known, 0o644, _autoconf.MASTERD_USER, _autoconf.MASTERD_GROUP)
    if root_key is not None:
        ssh.WriteNodeKeys({snapshot.cluster.master_node: [root_key]})
    # Last: with this file the cluster exists.
    ssconf.WriteSsconfFiles(ssconf.Values(snapshot))
    _Write(
        pathutils.CLUSTER_CONF_FILE, objects.ConfigText(snapshot), 0o640, _autoconf.MASTERD_USER, _autoconf.CONFD_GROUP
    )
