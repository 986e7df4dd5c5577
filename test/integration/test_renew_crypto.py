"""Keys and certificates of a running cluster are replaced; daemons die at every step, a node is away, and comes back."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest
from support import joining
from support.joining import Command
from support.managed import Managed
from support.realcluster import FollowJob, RealCluster, RealNode, WaitUntil
from support.sshserver import AUTHORIZED, USER_KEY

from ganeti import runtime, x509
from ganeti.rpc.base import Answer, Failure, Request
from ganeti.rpc.curl import CurlTransport
from ganeti.rpc.resolver import NodedPort

DATA = "/var/lib/ganeti/"
EVERYTHING = ("--new-cluster-certificate", "--new-confd-hmac-key")
RENEW = {"OP_ID": "OP_CLUSTER_RENEW_CRYPTO", "cluster_certificate": True, "confd_hmac_key": True, "reason": []}
PHASES = 6
SECRETS = ("server.pem", "client.pem", "hmac.key")


def Start(cluster: RealCluster) -> None:
    cluster.StartNodeDaemons()
    for node in cluster.nodes:
        node.StartConfd()
    cluster[0].StartMaster()


def Works(master: RealNode, *nodes: RealNode) -> None:
    """A job succeeds that acts on all of these nodes."""
    delay = {"OP_ID": "OP_TEST_DELAY", "duration": 0.0, "on_nodes": [node.name for node in nodes], "on_master": True}
    with master.Client() as client:
        assert FollowJob(client, client.SubmitJob([{**delay, "reason": []}]))[0] == "success"


def Keep(node: RealNode) -> str:
    """The keys that a node has now, as somebody would have who stole them; their folder."""
    folder = node.Path("/stolen")
    os.makedirs(folder, exist_ok=True)
    for name in SECRETS:
        with open(os.path.join(folder, name), "w", encoding="utf-8") as stream:
            stream.write(node.Read(DATA + name))
    return folder


def Call(folder: str, node: RealNode) -> Answer:
    """What a node answers to somebody who has these keys."""
    transport = CurlTransport(f"{folder}/server.pem", f"{folder}/client.pem")
    answers: list[Answer] = []
    done = runtime.Event()
    transport.Submit(
        Request(node.name, node.address, NodedPort(), "/version", b"[5]"),
        lambda answer: (answers.append(answer), done.set()),
    )
    assert done.wait(60)
    transport.Close()
    return answers[0]


def Renewed(cluster: RealCluster, before: list[dict[str, str]], stolen: str) -> None:
    """Every node has new keys, the same where they are shared; nothing else is left, and the old keys open nothing."""
    now = [{name: node.Read(DATA + name) for name in SECRETS} for node in cluster.nodes]
    for old, new in zip(before, now, strict=True):
        assert all(old[name] != new[name] for name in SECRETS)
    assert len({(new["server.pem"], new["hmac.key"]) for new in now}) == 1
    for node in cluster.nodes:
        left = [name for name in os.listdir(node.Path(DATA)) if name.endswith((".next", ".old"))]
        assert left == [], node.name
        assert ".next" not in node.Read(DATA + "ssconf_master_candidates_certs")
        # The thief believes whatever the node shows: it is the node that turns him away.
        with open(f"{stolen}/server.pem.next", "w", encoding="utf-8") as stream:
            stream.write(x509.CertificateOnly(node.Read(DATA + "server.pem")))
        # Under load the reason may get lost with the connection.
        assert Call(stolen, node).failure in (Failure.REJECTED, Failure.SILENT)
        own = Call(node.Path(DATA), node)
        accepted = node.uuid in node.Read(DATA + "ssconf_master_candidates_certs")
        assert (own.error is None) == accepted


def Secrets(cluster: RealCluster) -> list[dict[str, str]]:
    return [{name: node.Read(DATA + name) for name in SECRETS} for node in cluster.nodes]


@pytest.mark.limit(200)
def test_everything_is_replaced_while_the_cluster_serves() -> None:
    with RealCluster(3, candidates=2) as cluster:
        Start(cluster)
        cluster[0].StartRapi()
        before, stolen = Secrets(cluster), Keep(cluster[0])
        assert Call(stolen, cluster[1]).error is None
        pids = [node.Pid("ganeti-noded") for node in cluster.nodes] + [cluster[0].Pid("ganeti-masterd")]
        files = ("rapi.pem", "spice.pem", "spice-ca.pem", "cluster-domain-secret")
        old_files = {
            name: cluster[0].Read(DATA + name) for name in files if os.path.exists(cluster[0].Path(DATA + name))
        }
        done = Command(
            cluster[0], "gnt-cluster", "renew-crypto", "--force", *EVERYTHING, "--new-node-certificates",
            "--new-rapi-certificate", "--new-spice-certificate", "--new-cluster-domain-secret",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr + cluster[0].Log("ganeti-masterd")
        assert done.stdout.startswith("Updating certificates now.") and "have been replaced" in done.stdout
        Works(cluster[0], *cluster.nodes)
        Renewed(cluster, before, stolen)
        for name in files:
            texts = {node.Read(DATA + name) for node in cluster.nodes}
            assert len(texts) == 1 and texts != {old_files.get(name)}
        # Nothing was restarted.
        assert pids == [node.Pid("ganeti-noded") for node in cluster.nodes] + [cluster[0].Pid("ganeti-masterd")]


def Interrupted(cluster: RealCluster, phase: int, node: RealNode) -> None:
    """The power of a node fails when a phase has begun."""
    with cluster[0].Client() as client:
        job_id = client.SubmitJob([RENEW])
        info: Any = None
        serial = None
        while True:
            values, entries = client.WaitForJobChange(job_id, ["status"], info, serial)
            info, serial = values, max([entry[0] for entry in entries], default=serial)
            if any(f"Phase {phase} of {PHASES}" in str(entry) for entry in entries):
                break
            assert values[0] in ("queued", "waiting", "running"), client.QueryJobs([job_id], ["opresult"])
        cluster.CutPower(node)


@pytest.mark.limit(600)
def test_the_power_of_the_master_fails_in_every_phase() -> None:
    with RealCluster(3, candidates=2) as cluster:
        Start(cluster)
        for phase in range(1, PHASES + 1):
            before, stolen = Secrets(cluster), Keep(cluster[0])
            Interrupted(cluster, phase, cluster[0])
            cluster[0].StartNoded()
            cluster[0].StartConfd()
            cluster[0].StartMaster()
            # Nobody is locked out meanwhile.
            Works(cluster[0], *cluster.nodes)
            done = Command(cluster[0], "gnt-cluster", "renew-crypto", "--force", *EVERYTHING)
            assert done.returncode == 0, done.stderr
            Works(cluster[0], *cluster.nodes)
            Renewed(cluster, before, stolen)


@pytest.mark.limit(600)
def test_another_node_dies_in_every_phase_and_comes_back() -> None:
    with RealCluster(3) as cluster:
        Start(cluster)
        for phase in (1, 3, 4, 6):
            before, stolen = Secrets(cluster), Keep(cluster[0])
            dying = cluster[1 + phase % 2]
            Interrupted(cluster, phase, dying)
            WaitUntil(lambda: Idle(cluster[0]), "the renewal has ended", 60)
            dying.StartNoded()
            dying.StartConfd()
            Works(cluster[0], *cluster.nodes)
            done = Command(cluster[0], "gnt-cluster", "renew-crypto", "--force", *EVERYTHING)
            assert done.returncode == 0, done.stderr
            Works(cluster[0], *cluster.nodes)
            Renewed(cluster, before, stolen)


def Idle(node: RealNode) -> bool:
    with node.Client() as client:
        jobs = client.Query("job", ["status"], ["|", ["=", "status", "running"], ["=", "status", "waiting"]])
    return not jobs["data"]


@pytest.mark.limit(200)
def test_a_node_that_is_away_is_named_with_what_to_do() -> None:
    with RealCluster(3, candidates=2) as cluster:
        Start(cluster)
        master, away = cluster[0], cluster[2]
        before, stolen = Secrets(cluster), Keep(master)
        cluster.CutPower(away)
        failed = Command(master, "gnt-cluster", "renew-crypto", "--force", *EVERYTHING)
        assert failed.returncode == 1
        text = " ".join((failed.stdout + failed.stderr).split())
        assert f"Node {away.name} did not answer. Nothing was changed" in text
        assert f"'gnt-cluster renew-crypto {' '.join(EVERYTHING)}' again" in text
        assert f"'gnt-node modify --offline yes {away.name}'" in text
        assert Secrets(cluster) == before
        # Without it, as the message says.
        assert Command(master, "gnt-node", "modify", "--offline", "yes", away.name).returncode == 0
        done = Command(master, "gnt-cluster", "renew-crypto", "--force", *EVERYTHING)
        assert done.returncode == 0, done.stderr
        assert f"Node {away.name} is offline" in done.stdout + done.stderr
        assert away.Read(DATA + "server.pem") == before[2]["server.pem"]
        # It is back, and locked out, as it has the old keys; the steps of the message bring it in again.
        away.StartNoded()
        away.Stop("ganeti-noded")
        cleaned = away.Run(
            [
                sys.executable,
                "-c",
                "import sys; from ganeti.tools.node_cleanup import Main; sys.exit(Main())",
                "--yes-do-it",
            ]
        )
        assert cleaned.returncode == 0, cleaned.stderr
        joining.SetUp(master, away)
        away.StartNoded()
        joining.Readd(master, away)
        Works(master, *cluster.nodes)
        Renewed(cluster, before, stolen)


@pytest.mark.limit(200)
def test_files_that_a_node_did_not_get_are_not_said_to_be_replaced() -> None:
    with RealCluster(3, candidates=2) as cluster:
        Start(cluster)
        master, away = cluster[0], cluster[2]
        master.Write(DATA + "rapi.pem", x509.MakeRapiPem(), 0o440)
        # It has confirmed the master before it goes away.
        assert Command(master, "gnt-cluster", "redist-conf").returncode == 0
        cluster.CutPower(away)
        before = master.Read(DATA + "rapi.pem"), Secrets(cluster)
        # Nothing is replaced before the job has found all nodes.
        failed = Command(
            master, "gnt-cluster", "renew-crypto", "--force", "--new-confd-hmac-key", "--new-rapi-certificate"
        )
        text = " ".join((failed.stdout + failed.stderr).split())
        assert failed.returncode == 1 and f"Node {away.name} did not answer. Nothing was changed" in text
        assert "These files were not replaced: rapi.pem" in text and "with --new-rapi-certificate, too" in text
        assert (master.Read(DATA + "rapi.pem"), Secrets(cluster)) == before
        # Files alone are replaced where that is possible.
        failed = Command(master, "gnt-cluster", "renew-crypto", "--force", "--new-rapi-certificate")
        text = " ".join((failed.stdout + failed.stderr).split())
        assert failed.returncode == 1 and "All requested" not in text
        assert (
            f"(rapi.pem) could not be copied to all nodes: {away.name}" in text and "'gnt-cluster redist-conf'" in text
        )
        assert text.count(f"to node {away.name} failed") == 1
        assert master.Read(DATA + "rapi.pem") == cluster[1].Read(DATA + "rapi.pem") != before[0]
        away.StartNoded()
        Works(master, *cluster.nodes)
        assert Command(master, "gnt-cluster", "redist-conf").returncode == 0
        assert away.Read(DATA + "rapi.pem") == master.Read(DATA + "rapi.pem")


@pytest.mark.limit(300)
def test_ssh_keys_are_replaced_on_all_nodes_and_the_old_ones_open_nothing() -> None:
    """The real ssh.  One node cannot put its key into use at first: old and new are good until the command is run again."""
    managed = Managed(3, candidates=2)
    try:
        nodes = managed.cluster.nodes
        before = {node.name: node.Read(USER_KEY + ".pub").split()[1] for node in nodes}
        server = managed.servers[1]
        server.broken = {"mv -f": "echo no space left >&2; exit 1"}
        failed = managed.Command("gnt-cluster", "renew-crypto", "--force", "--new-ssh-keys", "--ssh-key-bits=3072")
        text = " ".join((failed.stdout + failed.stderr).split())
        assert failed.returncode == 1 and f"SSH keys on node {nodes[1].name}" in text and "no space left" in text
        assert "'gnt-cluster renew-crypto --new-ssh-keys --ssh-key-bits=3072' has completed it" in text
        assert any("several keys" in line for line in managed.SshProblems("--verify-ssh-clutter"))
        reached = managed.Command("gnt-cluster", "command", "-M", "echo here")
        assert reached.stdout.count(": here") == 3
        server.broken = {}
        done = managed.Command("gnt-cluster", "renew-crypto", "--force", "--new-ssh-keys", "--ssh-key-bits=3072")
        assert done.returncode == 0, done.stdout + done.stderr
        keys = {node.name: node.Read(USER_KEY + ".pub").split()[1] for node in nodes}
        for node in nodes:
            assert keys[node.name] != before[node.name]
            text = node.Read(AUTHORIZED)
            assert not any(key in text for key in before.values())
            assert [keys[other.name] in text for other in nodes] == [True, True, False]
            assert {uuid: len(lines) for uuid, lines in managed.Keys(node).items()} == {n.uuid: 1 for n in nodes}
        assert managed.SshProblems("--verify-ssh-clutter") == []
        reached = managed.Command("gnt-cluster", "command", "-M", "echo here")
        assert reached.stdout.count(": here") == 3
        assert "3072" in managed.Command("gnt-cluster", "info").stdout
    finally:
        managed.Close()


POST_UPGRADE = "import sys; from ganeti.tools.post_upgrade import Main; sys.exit(Main())"


@pytest.mark.limit(300)
def test_what_an_old_release_lacked_is_made_although_a_node_fails_at_first() -> None:
    """post-upgrade with the real commands, on a running cluster; running it again finishes what a full disk prevented."""
    managed = Managed(2)
    try:
        master, other = managed.cluster.nodes

        def run(old: str) -> tuple[int, str]:
            done = master.Run([sys.executable, "-c", POST_UPGRADE, old], timeout=150, PATH=managed.path)
            return done.returncode, " ".join((done.stdout + done.stderr).split())

        def look() -> list[tuple[str, str]]:
            return [(node.Read(DATA + "client.pem"), node.Read(USER_KEY + ".pub")) for node in (master, other)]

        before = look()
        assert run("2.13.0") == (0, "") and look() == before
        managed.servers[1].broken = {"mv -f": "echo no space left >&2; exit 1"}
        code, said = run("2.11.3")
        assert code == 1 and "--new-ssh-keys --no-ssh-key-check -f -d' failed" in said and "no space left" in said
        assert f"SSH keys on node {other.name}" in said and said.endswith("post-upgrade 2.11.3' again")
        # The certificates are new all the same, and the master reaches the node with them.
        first = look()
        assert all(old[0] != new[0] for old, new in zip(before, first, strict=True))
        Works(master, other)
        managed.servers[1].broken = {}
        assert run("2.11.3")[0] == 0
        assert all(old[0] != new[0] for old, new in zip(first, look(), strict=True))
        assert all(old[1] != new[1] for old, new in zip(before, look(), strict=True))
        assert managed.SshProblems("--verify-ssh-clutter") == []
        assert managed.Command("gnt-cluster", "command", "-M", "echo here").stdout.count(": here") == 2
        Works(master, master, other)
    finally:
        managed.Close()


@pytest.mark.limit(200)
def test_ssh_keys_that_the_cluster_leaves_alone_are_not_said_to_be_replaced() -> None:
    with RealCluster(1) as cluster:
        root = cluster.config
        cluster.WriteConfig(root.WithObject(root.cluster.Replace(modify_ssh_setup=False)))
        Start(cluster)
        master = cluster[0]
        master.Write(DATA + "rapi.pem", x509.MakeRapiPem(), 0o440)
        before = Secrets(cluster), master.Read(DATA + "rapi.pem")
        failed = Command(
            master,
            "gnt-cluster",
            "renew-crypto",
            "--force",
            "--new-rapi-certificate",
            "--new-confd-hmac-key",
            "--new-ssh-keys",
        )
        assert failed.returncode == 1 and "does not manage the SSH keys of its nodes" in " ".join(failed.stderr.split())
        assert "have been replaced" not in failed.stdout
        assert (Secrets(cluster), master.Read(DATA + "rapi.pem")) == before
        # An upgrade from a release without such keys does not ask for them there.
        upgraded = master.Run([sys.executable, "-c", POST_UPGRADE, "2.12.5"], timeout=150)
        assert upgraded.returncode == 0, upgraded.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--new-rapi-certificate", "--rapi-certificate=x"), "Only one of --new-rapi-certificate"),
        (("--new-cluster-domain-secret", "--cluster-domain-secret=x"), "Only one of --new-cluster-domain-secret"),
        (("--new-spice-certificate", "--spice-certificate=x"), "cannot be given together"),
        (("--spice-ca-certificate=x",), "must be given together"),
        (("--ssh-key-type=ecdsa",), "need --new-ssh-keys"),
    ],
)
def test_options_that_contradict_each_other_are_rejected_before_anything_is_done(
    options: tuple[str, ...], words: str
) -> None:
    with RealCluster(1) as cluster:
        failed = Command(cluster[0], "gnt-cluster", "renew-crypto", "--force", *options)
        assert failed.returncode == 1 and words in failed.stderr
        assert failed.stdout.startswith("Updating certificates now.")


@pytest.mark.limit(200)
def test_files_of_the_administrator_come_to_all_nodes() -> None:
    with RealCluster(2) as cluster:
        Start(cluster)
        master = cluster[0]
        key, certificate = x509.MakeSelfSigned()
        given = {"rapi.pem": x509.MakeRapiPem(), "spice.pem": key + certificate, "spice-ca.pem": certificate}
        given["cluster-domain-secret"] = "secret\n"
        files = {name: master.Write(f"/given/{name}", text) for name, text in given.items()}
        options = [
            f"--rapi-certificate={files['rapi.pem']}", f"--spice-certificate={files['spice.pem']}",
            f"--spice-ca-certificate={files['spice-ca.pem']}", f"--cluster-domain-secret={files['cluster-domain-secret']}",
            "--no-ssh-key-check", "--verbose",
        ]  # fmt: skip
        unfit = master.Write("/given/unfit", certificate)
        failed = Command(master, "gnt-cluster", "renew-crypto", "--force", f"--rapi-certificate={unfit}")
        assert failed.returncode == 1 and "private key cannot be read" in failed.stderr
        done = Command(master, "gnt-cluster", "renew-crypto", "--force", *options)
        assert done.returncode == 0, done.stderr
        for node in cluster.nodes:
            assert {name: node.Read(DATA + name) for name in given} == given
