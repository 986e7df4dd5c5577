"""What the source of a move between clusters says before the destination does anything (doc/reference/interfaces.md f.3)."""

from __future__ import annotations

from typing import Any

from ganeti import constants, errors, opcodes, x509
from ganeti.cmdlib.backup import remote
from ganeti.cmdlib.base import Feedback, NoHooksLU
from ganeti.cmdlib.common import CheckNodeOnline, ExpandAndLockInstance, LockedInstance


class LUBackupPrepare(NoHooksLU[opcodes.OpBackupPrepare]):
    """Returns what a remote export needs: a handshake, a new key's name on the primary node, and its signed certificate.

    The key stays on the node; who does not use it within a day lets it expire.  A local export needs nothing.
    """

    REQ_BGL = False

    def ExpandNames(self) -> None:
        ExpandAndLockInstance(self)

    def CheckPrereq(self) -> None:
        instance = LockedInstance(self)
        self._node = self.snapshot.nodes[instance.primary_node]
        if self.op.mode == constants.EXPORT_REMOTE:
            CheckNodeOnline(self._node, "Primary node is offline")
            self._secret = remote.ReadDomainSecret()

    def NodesToConfirm(self) -> set[str]:
        # Nothing changes on a secondary node, which may be down.
        return {self._node.uuid} if self.op.mode == constants.EXPORT_REMOTE else set()

    def Exec(self, feedback: Feedback) -> dict[str, Any] | None:
        if self.op.mode != constants.EXPORT_REMOTE:
            return None
        feedback(f"Generating X509 certificate on {self._node.name}")
        result = self.rpc.call_x509_cert_create(self._node.uuid, remote.KEY_SECONDS)
        result.Raise(f"Can't create X509 key and certificate on {self._node.name}")
        name, certificate = result.payload
        try:
            signed = x509.Sign(certificate, self._secret)
        except errors.X509CertError as err:
            raise errors.OpExecError(f"Node {self._node.name} sent no certificate: {err}") from err
        return {
            "handshake": remote.MakeHandshake(self._secret),
            "x509_key_name": remote.MakeKeyName(self._secret, name),
            "x509_ca": signed,
        }
