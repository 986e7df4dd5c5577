"""``gnt-cluster renew-crypto`` on a running cluster (doc/design-renew-crypto.rst): phase by phase, on all online nodes.

What is to be done next is decided in ``renewal`` from what the nodes report; here it is done, and nothing remembered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

from ganeti import errors, locking, opcodes, pathutils, renewal, runtime, ssh
from ganeti.cmdlib.base import Feedback, NoHooksLU
from ganeti.cmdlib.candidates import PotentialCandidates
from ganeti.renewal import NEXT, SECRETS, Goal, Phase, Report
from ganeti.utils.text import NiceSort, Repeated

if TYPE_CHECKING:
    from ganeti import objects
    from ganeti.cmdlib.base import LogicalUnit
    from ganeti.rpc import RpcResult

# Seconds for a list to reach every node, and between two looks.
_LISTED_WITHIN = 30.0
_STEP = 0.3
# Every daemon has seen what was staged, before it is used; and what is used, before the old one is withdrawn.
_SETTLE = 2 * renewal.SEEN_WITHIN
# How often one phase is tried in a run on nodes that answer and do not end it, and how often a silent node is asked.
_TRIES = 3


class LUClusterRenewCrypto(NoHooksLU[opcodes.OpClusterRenewCrypto]):
    """Replaces keys and certificates; an interrupted renewal is continued first, and counts as the one asked for."""

    REQ_BGL = False

    def CheckArguments(self) -> None:
        if self.op.renew_ssh_keys:
            self._CheckBits()

    def _CheckBits(self) -> None:
        kind, bits = self.op.ssh_key_type, self.op.ssh_key_bits
        problem = ssh.BitsProblem(kind, bits) if kind and bits else None
        if problem is not None:
            raise errors.OpPrereqError(problem, errors.ECODE_INVAL)

    def ExpandNames(self) -> None:
        # No node changes its role, joins or leaves meanwhile.
        self.needed_locks = {locking.LEVEL_NODE: locking.ALL_SET, locking.LEVEL_NODE_ALLOC: locking.ALL_SET}

    def NodesToConfirm(self) -> set[str]:
        # A node that does not answer must not keep the others from what they have to do.  Nothing is used before each
        # node has taken a call with this master's epoch.
        return set()

    def CheckPrereq(self) -> None:
        root = self.snapshot
        self._online = [node.uuid for node in root.nodes.values() if not node.offline]
        kind, bits = self.op.ssh_key_type, self.op.ssh_key_bits
        if self.op.renew_ssh_keys:
            renewal.CheckManagesSsh(root.cluster.modify_ssh_setup)
            kind = kind or root.cluster.ssh_key_type
            if bits is None:
                bits = root.cluster.ssh_key_bits if kind == root.cluster.ssh_key_type else ssh.DEFAULT_BITS[kind]
            problem = ssh.BitsProblem(kind, bits)
            if problem is not None:
                raise errors.OpPrereqError(problem, errors.ECODE_INVAL)
        self._ssh_key = (kind, bits)

    def Exec(self, feedback: Feedback) -> None:
        asked = [kind for kind, secret in SECRETS.items() if getattr(self.op, secret.parameter)]
        self._TellOffline()
        if asked or self.op.node_certificates:
            Renewal(self, self._online, asked, self.op.node_certificates, self._Again()).Run()
        if self.op.renew_ssh_keys:
            self._RenewSshKeys()

    def _Again(self) -> str:
        return renewal.CommandOf(vars(self.op))

    def _TellOffline(self) -> None:
        for node in self.snapshot.nodes.values():
            if node.offline:
                self.LogWarning(
                    f"Node {node.name} is offline and keeps its old keys, which the cluster will no longer accept",
                    hint=f"before it is used again, run '{pathutils.NODE_CLEANUP} --yes-do-it' on it, then 'gnt-node add"
                    f" --readd {node.name}' here",
                )

    def _RenewSshKeys(self) -> None:
        root = self.snapshot
        cluster = root.cluster
        kind, bits = self._ssh_key
        assert kind is not None and bits is not None
        self.LogInfo(f"Renewing SSH keys (type {kind}, {bits} bits)")
        nodes = [root.nodes[uuid] for uuid in self._online]
        [result] = self.rpc.call_node_ssh_keys_renew(
            [cluster.master_node],
            [node.uuid for node in nodes],
            [node.name for node in nodes],
            [node.uuid for node in root.nodes.values() if node.master_candidate],
            PotentialCandidates(root),
            cluster.ssh_key_type,
            kind,
            bits,
        ).values()
        again = renewal.Command([renewal.SSH_OPTION, *renewal.KeyWords(self.op.ssh_key_type, self.op.ssh_key_bits)])
        result.Raise(f"Could not renew the SSH keys; once that is repaired, {again} continues")
        failures = result.payload or []
        for name, problem in failures:
            self.LogWarning(f"SSH keys on node {name}: {problem}", hint=_Hint(name, again, silent=False))
        if failures:
            names = ", ".join(NiceSort({name for name, _ in failures}))
            raise errors.OpExecError(
                f"The SSH keys were not replaced everywhere ({names}); old and new ones are accepted until"
                f" {again} has completed it"
            )
        self.cfg.Update(self.snapshot.cluster.Replace(ssh_key_type=kind, ssh_key_bits=bits), self.ec_id)


class Renewal:
    """One run, under the locks of all nodes.  ``asked``: kinds of shared secrets; ``clients``: also the nodes' certificates."""

    def __init__(self, lu: LogicalUnit, online: Sequence[str], asked: Sequence[str], clients: bool, again: str):
        self._lu = lu
        self._online = online
        self._asked = asked
        self._clients = clients
        self._again = again
        self._root: objects.Snapshot = lu.snapshot
        self._master: str = self._root.cluster.master_node
        self._made: dict[str, str] = {}
        self._failures: dict[str, str] = {}
        self._silent: set[str] = set()
        self._act: dict[Phase, Callable[[Sequence[str]], None]] = {
            Phase.STAGE: self._Stage,
            Phase.CERTIFY: self._Certify,
            Phase.LIST: self._List,
            Phase.ACTIVATE: self._Activate,
            Phase.UNLIST: self._Unlist,
            Phase.WITHDRAW: self._Withdraw,
        }

    def Run(self) -> None:
        """Do what is left to do; OpExecError names the nodes that kept it from its end, and what to do then."""
        self._reports = self._Look()
        own = self._reports[self._master]
        if own is None:
            raise errors.OpExecError(
                f"The master's own node daemon does not answer: {self._failures[self._master]}",
                hint=f"start it, then run {self._again} again",
            )
        unfinished = {kind: renewal.Unfinished(held) for kind, held in own.secrets.items()}
        secrets = {kind: digest for kind, digest in unfinished.items() if digest is not None}
        for kind in secrets:
            self._lu.LogInfo(f"Continuing the renewal of the {SECRETS[kind].name} that was interrupted")
        if not self._clients and any(has is not None and has.client.next is not None for has in self._reports.values()):
            self._lu.LogInfo("Continuing the renewal of the certificates of nodes that was interrupted")
        silent = [uuid for uuid, report in self._reports.items() if report is None]
        if silent and not secrets:
            self._Stop(silent, "did not answer", changed=False)
        secrets |= {kind: self._Make(kind) for kind in self._asked if kind not in secrets}
        renewed = {uuid: has.client.current for uuid, has in self._reports.items() if has is not None}
        candidates = {uuid for uuid in self._online if self._root.nodes[uuid].master_candidate}
        self._goal = Goal(secrets, renewed if self._clients else {}, candidates, self._master)
        self._Pursue()

    def _Pursue(self) -> None:
        # Counted over the whole run, or a node that alternates its answers could send it back and forth between phases for ever.
        tries: Counter[Phase] = Counter()
        while True:
            self._reports = self._Look()
            step = renewal.Next(self._reports, self._goal)
            if step is None:
                return
            if not step.nodes:
                self._Stop(step.unknown, "did not answer")
            tries[step.phase] += 1
            if tries[step.phase] == 1:
                self._lu.LogInfo(f"Phase {step.phase.number}: each node {step.phase.value}")
            if tries[step.phase] > _TRIES + (step.phase is Phase.WITHDRAW):
                what = f"did not complete phase {step.phase.number} (each node {step.phase.value})"
                self._Stop([*step.nodes, *step.unknown], what)
            self._act[step.phase](step.nodes)

    def _Look(self) -> dict[str, Report | None]:
        """Ask every node, and those that do not answer again: a busy machine is no reason to stop half-way."""
        found: dict[str, Report | None] = dict.fromkeys(self._online)
        for left in reversed(range(_TRIES)):
            silent = [uuid for uuid, report in found.items() if report is None]
            for uuid, result in self._lu.rpc.call_crypto_look(silent).items() if silent else ():
                found[uuid] = None if result.fail_msg else renewal.ReadReport(result.payload)
                (self._silent.discard if result.failure is None else self._silent.add)(uuid)
                if found[uuid] is None:
                    self._failures[uuid] = result.fail_msg or "it sent a report that is not valid"
            if None not in found.values() or not left:
                break
            self._lu.Pause(renewal.SEEN_WITHIN)
        return found

    def _Stop(self, nodes: Sequence[str], what: str, changed: bool = True) -> NoReturn:
        """End the run; nobody is locked out, as each phase has begun only after all nodes had ended the one before."""
        names = NiceSort(self._root.nodes[uuid].name for uuid in nodes)
        for uuid in nodes:
            name = self._root.nodes[uuid].name
            problem = self._failures.get(uuid, "it did not carry out the call")
            hint = _Hint(name, self._again, silent=uuid in self._silent)
            self._lu.LogWarning(f"Node {name}: {problem}", hint=hint)
        who = f"{'Node' if len(names) == 1 else 'Nodes'} {', '.join(names)}"
        after = f"Old and new keys stay accepted; {self._again} continues" if changed else "Nothing was changed"
        raise errors.OpExecError(f"{who} {what}. {after}")

    # --- phases -----------------------------------------------------------------------------------------------------------

    def _Make(self, kind: str) -> str:
        """Make a new secret and return its digest; the master's node is the first that keeps it."""
        self._lu.LogInfo(f"Making a new {SECRETS[kind].name}")
        content = renewal.Make(kind)
        digest = renewal.Digest(kind, content.encode())
        self._made[digest] = content
        [result] = self._lu.rpc.call_crypto_stage([self._master], kind, content).values()
        result.Raise(
            f"The master's own node daemon does not accept the new {SECRETS[kind].name}; once that is repaired,"
            f" {self._again} continues"
        )
        return digest

    def _Content(self, kind: str, digest: str) -> bytes | str:
        """Return the secret that a run before this one has made."""
        for path in renewal.Paths(SECRETS[kind].path):
            content = renewal.ReadIfThere(path)
            if content is not None and renewal.Digest(kind, content) == digest:
                return content
        raise errors.OpExecError(
            f"{SECRETS[kind].path}{NEXT} was removed while it was distributed: run {self._again} again"
        )

    def _Stage(self, nodes: Sequence[str]) -> None:
        for kind, digest in self._goal.secrets.items():
            content = self._made.get(digest) or self._Content(kind, digest)
            lacking = [uuid for uuid in nodes if not self._Has(uuid, kind, digest)]
            if lacking:
                self._Note(self._lu.rpc.call_crypto_stage(lacking, kind, content))

    def _Has(self, uuid: str, kind: str, digest: str) -> bool:
        report = self._reports[uuid]
        return report is not None and digest in (report.secrets[kind].current, report.secrets[kind].next)

    def _Certify(self, nodes: Sequence[str]) -> None:
        self._Note(self._lu.rpc.call_crypto_certify(list(nodes), self._goal.secrets.get(renewal.CLUSTER)))

    def _List(self, nodes: Sequence[str]) -> None:
        del nodes
        certs = self._Certificates(final=False)
        both, _ = renewal.Accepted(self._reports, self._goal)
        self._lu.cfg.SetCandidateCerts(certs)
        self._Await(lambda has: both <= has.listed)

    def _Activate(self, nodes: Sequence[str]) -> None:
        runtime.Sleep(_SETTLE)
        self._Note(self._lu.rpc.call_crypto_activate(list(nodes), dict(self._goal.secrets)))
        runtime.Sleep(_SETTLE)

    def _Unlist(self, nodes: Sequence[str]) -> None:
        del nodes
        certs = self._Certificates(final=True)
        _, final = renewal.Accepted(self._reports, self._goal)
        self._lu.cfg.SetCandidateCerts(certs)
        self._Await(lambda has: has.listed == final)

    def _Withdraw(self, nodes: Sequence[str]) -> None:
        by_kept: dict[tuple[tuple[str, str], ...], list[str]] = {}
        for uuid in nodes:
            report = self._reports[uuid]
            assert report is not None
            # A node of the release before may not know a secret; it has no file of it, and need not be asked about it.
            kept = tuple((kind, held.current or "") for kind, held in sorted(report.secrets.items()) if any(held))
            by_kept.setdefault(kept, []).append(uuid)
        for kept, uuids in by_kept.items():
            self._Note(self._lu.rpc.call_crypto_withdraw(uuids, dict(kept)))

    # --- parts ------------------------------------------------------------------------------------------------------------

    def _Note(self, results: Mapping[str, RpcResult]) -> None:
        for uuid, result in results.items():
            if result.fail_msg:
                self._failures[uuid] = result.fail_msg

    def _Certificates(self, final: bool) -> dict[str, str]:
        """Return the list of accepted certificates: one line per candidate, and one for its staged certificate."""
        certs = {}
        for uuid in self._goal.candidates:
            report = self._reports[uuid]
            if report is not None and report.client.current is not None:
                certs[uuid] = report.client.current
                if report.client.next is not None and not final:
                    certs[uuid + NEXT] = report.client.next
        if again := Repeated(certs.values()):
            # With one line for two nodes, the demotion of one would leave the other's certificate accepted.
            holders = {uuid.removesuffix(NEXT) for uuid, digest in certs.items() if digest in again}
            names = ", ".join(NiceSort(self._lu.snapshot.nodes[uuid].name for uuid in holders))
            raise errors.OpExecError(f"Nodes sent the digest of the same certificate: {names}")
        return certs

    def _Await(self, arrived: Callable[[Report], bool]) -> None:
        """Wait until every node has the new list, which reaches the nodes by itself."""
        deadline = runtime.Monotonic() + min(_LISTED_WITHIN, self._lu.context.confirm_timeout)
        while runtime.Monotonic() < deadline:
            reports = self._Look()
            if all(has is not None and arrived(has) for has in reports.values()):
                return
            self._lu.Pause(_STEP)


def _Hint(name: str, again: str, silent: bool) -> str:
    return (
        f"when {'it is back' if silent else 'that is repaired'}, run {again} again: it continues.  To do without the node, run 'gnt-node modify --offline yes {name}'"
        f" first; it comes back with '{pathutils.NODE_CLEANUP} --yes-do-it' on it and 'gnt-node add --readd {name}' here"
    )
