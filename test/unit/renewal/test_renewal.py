"""What is to be done next in a renewal: decided from reports alone, whatever happened before."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from support import configs

from ganeti import errors, joindata, opcodes, renewal, x509
from ganeti.backend import files
from ganeti.client.gnt_cluster import renew_crypto
from ganeti.cmdlib import distribute
from ganeti.cmdlib.cluster import verify_files
from ganeti.renewal import CLUSTER, CONFD, Client, Goal, Held, Phase, Report, Step
from ganeti.tools import ensure_dirs, node_cleanup

MASTER, OTHER = "node1", "node2"
CLIENTS = "clients"
REST = Report(
    {CLUSTER: Held("S1", None, None), CONFD: Held("K1", None, None)}, Client("c1", None, "S1", None), frozenset(["c1"])
)
NEW = Goal({CLUSTER: "S2"}, {}, frozenset([MASTER]), MASTER)


def Changed(report: Report = REST, listed: str = "", **held: Held | Client) -> Report:
    secrets = {**report.secrets, **{kind: value for kind, value in held.items() if isinstance(value, Held)}}
    client = held.get("client", report.client)
    assert isinstance(client, Client)
    return Report(secrets, client, frozenset(listed.split()) or report.listed)


def test_one_node_goes_through_all_phases() -> None:
    staged = Changed(cluster=Held("S1", "S2", None))
    certified = Changed(staged, client=Client("c1", "c2", "S1", "S2"))
    listed = Changed(certified, "c1 c2")
    active = Changed(listed, cluster=Held("S2", None, "S1"), client=Client("c2", None, "S2", None))
    unlisted = Changed(active, "c2")
    done = Changed(unlisted, cluster=Held("S2", None, None))
    for report, phase in zip((REST, staged, certified, listed, active, unlisted), Phase, strict=True):
        assert renewal.Next({MASTER: report}, NEW) == Step(phase, [MASTER], [])
    assert renewal.Next({MASTER: done}, NEW) is None


def test_no_phase_begins_before_every_node_has_ended_the_one_before() -> None:
    staged = Changed(cluster=Held("S1", "S2", None))
    assert renewal.Next({MASTER: staged, OTHER: REST}, NEW) == Step(Phase.STAGE, [OTHER], [])
    assert renewal.Next({MASTER: staged, OTHER: None}, NEW) == Step(Phase.STAGE, [], [OTHER])
    done = Changed(listed="c2", cluster=Held("S2", None, None), client=Client("c2", None, "S2", None))
    left = Changed(done, cluster=Held("S2", None, "S1"))
    # The master's node forgets the old one last: until then whoever comes next sees that something is left to do.
    assert renewal.Next({MASTER: left, OTHER: left}, NEW) == Step(Phase.WITHDRAW, [OTHER], [])
    assert renewal.Next({MASTER: left, OTHER: done}, NEW) == Step(Phase.WITHDRAW, [MASTER], [])


def test_a_node_s_certificate_is_replaced_where_that_is_asked_for_and_no_other() -> None:
    goal = Goal({}, {MASTER: "c1"}, frozenset([MASTER]), MASTER)
    assert renewal.Next({MASTER: REST, OTHER: Changed(client=Client("d1", None, None, None))}, goal) == Step(
        Phase.CERTIFY, [MASTER], []
    )
    # One that is staged is put into use with anything else: it comes into the list first, whatever is asked for.
    for goal in (Goal({CONFD: "K2"}, {}, frozenset([MASTER]), MASTER), Goal({}, {}, frozenset([MASTER]), MASTER)):
        left = Changed(client=Client("c1", "c2", "S1", "S1"), confd=Held("K1", "K2", None))
        assert renewal.Next({MASTER: left}, goal) == Step(Phase.LIST, [MASTER], [])
        # It was signed with a cluster certificate that nobody asks for now.
        other = Changed(left, client=Client("c1", "c2", "S1", "S2"))
        assert renewal.Next({MASTER: other}, goal) == Step(Phase.CERTIFY, [MASTER], [])
    # Only the key of confd: whoever signed the certificates does not matter.
    goal = Goal({CONFD: "K2"}, {}, frozenset([MASTER]), MASTER)
    odd = Changed(client=Client("c1", None, None, None), confd=Held("K2", None, None))
    assert renewal.Next({MASTER: odd}, goal) is None


def test_what_was_interrupted_is_known_from_the_master_s_files() -> None:
    assert renewal.Unfinished(Held("S1", None, None)) is None
    assert renewal.Unfinished(Held("S1", "S2", None)) == "S2"
    assert renewal.Unfinished(Held("S2", None, "S1")) == "S2"
    # The power failed between its two files.
    assert renewal.Unfinished(Held("S1", "S2", "S1")) == "S2"


def test_reports_of_rogue_nodes_are_not_read() -> None:
    good = {
        "secrets": {CLUSTER: ["a", None, None], CONFD: ["b", None, None]},
        "client": [":".join(["AB"] * 20), None, "a", None],
        "listed": [],
    }
    assert renewal.ReadReport(good) is not None
    assert renewal.ReadReport({**good, "secrets": {CONFD: ["a", None, None]}}) is None
    assert renewal.ReadReport({**good, "client": ["AB\nuuid=CD", None, "a", None]}) is None


def test_only_what_could_be_used_is_staged() -> None:
    pem = renewal.Make(CLUSTER)
    renewal.Check(CLUSTER, pem.encode())
    other = renewal.Make(CLUSTER)
    mixed = pem[: pem.index("-----BEGIN CERT")] + other[other.index("-----BEGIN CERT") :]
    for kind, content in ((CLUSTER, mixed), (CLUSTER, x509.CertificateOnly(pem)), (CONFD, " \n"), ("etc", "x")):
        with pytest.raises(errors.GenericError):
            renewal.Check(kind, content.encode())
    # Two whose subjects are the same could not be told apart by a certificate without a key identifier.
    assert x509.LoadCertificate(pem).subject != x509.LoadCertificate(other).subject
    assert x509.IsSignedBy(x509.MakeClientPem(pem, "node1"), pem) and not x509.IsSignedBy(
        x509.MakeClientPem(pem, "node1"), other
    )


# --- any interruption -----------------------------------------------------------------------------------------------------


@dataclass
class Machine:
    """One node of the model; a certificate is (its digest, the digest of its signer)."""

    held: dict[str, Held]
    client: tuple[str, str]
    listed: frozenset[str]
    staged: tuple[str, str] | None = None

    def Trusted(self, kind: str) -> set[str | None]:
        return set(self.held[kind]) - {None}

    def Report(self) -> Report:
        client = Client(self.client[0], self.staged and self.staged[0], self.client[1], self.staged and self.staged[1])
        return Report(dict(self.held), client, self.listed)


OPTIONS = [*itertools.chain.from_iterable(itertools.combinations([CLUSTER, CONFD, CLIENTS], n) for n in (1, 2, 3))]


@dataclass
class Cluster:
    """A cluster in which each step may reach some nodes only, and runs end anywhere."""

    rng: random.Random
    names: list[str]
    candidates: frozenset[str]
    machines: dict[str, Machine] = field(default_factory=dict)
    config: frozenset[str] = frozenset()
    count: int = 0

    def __post_init__(self) -> None:
        self.config = frozenset(f"c-{name}" for name in self.candidates)
        for name in self.names:
            held = {CLUSTER: Held("S0", None, None), CONFD: Held("K0", None, None)}
            self.machines[name] = Machine(held, (f"c-{name}", "S0"), self.config)

    def Check(self) -> None:
        """Every candidate could be the master now: it and every node accept each other."""
        for caller, node in itertools.product(self.candidates, self.machines.values()):
            one = self.machines[caller]
            assert one.client[0] in node.listed and one.client[1] in node.Trusted(CLUSTER)
            assert node.held[CLUSTER].current in one.Trusted(CLUSTER)
            assert one.held[CONFD].current in node.Trusted(CONFD) and node.held[CONFD].current in one.Trusted(CONFD)

    def Reached(self, nodes: list[str]) -> list[Machine]:
        """Some of these nodes, in any order; each may be interrupted after it."""
        chosen = [self.machines[name] for name in nodes if self.rng.random() < 0.8]
        self.rng.shuffle(chosen)
        return chosen

    def Run(self, master: str, asked: Sequence[str], perfect: bool) -> bool:
        """One run of the command; whether it reached its goal."""
        own = self.machines[master]
        targets: dict[str, str] = {}
        for kind, held in own.held.items():
            target = renewal.Unfinished(held)
            if target is None and kind in asked:
                self.count += 1
                target = f"{kind}{self.count}"
                own.held[kind] = held._replace(next=target)
            if target is not None:
                targets[kind] = target
        renewed = {name: machine.client[0] for name, machine in self.machines.items()} if CLIENTS in asked else {}
        goal = Goal(targets, renewed, self.candidates, master)
        for _ in range(200 if perfect else self.rng.randrange(40)):
            down = set() if perfect or self.rng.random() < 0.7 else {self.rng.choice(self.names)}
            reports = {name: None if name in down else m.Report() for name, m in self.machines.items()}
            step = renewal.Next(reports, goal)
            if step is None:
                return True
            self.Do(step, goal, reports)
        return False

    def Do(self, step: Step, goal: Goal, reports: dict[str, Report | None]) -> None:
        if step.phase in (Phase.LIST, Phase.UNLIST):
            if step.unknown:
                # The certificates of a node that does not answer are not known either.
                return
            self.config = renewal.Accepted(reports, goal)[step.phase is Phase.UNLIST]
        for machine in self.Reached(list(step.nodes)):
            if step.phase is Phase.STAGE:
                for kind, target in goal.secrets.items():
                    if machine.held[kind].current != target:
                        machine.held[kind] = machine.held[kind]._replace(next=target)
            elif step.phase is Phase.CERTIFY:
                self.count += 1
                machine.staged = (f"c{self.count}", goal.secrets.get(CLUSTER, machine.held[CLUSTER].current or ""))
            elif step.phase in (Phase.LIST, Phase.UNLIST):
                machine.listed = self.config
            elif step.phase is Phase.WITHDRAW:
                machine.held = {kind: Held(held.current, None, None) for kind, held in machine.held.items()}
                machine.staged = None
            else:
                self.Activate(machine, goal.secrets)
            self.Check()

    def Activate(self, machine: Machine, targets: Mapping[str, str]) -> None:
        """Two files of each secret and one more, and the power may fail after each."""
        for kind, target in targets.items():
            held = machine.held[kind]
            if held.current == target:
                continue
            machine.held[kind] = held._replace(old=held.current)
            self.Check()
            if self.rng.random() < 0.1:
                return
            machine.held[kind] = Held(target, None, held.current)
            self.Check()
            if self.rng.random() < 0.1:
                return
        if machine.staged is not None:
            machine.client, machine.staged = machine.staged, None


@pytest.mark.parametrize("seed", range(0, 400, 20))
def test_nobody_is_locked_out_whatever_is_interrupted(seed: int) -> None:
    """Runs end anywhere, each with any options and any candidate as master; then one that nothing disturbs reaches the end."""
    for number in range(seed, seed + 20):
        rng = random.Random(number)
        names = [f"n{n}" for n in range(rng.randint(1, 5))]
        cluster = Cluster(rng, names, frozenset(names[: rng.randint(1, 3)]))
        for _ in range(rng.randrange(5)):
            cluster.Run(rng.choice(sorted(cluster.candidates)), rng.choice(OPTIONS), perfect=False)
        before = {name: machine.client for name, machine in cluster.machines.items()}
        asked = rng.choice(OPTIONS)
        assert cluster.Run(rng.choice(sorted(cluster.candidates)), asked, perfect=True), asked
        for kind, first in ((CLUSTER, "S0"), (CONFD, "K0")):
            [held] = {machine.held[kind] for machine in cluster.machines.values()}
            assert (held.next, held.old) == (None, None)
            assert kind not in asked or held.current != first
        for name, machine in cluster.machines.items():
            assert machine.client[1] == machine.held[CLUSTER].current and machine.staged is None
            assert CLIENTS not in asked or machine.client != before[name]
            assert machine.listed == frozenset(cluster.machines[name].client[0] for name in cluster.candidates)


# --- the table ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("secret", renewal.ALL, ids=lambda secret: secret.constant)
def test_everything_that_acts_on_secrets_knows_each_of_them(secret: renewal.Secret) -> None:
    """What a new one needs beyond its row: a parameter and an option; all else goes through the table."""
    assert getattr(opcodes.OpClusterRenewCrypto(**{secret.parameter: True}), secret.parameter)
    [option] = [option for option in renew_crypto.COMMAND.options if option.settings["dest"] == secret.parameter]
    assert secret.option in option.names
    shared = secret in renewal.SECRETS.values()
    assert (secret.join is not None) == shared and (shared or not secret.copied)
    items = {item.path: item for item in ensure_dirs._Files()}
    for path in renewal.Paths(secret.path):
        assert (items[path].owner, items[path].mode) == ((secret.user, secret.group), renewal.FILE_MODE)
    assert secret.path in node_cleanup._FILES
    assert (secret.path in files.AllowedUploads()) == secret.copied
    assert (secret.path in distribute.FilesOfAll(configs.Example().cluster)) == secret.copied
    assert (secret.path in {rule.path for rule in verify_files.Rules(configs.Example())}) == shared


def test_nodes_and_masters_of_the_release_before_do_not_know_a_new_secret() -> None:
    """Its node is no silent one, and a machine that it adds is set up; what 3.1 has must be there."""
    cluster = ["a" * 64, None, None]
    value = {"secrets": {CLUSTER: cluster}, "client": [None] * 4, "listed": []}
    report = renewal.ReadReport(value)
    assert report is not None and report.secrets == {CLUSTER: Held(*cluster), CONFD: Held(None, None, None)}
    assert renewal.ReadReport({**value, "secrets": {CONFD: cluster}}) is None
    assert renewal.ReadReport({**value, "secrets": {CLUSTER: cluster, "stranger": cluster}}) is None
    newer = renewal.SECRETS[CONFD]._replace(join="newer_key", original=False)
    shape = joindata.SetupShape([*renewal.SECRETS.values(), newer])
    sent = {"cluster_name": "c", "node_daemon_certificate": "pem", "hmac_key": "k", "ssconf": {}, "node_name": "n"}
    assert shape(sent) and shape({**sent, "newer_key": "k"}) and not shape({**sent, "newer_key": ""})
    assert not shape({name: part for name, part in sent.items() if name != "hmac_key"})
