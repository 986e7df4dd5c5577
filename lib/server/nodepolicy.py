"""Which peers may call this node."""

from __future__ import annotations

from collections.abc import Sequence

from ganeti import errors, pathutils, runtime, ssconf, x509
from ganeti.http.tls import Digests
from ganeti.utils.files import FileIdentity, IdentityOf

_PEM_LIMIT = 1024 * 1024


class NodePolicy:
    """Which certificates may call this node; files are read again when they change.

    A candidate shows its client.pem, signed with the key of server.pem and named in ssconf.  Every node has that key, so
    the name in ssconf is what counts, and a list that is missing, empty or damaged names nobody.  The one exception is a
    machine that has server.pem and nothing else of a cluster: it is being set up, and whoever shows server.pem itself
    may call it.
    """

    def __init__(self, authority: str = pathutils.NODED_CERT_FILE):
        self.authority = authority
        self._identity: FileIdentity = None
        self._server_digest = ""

    def ServerDigest(self) -> str:
        """Return the SHA-256 of the cluster certificate as it is now; OSError, X509CertError."""
        identity = IdentityOf(self.authority)
        if identity is None or identity != self._identity:
            pem = runtime.ReadFile(self.authority, _PEM_LIMIT)
            self._server_digest = x509.Sha256(pem, self.authority)
            self._identity = identity
        return self._server_digest

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
            server = self.ServerDigest()
            candidates = self.Candidates()
        except (OSError, errors.ConfigurationError, errors.X509CertError) as err:
            return f"the files to check it with cannot be read: {err}"
        if not chain:
            return "it shows no certificate"
        if any(digests.sha256 != server for digests in chain[1:]):
            return "its certificate was not signed by this cluster"
        if chain[0].sha1 in candidates:
            return None
        if candidates or not self.IsBeingSetUp():
            return f"certificate {chain[0].sha1} is not that of a master candidate"
        return (
            None if chain[0].sha256 == server else "this node is being set up and accepts the cluster certificate only"
        )
