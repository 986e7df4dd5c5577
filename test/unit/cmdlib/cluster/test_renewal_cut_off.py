"""gnt-cluster renew-crypto, disturbed before and after each call and each file of it: nobody is locked out, and the command
that is named finishes the work.

The nodes are simulated ones that run the node daemon's own procedures, with real certificates.  After every single step each
candidate, which could become master now, and each node accept each other.
"""

from __future__ import annotations

import functools
import itertools
import re
from typing import Any

import pytest
from support import cutting
from support.cutting import AFTER, BEFORE, CountingSide, Cut
from support.master import KilledMeanwhile, Master
from support.simnode import SimNode

from ganeti import errors, objects, opcodes, pathutils, renewal, runtime, x509
from ganeti.bootstrap import join
from ganeti.renewal import CLIENT, NEXT, OLD, SECRETS

# How many of all the cuts one seed tries.
SAMPLE = 12  # of all cuts; CUTS=10000 tries every one
# What can happen to the machine on which the step is, or to the job.
KILLED = "the master daemon is killed"
POWER = "the power fails for a moment"
FULL = "the disk is full for some minutes"  # jobs of a master without room wait
SILENT = "the network is lost"
HAPPENINGS = (KILLED, POWER, FULL, SILENT)
NODES, CANDIDATES = 4, 3  # without one of its candidates the store still has a quorum
OPTIONS = {secret.option: secret.parameter for secret in renewal.ALL}
_ADVICE = re.compile(r"'gnt-cluster renew-crypto ([^']*)'")
_MINUTES = 90.0
_LISTED = pathutils.SsconfFile("master_candidates_certs")


@functools.cache
def _Server() -> str:
    return x509.MakeServerPem()


@functools.cache
def _Client(name: str) -> str:
    return x509.MakeClientPem(_Server(), name)


@functools.cache
def _Sha(pem: bytes) -> str:
    return x509.Sha256(pem)


_SignedBy = functools.cache(x509.IsSignedBy)
_Digest = functools.cache(x509.Digest)


class Scene(Master):
    """Four nodes, three of them candidates, with certificates as a cluster has them."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.stepping: list[SimNode] = []
        self.where: list[SimNode] = []
        self.silent: set[str] = set()
        self.broken: list[str] = []
        self._cut: Cut | None = None
        self._open: dict[tuple[str, str], int] = {}
        super().__init__(NODES, candidates=CANDIDATES, change=_Furnished)
        for node in self.all:
            node.Write(pathutils.NODED_CERT_FILE, _Server())
            node.Write(pathutils.NODED_CLIENT_CERT_FILE, _Client(node.name))
            node.Write(pathutils.CONFD_HMAC_KEY, "the first key\n")
            node.edits = {name: functools.partial(self._Answered, node, name) for name in _CALLS}
            node.before = functools.partial(self._Called, node)
        self.world.RunFor(60)  # everything is written down

    def _Open(self, make: Any) -> None:
        super()._Open(make)
        self.store.Listen(lambda _position, _rows: self._Spread())
        self._Spread()

    def _Spread(self) -> None:
        """The lists of candidates reach the nodes by themselves."""
        for node in self.all:
            if node.machine.on and node.name not in self.silent and not node.machine.disk_full:
                node.WriteSsconf(self.snapshot)

    # --- steps --------------------------------------------------------------------------------------------------------

    def _Count(self, node: SimNode) -> None:
        """From now on the node daemon's files are steps."""
        node.noded.side = _NodeSide(node.noded, self, node)

    def _Called(self, node: SimNode, name: str, _args: object) -> None:
        if name in _CALLS:
            self._open[node.name, name] = number = len(self.steps)
            self.Note(node, name)
            self.Reach(number, BEFORE)

    def _Answered(self, node: SimNode, name: str, answer: Any) -> Any:
        self.Reach(self._open[node.name, name], AFTER)
        return answer

    def Note(self, node: SimNode, what: str) -> None:
        self.steps.append(f"{node.name.partition('.')[0]}: {what}")
        self.where.append(node)

    def Reach(self, number: int, when: str) -> None:
        self._CheckTrust(f"{when} {self.steps[number]}")
        if self._cut is not None and self._cut[:2] == (number, when):
            cut, self._cut = self._cut, None
            self._Happen(cut.what, self.where[number])

    def _Happen(self, what: str, node: SimNode) -> None:
        if what == KILLED:
            self.world.Schedule(0, self.Kill)
        elif what == POWER:
            self.world.Schedule(0, node.Reboot)
        elif what == FULL:
            node.machine.disk_full = True
            self.world.Schedule(_MINUTES, self._MakeRoom)
        elif node is not self[0]:
            self.silent.add(node.name)
            self.network.Partition([node.name], [other.name for other in self.all if other is not node])
        runtime.Sleep(0.001)

    def _MakeRoom(self) -> None:
        for node in self.all:
            node.machine.disk_full = False

    # --- looking ------------------------------------------------------------------------------------------------------

    def _CheckTrust(self, moment: str) -> None:
        """Each candidate could be the master now: it and every node accept each other."""
        for one, other in itertools.product(self.all[:CANDIDATES], self.all):
            client, mine, theirs = Content(one, CLIENT.path), Trusted(one), Trusted(other)
            listed = (Content(other, _LISTED) or b"").decode()
            shown = Content(other, pathutils.NODED_CERT_FILE)
            if client is None or shown is None:
                self.broken.append(f"{moment}: {one.name} or {other.name} has no certificate")
                continue
            if not any(_SignedBy(client, pem, CLIENT.path) for pem in theirs):
                self.broken.append(f"{moment}: {other.name} does not know who signed the certificate of {one.name}")
            if _Digest(client, CLIENT.path) not in listed:
                self.broken.append(f"{moment}: {other.name} does not accept the certificate of {one.name}")
            if shown not in mine:
                self.broken.append(f"{moment}: {one.name} does not accept the certificate that {other.name} shows")

    def CheckRenewed(self, words: list[str]) -> None:
        """Everybody uses and accepts the same, nothing is left of what was, and what was asked for is new."""
        self._CheckTrust("at the end")
        assert self.broken == [], self.broken[0]
        for kind, secret in SECRETS.items():
            contents = {Content(node, secret.path) for node in self.all}
            assert len(contents) == 1, kind
            assert not any(Content(node, secret.path + suffix) for node in self.all for suffix in (NEXT, OLD)), kind
        assert not any(Content(node, CLIENT.path + NEXT) for node in self.all)
        if "--new-confd-hmac-key" in words:
            assert Content(self[0], pathutils.CONFD_HMAC_KEY) != b"the first key\n"
        if "--new-cluster-certificate" in words:
            assert Content(self[0], pathutils.NODED_CERT_FILE) != _Server().encode()
        for node in self.all:
            pem = Content(node, CLIENT.path)
            assert pem is not None and _SignedBy(pem, Content(self[0], pathutils.NODED_CERT_FILE), CLIENT.path)
            assert "--new-node-certificates" not in words or pem != _Client(node.name).encode()
        certs = self.Perform(lambda: self.snapshot.cluster.candidate_certs)
        assert certs == {node.member.uuid: node.Digest() for node in self.all[:CANDIDATES]}

    # --- acting -------------------------------------------------------------------------------------------------------

    def Renew(self, words: list[str], cut: Cut | None = None) -> cutting.Happened:
        """Run the command; what it prints besides its progress."""
        self.steps.clear()
        self.where.clear()
        self._cut = cut
        for node in self.all:
            self._Count(node)
        op = opcodes.OpClusterRenewCrypto(**{OPTIONS[word]: True for word in words})
        said, code = "", 0
        try:
            self.Perform(lambda: self.Run(op))
        except KilledMeanwhile:
            return cutting.Happened(None, "")
        except errors.GenericError as err:
            said, code = f"{err} {getattr(err, 'hint', None) or ''}", 1
        self._cut = None
        warned = [text for text in self.last.messages if text.startswith((" - WARNING", "      Hint"))]
        return cutting.Happened(code, "\n".join([said, *warned]).strip())

    def Heal(self) -> None:
        self.silent.clear()
        self.network.Heal()
        self._MakeRoom()
        self.world.RunFor(60)
        if not self.alive:
            self.Restart()
        self.Perform(self._Spread)


_CALLS = ("crypto_look", "crypto_stage", "crypto_certify", "crypto_activate", "crypto_withdraw")


class _NodeSide(CountingSide):
    """The side of a node daemon; its files of keys are steps, with what lies in its copy of the store another has to do."""

    def __init__(self, process: Any, scene: Scene, node: SimNode):
        super().__init__(process, scene)
        self._scene = scene
        self._node = node

    def _Step(self, what: str, action: Any) -> Any:
        if not any(what.partition(" ")[2].startswith(path) for path in _SECRET_FILES):
            return action()
        number = len(self._scene.steps)
        self._scene.Note(self._node, what)
        self._scene.Reach(number, BEFORE)
        result = action()
        self._scene.Reach(number, AFTER)
        return result


_SECRET_FILES = (CLIENT.path, *(secret.path for secret in SECRETS.values()))


def _Furnished(root: objects.Snapshot) -> objects.Snapshot:
    certs = {node.uuid: x509.Digest(_Client(node.name)) for node in root.nodes.values() if node.master_candidate}
    cluster = root.cluster.Replace(candidate_certs=certs, modify_ssh_setup=False)
    return root.Replace(cluster=cluster, instances={}, disks={})


def Content(node: SimNode, path: str) -> bytes | None:
    """What a file holds now; the disk is looked at, not the machine asked."""
    try:
        return bytes(node.machine.disk.FindFile(path).data)
    except FileNotFoundError:
        return None


def Trusted(node: SimNode) -> list[bytes]:
    return [pem for path in renewal.Paths(pathutils.NODED_CERT_FILE) if (pem := Content(node, path))]


def Disturbed(words: list[str], cut: Cut, other: str | None = None) -> None:
    """Raise AssertionError unless what a disturbed run says is true and helps, and the command that is named finishes.

    ``other``: an option with which somebody runs the command before.
    """
    scene = Scene()
    try:
        happened = scene.Renew(words, cut)
        scene.Heal()
        assert scene.broken == [], (scene.broken[0], happened.text)
        if happened.code == 0:
            scene.CheckRenewed(words)
        found = _ADVICE.search(happened.text)
        assert found or not happened.code, f"no command is named: {happened.text}"
        if other is not None:
            between = scene.Renew([other])
            assert between == (0, ""), (between.text, happened.text)
            scene.CheckRenewed([other])
        again = scene.Renew(found[1].split() if found else words)
        assert again == (0, ""), (again.text, happened.text)
        scene.CheckRenewed(words)
    finally:
        scene.Close()


def _Steps(words: list[str]) -> list[str]:
    scene = Scene()
    try:
        done = scene.Renew(words)
        assert done == (0, ""), done.text
        scene.CheckRenewed(words)
        return list(scene.steps)
    finally:
        scene.Close()


SHARED = ["--new-cluster-certificate", "--new-confd-hmac-key"]
NODES_ONLY = ["--new-node-certificates"]


@pytest.mark.limit(300)
@pytest.mark.parametrize("words", [SHARED, NODES_ONLY], ids=["shared", "nodes"])
def test_whatever_happens_at_any_step_nobody_is_locked_out_and_the_command_that_is_named_finishes(
    words: list[str],
) -> None:
    cutting.SweepCuts(_Steps(words), SAMPLE, lambda cut: Disturbed(words, cut), HAPPENINGS)


@pytest.mark.limit(300)
@pytest.mark.parametrize("words", [SHARED, NODES_ONLY], ids=["shared", "nodes"])
def test_a_run_with_any_other_option_after_it_locks_nobody_out_and_leaves_nothing(words: list[str]) -> None:
    steps = _Steps(words)
    others = [word for word in OPTIONS if [word] != words]
    cutting.Sweep(
        itertools.product(cutting.Cuts(len(steps), (KILLED, SILENT)), others),
        SAMPLE // 2,
        lambda case: Disturbed(words, *case),
        lambda case: f"{cutting.Told(steps, case[0])}, then {case[1]}",
    )


def test_certificates_that_are_staged_and_not_listed_are_listed_before_another_key_is_put_into_use() -> None:
    """The last moment before LIST: each node has a certificate that the store does not know."""
    number = max(number for number, step in enumerate(_Steps(NODES_ONLY)) if "crypto_certify" in step)
    Disturbed(NODES_ONLY, Cut(number, AFTER, KILLED), "--new-confd-hmac-key")


def test_a_node_whose_answers_alternate_does_not_keep_the_job_with_the_locks_of_all_nodes() -> None:
    """A regular node that says by turns that it has not received the secret, and that it lacks a certificate only."""
    scene = Scene()
    try:
        liar = scene.all[-1]
        asked = itertools.count()

        def lie(answer: Any) -> Any:
            number = next(asked)
            if number > 100:  # nobody waits for the end of the world
                return answer
            current, staged, _ = answer["secrets"]["cluster"]
            held = [_Sha(_Server()), (staged or current) if number % 2 else None, None]
            return {
                **answer,
                "secrets": {**answer["secrets"], "cluster": held},
                "client": [*answer["client"][:1], *[None] * 3],
            }

        honest = liar.edits["crypto_look"]
        liar.edits["crypto_look"] = lambda answer: honest(lie(answer))
        ended = scene.Renew(["--new-cluster-certificate"])
        assert ended.code == 1
        assert re.search(rf"Node {liar.name} did not complete phase \d of 6 \(each node ", ended.text), ended.text
        assert f"'gnt-node modify --offline yes {liar.name}'" in ended.text and scene.broken == []
        assert next(asked) < 20
        liar.edits["crypto_look"] = honest
        assert scene.Renew(["--new-cluster-certificate"]) == (0, "")
        scene.CheckRenewed(["--new-cluster-certificate"])
    finally:
        scene.Close()


def test_ssh_keys_that_the_cluster_leaves_alone_are_not_said_to_be_renewed() -> None:
    scene = Scene()
    try:
        op = opcodes.OpClusterRenewCrypto(confd_hmac_key=True, renew_ssh_keys=True)
        with pytest.raises(errors.OpPrereqError, match="does not manage the SSH keys"):
            scene.Perform(lambda: scene.Run(op))
        assert Content(scene[0], pathutils.CONFD_HMAC_KEY) == b"the first key\n"
    finally:
        scene.Close()


def test_no_machine_joins_while_a_renewal_is_not_completed() -> None:
    """The third node's disk is full when it is to use the new certificate; the machine would reject that node, or the others."""
    words = ["--new-cluster-certificate"]
    steps = _Steps(words)
    number = next(number for number, step in enumerate(steps) if step.startswith("node3: crypto_activate"))
    scene = Scene()
    try:
        assert scene.Renew(words, Cut(number, BEFORE, FULL)).code == 1
        scene.Heal()

        def refused() -> list[str]:
            said = []
            for act in (
                lambda: scene.Perform(lambda: join.JoinData(scene[3].name)),
                lambda: scene.Perform(lambda: scene.Run(opcodes.OpNodeAdd(node_name=scene[3].name, readd=True))),
            ):
                try:
                    act()
                    said.append("")
                except errors.GenericError as err:
                    said.append(f"{err} {getattr(err, 'hint', None)}")
            return said

        for text in refused():
            assert "The renewal of the cluster certificate is not completed" in text
            assert "run 'gnt-cluster renew-crypto --new-cluster-certificate' first" in text
        assert scene.Renew(words) == (0, "")
        assert not any("not completed" in text for text in refused())
    finally:
        scene.Close()


def test_a_node_without_the_key_gets_the_new_one_and_other_renewals_pass_it() -> None:
    """Somebody has removed the key of ganeti-confd on one node."""
    for words in (["--new-confd-hmac-key"], ["--new-cluster-certificate"]):
        scene = Scene()
        try:
            lacking = scene[3]
            lacking.machine.disk.Remove(pathutils.CONFD_HMAC_KEY)
            assert scene.Renew(words) == (0, "")
            left = [suffix for suffix in (NEXT, OLD) if Content(lacking, pathutils.CONFD_HMAC_KEY + suffix)]
            has, wanted = (Content(node, pathutils.CONFD_HMAC_KEY) for node in (lacking, scene[0]))
            assert left == [] and has == (wanted if "confd" in words[0] else None)
        finally:
            scene.Close()


def test_a_node_that_answers_and_fails_is_not_said_to_be_away() -> None:
    """The third node's disk is full when the secret is staged there, or it is cut off."""
    words = ["--new-confd-hmac-key"]
    number = next(number for number, step in enumerate(_Steps(words)) if step.startswith("node3: crypto_stage"))
    for what, hint in ((FULL, "when that is repaired, run"), (SILENT, "when it is back, run")):
        scene = Scene()
        try:
            ended = scene.Renew(words, Cut(number, BEFORE, what))
            assert ended.code == 1 and f"{hint} 'gnt-cluster renew-crypto --new-confd-hmac-key' again" in ended.text
        finally:
            scene.Close()
