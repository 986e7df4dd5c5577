"""Stories of machines that become a cluster over SSH, as the README and the manual say.

Each begins with machines that no cluster knows; only the administrator of the first one is let in on the others.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from lab.cluster import NAME, NETWORK, Node
from lab.site import SiteMachines
from lab.stage import Teller
from lab.stories import OnSite

_RENEWED = (
    "--new-cluster-certificate", "--new-node-certificates", "--new-confd-hmac-key", "--new-rapi-certificate",
    "--new-spice-certificate", "--new-cluster-domain-secret", "--new-ssh-keys",
)  # fmt: skip
_FILE = "/root/to-copy"
_LOGS = "/root/listrunner"
_LISTRUNNER = "ganeti-listrunner"


def _Init(stage: Teller[SiteMachines], *options: str) -> None:
    argv = ["--master-netdev", "eth0", "--enabled-hypervisors", "fake", *stage.cluster.init, *options]
    stage.Gnt("cluster", "init", *argv, NAME)


def _LearnHostKeys(stage: Teller[SiteMachines], node: Node) -> None:
    """Do what an administrator does who has compared a machine's host keys."""
    known = "/root/.ssh/known_hosts"
    script = f"ssh-keygen -q -R {node.name} 2>&1; ssh-keyscan -T 60 {node.name} >> {known}"
    stage.cluster.master.Shell(f"touch {known}; {script}")


def _Add(stage: Teller[SiteMachines], *words: str) -> str:
    return stage.Gnt("node", "add", *words)


def _Fails(stage: Teller[SiteMachines], *argv: str) -> str:
    """Run a command that must fail; return what it printed, on one line."""
    done = stage.cluster.Gnt(*argv, check=False)
    said = " ".join((done.stdout + done.stderr).split())
    stage.say(f"         gnt-{' '.join(argv)} failed: {said[-600:]}")
    assert done.status and "Traceback" not in said, said
    return said


def _CheckVerify(stage: Teller[SiteMachines]) -> None:
    site = stage.cluster
    errors = [line for line in stage.Verify() if not (site.lack and site.lack.search(line))]
    slow = [line for line in errors if site.slow and site.slow.search(line)]
    assert slow == errors, "gnt-cluster verify reports:\n" + "\n".join(errors)
    if slow:
        # From each node to itself and to each other one.
        nodes = stage.Gnt("node", "list", "--no-headers", "-o", "offline").split()
        pairs = nodes.count("N") ** 2
        stage.say(f"         {len(slow)} of the {pairs} SSH sessions of gnt-cluster verify took too long")
        assert len(slow) < pairs, "none of the SSH sessions of gnt-cluster verify was in time:\n" + "\n".join(slow)


def _CheckHealth(stage: Teller[SiteMachines]) -> None:
    """Raise AssertionError unless gnt-cluster verify has no error to report and each node has its role and its daemons."""
    _CheckVerify(stage)
    rows = stage.Gnt("node", "list", "--no-headers", "--separator=|", "-o", "name,role,offline").splitlines()
    assert len(rows) == len(stage.cluster.nodes), rows
    for node in stage.cluster.nodes:
        assert node.Pid("ganeti-noded") and node.Pid("ganeti-confd"), node.name


def _CheckEverywhere(stage: Teller[SiteMachines]) -> None:
    """Run a command, copy a file and run a program on all nodes."""
    names = [node.name for node in stage.cluster.nodes]
    said = stage.Gnt("cluster", "command", "-M", "hostname")
    assert sorted(re.findall(r"^(\S+): (\S+)$", said, re.MULTILINE)) == [(name, name) for name in names], said
    mark = f"{stage.random.random()}"
    stage.cluster.master.Run("tee", _FILE, stdin=mark)
    stage.Gnt("cluster", "copyfile", _FILE)
    for node in stage.cluster.nodes:
        assert node.Read(_FILE) == mark
    others = ",".join(names[1:])
    for name in names[1:]:
        # They have the host key of the cluster now, which the administrator's own ssh does not know.
        _LearnHostKeys(stage, next(node for node in stage.cluster.nodes if node.name == name))
    done = stage.cluster.master.Run(_LISTRUNNER, "-A", "-l", _LOGS, "-c", "hostname", "-h", others, check=False)
    logs = stage.cluster.master.Shell(f"cat {_LOGS}/*; rm -r {_LOGS}")
    assert done.status == 0 and all(name in logs for name in names[1:]), (done, logs)


def _Form(stage: Teller[SiteMachines]) -> None:
    """The second machine's host key is compared, the third's is taken as it is."""
    _Init(stage)
    second, *others = stage.cluster.nodes[1:]
    said = _Fails(stage, "node", "add", second.name)
    assert "Host key verification failed" in said and "--no-ssh-key-check" in said, said
    _LearnHostKeys(stage, second)
    _Add(stage, second.name)
    for node in others:
        _Add(stage, "--no-ssh-key-check", node.name)
    _CheckHealth(stage)


def _Renew(stage: Teller[SiteMachines]) -> None:
    def sums() -> list[str]:
        paths = "/root/.ssh/id_rsa.pub /var/lib/ganeti/server.pem /var/lib/ganeti/client.pem /var/lib/ganeti/hmac.key"
        return [node.Shell(f"sha256sum {paths}") for node in stage.cluster.nodes]

    before = sums()
    stage.Gnt("cluster", "renew-crypto", "--force", *_RENEWED)
    for old, new in zip(before, sums(), strict=True):
        assert not set(old.splitlines()) & set(new.splitlines()), new
    _CheckHealth(stage)


def _LoseAndReplace(stage: Teller[SiteMachines]) -> None:
    """The last machine burns down; another one comes in its place, with host keys of its own."""
    lost = stage.cluster.nodes[-1]
    uuid = stage.Gnt("node", "list", "--no-headers", "-o", "uuid", lost.name).strip()
    stage.say(f"         {lost.name} is lost")
    stage.cluster.PowerOff(lost)
    stage.Gnt("node", "modify", "--offline", "yes", lost.name)
    _CheckVerify(stage)
    stage.cluster.Replace(lost)
    said = _Fails(stage, "node", "add", "--readd", lost.name)
    assert "IDENTIFICATION HAS CHANGED" in said or "Host key verification failed" in said, said
    _LearnHostKeys(stage, lost)
    _Add(stage, "--readd", lost.name)
    assert stage.Gnt("node", "list", "--no-headers", "-o", "uuid", lost.name).strip() == uuid
    _CheckHealth(stage)


@OnSite
def setup_a_cluster(stage: Teller[SiteMachines]) -> None:
    """Three machines become a cluster, its keys are renewed, a node is lost, replaced and added again."""
    _Form(stage)
    _CheckEverywhere(stage)
    _Renew(stage)
    _CheckEverywhere(stage)
    _LoseAndReplace(stage)
    _CheckEverywhere(stage)


# --- machines that are not what they seem ---------------------------------------------------------------------------------

_OTHER = "other"


def _CleanUpAsTold(stage: Teller[SiteMachines], node: Node, said: str) -> None:
    """Run on the node what an error says makes it nobody's node."""
    [command] = set(re.findall(r"'(\S+/node-cleanup --yes-do-it)'", said))
    node.Shell(command, seconds=600)
    stage.say(f"         {command} on {node.name}")


def _FromAnotherCluster(stage: Teller[SiteMachines], node: Node) -> None:
    node.Shell(f"echo {NETWORK}.253 {_OTHER} >> /etc/hosts")
    argv = ["--master-netdev", "eth0", "--enabled-hypervisors", "fake", "--no-etc-hosts", *stage.cluster.init]
    node.Run("gnt-cluster", "init", *argv, _OTHER, seconds=900)
    said = _Fails(stage, "node", "add", "--no-ssh-key-check", node.name)
    assert f"'{_OTHER}'" in said and "belongs to another cluster" in said, said
    assert node.Run("gnt-node", "list", "--no-headers", "-o", "name,role").stdout.split() == [node.name, "M"]
    _CleanUpAsTold(stage, node, said)
    _Add(stage, "--no-ssh-key-check", node.name)
    _CheckHealth(stage)


def _OtherNames(stage: Teller[SiteMachines], node: Node) -> None:
    """Nobody's keys are replaced by adding the node, or the master, by another name or address."""
    master = stage.cluster.master
    alias, further = f"{node.name}-alias", f"{node.name}-storage"
    address = f"{NETWORK}.20{node.name[-1]}"
    # The cluster knows nothing of this one: only the machine itself can tell who it is.
    node.Shell(f"ip addr add {address}/24 dev eth0")
    master.Shell(f"printf '{node.machine.address} {alias}\\n{address} {further}\\n' >> /etc/hosts")

    def keys() -> list[str]:
        paths = (
            "/root/.ssh/id_rsa /root/.ssh/authorized_keys /var/lib/ganeti/client.pem /var/lib/ganeti/ganeti_pub_keys"
        )
        return [one.Shell(f"sha256sum {paths}") for one in (master, node)]

    before = keys()
    for name in (alias, node.machine.address, further, NAME, "localhost", master.name, master.machine.address):
        said = _Fails(stage, "node", "add", "--no-ssh-key-check", name)
        assert ("Preparing" in said) is (name == further), said
        assert keys() == before, name
    _CheckVerify(stage)


def _WrongHostKey(stage: Teller[SiteMachines], node: Node) -> None:
    """Somebody else answers at a node's address."""
    node.Shell("rm /etc/ssh/ssh_host_*; ssh-keygen -q -A; /etc/init.d/ssh restart")
    for argv in (("command", "-M", "hostname"), ("copyfile", _FILE)):
        stage.cluster.master.Run("tee", _FILE, stdin="secret")
        # As in 3.1, "command" ends with 0 whatever happens on a node.
        said = stage.Gnt("cluster", *argv, check=False)
        assert re.search(f"{node.name}.*Host key verification failed", said, re.DOTALL), said
    assert "secret" not in node.Shell(f"cat {_FILE}", check=False)
    said = _Fails(stage, "node", "add", "--readd", node.name)
    assert "--no-ssh-key-check" in said, said
    _Add(stage, "--readd", "--no-ssh-key-check", node.name)
    _CheckHealth(stage)
    stage.Gnt("cluster", "copyfile", _FILE)
    assert node.Read(_FILE) == "secret"


def _OldKeys(stage: Teller[SiteMachines], node: Node) -> None:
    """A node is switched off while all keys are renewed."""
    stage.cluster.PowerOff(node)
    stage.Gnt("node", "modify", "--offline", "yes", node.name)
    said = " ".join(stage.Gnt("cluster", "renew-crypto", "--force", *_RENEWED).split())
    assert f"{node.name} is offline and keeps its old keys" in said, said
    stage.cluster.PowerOn(node)
    refused = _Fails(stage, "node", "add", "--readd", node.name)
    assert "does not match the local one" in refused, refused
    _CleanUpAsTold(stage, node, said)
    _Add(stage, "--readd", node.name)
    _CheckHealth(stage)


@OnSite
def setup_strangers(stage: Teller[SiteMachines]) -> None:
    """Other names of nodes, a node of another cluster, a strange host key, old keys: refused; what is advised helps."""
    _Init(stage, "--no-etc-hosts")
    second, third = stage.cluster.nodes[1:]
    _Add(stage, "--no-ssh-key-check", second.name)
    _OtherNames(stage, second)
    _FromAnotherCluster(stage, third)
    _WrongHostKey(stage, third)
    _OldKeys(stage, third)


# --- a machine fails while it is added ------------------------------------------------------------------------------------

# Lines that gnt-node add prints, each of which begins a step.
_LINES = ("Preparing", "Starting the node daemon", "is in the configuration")
# Strikes a machine, and returns what repairs it.
Strike = Callable[[Teller[SiteMachines], Node], Callable[[], None]]


def _Reboot(stage: Teller[SiteMachines], node: Node) -> Callable[[], None]:
    stage.cluster.PowerOff(node)
    return lambda: stage.cluster.PowerOn(node)


def _CutOff(stage: Teller[SiteMachines], node: Node) -> Callable[[], None]:
    stage.cluster.CutOff(node)
    return stage.cluster.Heal


def _Fill(_stage: Teller[SiteMachines], node: Node) -> Callable[[], None]:
    """Fill the disks on which the machine keeps its files."""
    folders = "/root /var/lib/ganeti /etc/ssh"
    node.Shell(f"for folder in {folders}; do dd if=/dev/zero of=$folder/filler bs=64k; done; :", check=False)

    def repair() -> None:
        node.Shell(f"for folder in {folders}; do rm -f $folder/filler; done")

    return repair


_STRIKES: dict[str, Strike] = {"reboots": _Reboot, "loses its network": _CutOff, "has a full disk": _Fill}


def _Interrupted(stage: Teller[SiteMachines], node: Node, again: bool, line: str, what: str) -> None:
    """Add a machine, strike when a line was printed, do as the error says, and check that the node is healthy."""
    stage.say(f"         {node.name} {what} after '{line}'{', added again' if again else ''}")
    words = ["--readd"] * again + ["--no-ssh-key-check", node.name]
    master = stage.cluster.master
    run = f"(gnt-node add {' '.join(words)} >/run/add.log 2>&1; echo $? >/run/add.end) </dev/null >/dev/null 2>&1 &"
    master.Shell(f"rm -f /run/add.*; touch /run/add.log; {run}")
    master.Shell(f"until grep -q '{line}' /run/add.log || [ -e /run/add.end ]; do sleep 0.05; done", seconds=600)
    repair = _STRIKES[what](stage, node)
    began = time.monotonic()
    master.Shell("until [ -e /run/add.end ]; do sleep 0.2; done", seconds=900)
    said = " ".join(master.Read("/run/add.log").split())
    stage.say(f"         {time.monotonic() - began:.1f} s later it says: {said[-800:]}")
    repair()
    known = node.name in stage.Gnt("node", "list", "--no-headers", "-o", "name").split()
    if master.Read("/run/add.end").strip() != "0":
        assert node.name in said and "Traceback" not in said, said
        if known and not again:
            assert f"gnt-node add --readd {node.name}" in said, said
    _Add(stage, *["--readd"] * known, "--no-ssh-key-check", node.name)
    _CheckHealth(stage)


def _PlayInterrupted(stage: Teller[SiteMachines], cases: list[tuple[bool, str, str]]) -> None:
    # The name of a node that is removed would not be found when it is added again.
    _Init(stage, "--no-etc-hosts")
    *others, last = stage.cluster.nodes[1:]
    for node in others:
        _Add(stage, "--no-ssh-key-check", node.name)
    for again, line, what in cases:
        known = last.name in stage.Gnt("node", "list", "--no-headers", "-o", "name").split()
        if known and not again:
            stage.Gnt("node", "remove", last.name)
        if again and not known:
            _Add(stage, "--no-ssh-key-check", last.name)
        if known:
            stage.cluster.Replace(last)
        _Interrupted(stage, last, again, line, what)


def _Cases() -> list[tuple[bool, str, str]]:
    return [(again, line, what) for again in (False, True) for line in _LINES for what in _STRIKES]


@OnSite
def setup_a_machine_fails(stage: Teller[SiteMachines]) -> None:
    """A machine fails at a step of gnt-node add, and another time at one of --readd."""
    first, second = (stage.random.choice([case for case in _Cases() if case[0] is again]) for again in (False, True))
    _PlayInterrupted(stage, [first, second])


@OnSite
def setup_a_machine_fails_everywhere(stage: Teller[SiteMachines]) -> None:
    """A machine reboots, loses its network or has a full disk at each step of gnt-node add and --readd."""
    _PlayInterrupted(stage, _Cases()[stage.first - 1 :])
