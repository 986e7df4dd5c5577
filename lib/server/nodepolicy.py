"""Which peers may call this node."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from ganeti import errors, pathutils, renewal, runtime, ssconf, x509
from ganeti.http.tls import Digests
from ganeti.utils.files import FileIdentity, IdentityOf


class NodePolicy:
    """Which certificates may call this node; files are read again when they change.

    A candidate shows its client.pem, signed with the key of server.pem and named in ssconf.  Every node has that key, so
    the name in ssconf is what counts, and a list that is missing, empty or damaged names nobody.  The one exception is a
    machine that has server.pem and nothing else of a cluster: it is being set up, and whoever shows server.pem itself
    may call it.  While the cluster certificate is renewed, callers may be signed by the old or the new one.
    """

    def __init__(self, authority: str = pathutils.NODED_CERT_FILE):
        self._authority = authority
        self._identities: tuple[FileIdentity, ...] = ()
        self._digests: dict[str, str] = {}

    @property
    def authorities(self) -> list[str]:
        """Return the files with the certificates that may have signed a caller's: first the one in use."""
        self._Refresh()
        return list(self._digests)

    def ServerDigests(self) -> tuple[str, ...]:
        """Return the SHA-256 of the accepted cluster certificates, first the one in use; OSError, X509CertError."""
        self._Refresh()
        return tuple(self._digests.values())

    def _Refresh(self) -> None:
        paths = renewal.Paths(self._authority)
        identities = tuple(map(IdentityOf, paths))
        if identities == self._identities and identities[0] is not None:
            return
        found = {path: renewal.ReadIfThere(path) for path in paths}
        if found[self._authority] is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._authority)
        self._digests = {path: x509.Sha256(pem, path) for path, pem in found.items() if pem is not None}
        self._identities = identities

    def Candidates(self) -> frozenset[str]:
        """Return the digests of the candidates' client certificates; lines that are none name nobody."""
        found = ssconf.SimpleStore().GetMasterCandidatesCertMap().values()
        return frozenset(digest for digest in found if x509.IsDigest(digest))

    def IsBeingSetUp(self) -> bool:
        """Return whether this machine has not joined a cluster yet: no ssconf file names one."""
        return not runtime.Exists(pathutils.SsconfFile("cluster_name"))

    def Refusal(self, chain: Sequence[Digests]) -> str | None:
        """Return why a peer with this chain (its own certificate first) may not call; None if it may."""
        try:
            servers = self.ServerDigests()
            candidates = self.Candidates()
        except (OSError, errors.ConfigurationError, errors.X509CertError) as err:
            return f"the files to check it with cannot be read: {err}"
        if not chain:
            return "it shows no certificate"
        if any(digests.sha256 not in servers for digests in chain[1:]):
            return "its certificate was not signed by this cluster"
        if chain[0].sha1 in candidates:
            return None
        if candidates or not self.IsBeingSetUp():
            return f"certificate {chain[0].sha1} is not that of a master candidate"
        return (
            None
            if chain[0].sha256 == servers[0]
            else "this node is being set up and accepts the cluster certificate only"
        )
