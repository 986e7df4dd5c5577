"""Every daemon as a user of its own, with real users and groups that users-setup made."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
from collections.abc import Iterator

import pytest
from support.ownusers import USERS, OwnUsersCluster, OwnUsersNode
from support.realcluster import WaitUntil

from ganeti import confd, runtime
from ganeti.confd import queries

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make users")

MASTERD, CONFD, RAPI, NODED = "ganeti-masterd", "ganeti-confd", "ganeti-rapi", "ganeti-noded"
OWNERS = {NODED: "root", MASTERD: "gnt-masterd", CONFD: "gnt-confd", RAPI: "gnt-rapi"}
DATA, RUN, LOG = "/var/lib/ganeti", "/var/run/ganeti", "/var/log/ganeti"
M, C, R, N = "gnt-masterd:gnt-masterd", "gnt-confd:gnt-masterd", "gnt-rapi:gnt-masterd", "root:root"
M_D, N_M, N_D = "gnt-masterd:gnt-daemons", "root:gnt-masterd", "root:gnt-daemons"

# What doc/reference/files.md says of each file (sections 2, 3, 5 and 6), with the differences that doc/compatibility.rst names;
# the first expression that matches counts.
WANTED = [
    (DATA, 0o755, M),
    (f"{DATA}/config.data", 0o640, "gnt-masterd:gnt-confd"),
    (f"{DATA}/ssconf_[a-z_-]+", 0o444, N),
    (f"{DATA}/(server|client).pem", 0o440, M),
    (f"{DATA}/rapi.pem", 0o440, R),
    (f"{DATA}/hmac.key", 0o440, C),
    (f"{DATA}/cluster-domain-secret", 0o640, M),
    (f"{DATA}/known_hosts", 0o644, M),
    (f"{DATA}/rapi", 0o750, R),
    (f"{DATA}/rapi/users", 0o640, R),
    (f"{DATA}/queue(/archive)?(/0)?", 0o750, M_D),
    (f"{DATA}/queue/lock", 0o600, M_D),
    (f"{DATA}/queue/(archive/0/)?(serial|version|job-[0-9]+)", 0o640, M_D),
    (f"{DATA}/watcher[.][0-9a-f-]+[.](data|instance-status)", None, N),
    (f"{DATA}/ext", 0o750, M),
    (f"{DATA}/ext/store.db(-wal|-shm)?", 0o640, M),
    (f"{DATA}/ext/export.lock", 0o660, M),
    (RUN, 0o1775, M_D),
    (f"{RUN}/ganeti-noded.pid", 0o600, N),
    (f"{RUN}/ganeti-(masterd|confd|rapi).pid", 0o600, None),
    (f"{RUN}/socket", 0o1770, M_D),
    (f"{RUN}/socket/ganeti-(master|query)", 0o660, M_D),
    (f"{RUN}/(bdev-cache|instance-disks|import-export)", 0o755, N_M),
    (f"{RUN}/crypto", 0o700, N_M),
    (f"{RUN}/uid-pool", 0o750, N_M),
    (f"{RUN}/instance-reason", 0o755, N),
    (f"{RUN}/(livelocks|luxidmessages)", 0o750, M_D),
    (f"{RUN}/instance-status", 0o644, N),
    (f"{RUN}/ext", 0o770, N_M),
    (f"{RUN}/ext/(calls|master).lock", None, M),
    (f"{RUN}/ext/.*", None, N),
    (f"{RUN}/(kvm|xen|chroot|fake)-hypervisor.*|{RUN}/lxc|{RUN}/gluster|{RUN}/instance-reason/.*", None, N),
    (f"{RUN}/bdev-cache/.*|{RUN}/instance-disks/.*", None, N),
    (LOG, 0o1770, M_D),
    # The group is corrected when the next daemon starts.
    (f"{LOG}/node-daemon.log", 0o600, "root:(root|gnt-masterd)"),
    (f"{LOG}/master-daemon.log", 0o600, M),
    (f"{LOG}/conf-daemon.log", 0o600, "gnt-confd:gnt-(confd|masterd)"),
    (f"{LOG}/rapi-(daemon|access).log", 0o600, "gnt-rapi:gnt-(rapi|masterd)"),
    (f"{LOG}/(os|xen|kvm|extstorage)", 0o750, N_D),
    (f"{LOG}/cleaner", 0o750, N),
    (f"{LOG}/master-cleaner", 0o750, M),
    (f"{LOG}/master-cleaner/.*", None, M),
    (f"{LOG}/.*", None, N),
]


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[OwnUsersCluster]:
    with OwnUsersCluster(request.param) as made:
        made.MakeOs("mini")
        yield made


def Nodes(count: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("cluster", [count], indirect=True)


def Said(node: OwnUsersNode, *argv: str, user: str = "root", timeout: float = 50) -> str:
    """What a command prints; it must succeed."""
    done = node.RunAs(user, argv, timeout=timeout)
    assert done.returncode == 0, f"{argv}: {done.stdout}\n{done.stderr}\n{node.Log(MASTERD)}"
    return done.stdout


def StartAll(cluster: OwnUsersCluster) -> None:
    cluster.StartNodeDaemons()
    for daemon in (MASTERD, CONFD, RAPI):
        cluster[0].Start(daemon)


def AskConfd(node: OwnUsersNode) -> int:
    """Which role this node has, as its confd says."""
    key = node.Read(f"{DATA}/hmac.key").encode()
    reply = confd.Ask(queries.NODE_ROLE, node.name, [node.address], key=key).reply
    assert reply is not None and reply.status == queries.OK
    return int(reply.answer)


def AskRapi(node: OwnUsersNode, path: str, *options: str) -> object:
    argv = ["curl", "-sk", "--max-time", "30", "-u", "writer:secret-of-writer", *options]
    return json.loads(Said(node, *argv, f"https://{node.address}:5080{path}"))


def InPlace(*nodes: OwnUsersNode) -> None:
    """Every file of these nodes is as it should be, once those that are being written have their names."""
    found: list[str] = []

    def misplaced() -> list[str]:
        found[:] = [line for node in nodes for line in Misplaced(node)]
        return found

    try:
        WaitUntil(lambda: not misplaced(), "all files are in place", 10)
    except AssertionError:
        assert "\n".join(found) == ""


def Unfinished(node: OwnUsersNode) -> list[str]:
    """The files that a node was writing when its power failed."""
    return [path for path in Everything(node) if runtime.UnfinishedName(os.path.basename(path)) is not None]


def CleanUnfinished(node: OwnUsersNode) -> None:
    """A node without power may have been writing; a day later its cleaner, run as root and as masterd's user, removes that."""
    for name in ("config.data", "queue/job-7"):
        node.Write(f"{DATA}/{os.path.dirname(name)}/.{os.path.basename(name)}.new-0123456789ab", "half")
    unfinished = Unfinished(node)
    assert len(unfinished) >= 2
    for path in unfinished:
        os.utime(path, (1, 1))
    Said(node, "ganeti-cleaner", "node")
    Said(node, "ganeti-cleaner", "master", user="gnt-masterd")
    assert not [path for path in unfinished if os.path.exists(path)]


def Misplaced(node: OwnUsersNode) -> list[str]:
    """The files of a node whose owner or mode is not as it should be; raises FileNotFoundError if one goes meanwhile."""
    found = []
    for full in Everything(node):
        path = full.removeprefix(node.root)
        mode, owner = stat.S_IMODE(os.lstat(full).st_mode), node.namespace.Names(full)
        wanted = next((rule[1:] for rule in WANTED if re.fullmatch(rule[0], path)), (0, "unknown"))
        if wanted[0] not in (None, mode) or not re.fullmatch(wanted[1] or ".*", owner):
            found.append(f"{path}: {mode:04o} {owner}, not {wanted}")
    return found


def Everything(node: OwnUsersNode) -> Iterator[str]:
    for top in (DATA, RUN, LOG):
        for folder, _, names in os.walk(node.Path(top)):
            yield from (folder, *(os.path.join(folder, name) for name in names))


# --- users-setup --------------------------------------------------------------------------------------------------------


def test_users_setup_makes_what_is_missing_and_asks_before() -> None:
    with OwnUsersCluster(1, setup=False) as cluster:
        node = cluster[0]
        started = node.Start(NODED, check=False)
        assert started.returncode == 1 and "users-setup'" in started.stderr
        refused = node.Run(["users-setup"], stdin="n\n")
        assert refused.returncode == 0 and refused.stdout.endswith("\n\nOK? (y/n) ")
        plan = [line for line in refused.stdout.splitlines() if line.startswith("+ ")]
        assert plan[:2] == ["+ Will add group gnt-admin", "+ Will add group gnt-confd"]
        assert "+ Will add user gnt-rapi with primary group gnt-rapi" in plan
        assert "+ Will add user gnt-masterd to group gnt-confd" in plan
        assert len(plan) == 7 + 4 + 7
        assert node.Run(["getent", "group", "gnt-admin"]).returncode == 2
        # What somebody has made already stays as it is.
        Said(node, "groupadd", "gnt-rapi")
        agreed = node.Run(["users-setup"], stdin="y\n")
        assert agreed.returncode == 0, agreed.stderr
        assert agreed.stdout.count("+ Will add group") == 6
        groups = {
            name: set(Said(node, "id", "-nG", name).split()) for name in {*USERS.values()} if name in OWNERS.values()
        }
        assert groups == {
            "gnt-masterd": {"gnt-masterd", "gnt-admin", "gnt-confd", "gnt-daemons"},
            "gnt-confd": {"gnt-confd", "gnt-daemons"},
            "gnt-rapi": {"gnt-rapi", "gnt-admin", "gnt-daemons"},
        }
        assert "nothing is to be done" in Said(node, "users-setup", "--yes-do-it")
        for words in (["--force"], ["--yes-do-it", "now"]):
            assert node.Run(["users-setup", *words]).returncode == 1
        stranger = node.RunAs("nobody", ["users-setup", "--yes-do-it"])
        assert (stranger.returncode, "nothing is to be done" in stranger.stdout) == (0, True)
        Said(node, "gpasswd", "-d", "gnt-rapi", "gnt-daemons")
        stranger = node.RunAs("nobody", ["users-setup", "--yes-do-it"])
        assert stranger.returncode == 1 and "user gnt-rapi could not be added to group gnt-daemons" in stranger.stderr
        node.StartNoded()


# --- life ---------------------------------------------------------------------------------------------------------------


@Nodes(3)
@pytest.mark.req("D22-PRIV-01", "D22-PRIV-03", "D22-PRIV-06")
@pytest.mark.limit(240)
def test_a_cluster_lives_without_the_rights_of_root(cluster: OwnUsersCluster) -> None:
    StartAll(cluster)
    first, second, third = cluster.nodes
    for daemon, user in OWNERS.items():
        status = first.Status(daemon)
        uid, gid = first.namespace.Ids(user)
        assert status["Uid"].split() == [str(uid)] * 4 and status["Gid"].split() == [str(gid)] * 4
        assert user == "root" or (int(status["CapPrm"], 16), int(status["CapEff"], 16)) == (0, 0)
    # Jobs with disks and scripts, on other nodes too.
    new = [
        "gnt-instance",
        "add",
        "-t",
        "file",
        "--disk=0:size=4m",
        "-o",
        "mini+default",
        "--ignore-ipolicy",
        "-B",
        "memory=16",
    ]
    for name, node in (("web1", second), ("web2", first)):
        Said(first, *new, "-n", node.name, "--no-nics", f"{name}.example.com")
    Said(first, "gnt-instance", "reboot", "--force-multiple", "--all")
    Said(first, "gnt-job", "archive", "1")
    # The REST interface reads and changes; confd answers.
    info = AskRapi(first, "/2/info")
    assert isinstance(info, dict) and info["master"] == first.name
    job_id = AskRapi(first, "/2/instances/web1.example.com/tags?tag=mine", "-X", "PUT")
    Said(first, "gnt-job", "wait", str(job_id))
    assert Said(first, "gnt-instance", "list-tags", "web1.example.com") == "mine\n"
    assert AskConfd(first) == queries.ROLE_MASTER
    # Root's and masterd's programs that a timer starts.
    Said(first, "ganeti-watcher")
    Said(first, "ganeti-cleaner", "node")
    Said(first, "ganeti-cleaner", "master", user="gnt-masterd")
    InPlace(first, second)
    # The next master, asked for; then one after a crash.
    Said(second, "gnt-cluster", "master-failover", timeout=100)
    for node in (second, third):
        if node is third:
            cluster.CutPower(second)
            CleanUnfinished(second)
            Said(third, "gnt-cluster", "master-failover", timeout=100)
            second.StartNoded()
        uid = str(node.namespace.Ids("gnt-masterd")[0])
        assert node.Status(MASTERD)["Uid"].split() == [uid] * 4
        assert AskRapi(node, "/2/instances/web2.example.com/info?static=1")
        Said(node, "gnt-instance", "reboot", "web2.example.com")
    WaitUntil(lambda: second.Read(f"{DATA}/config.data") == third.Read(f"{DATA}/config.data"), "the files are equal")
    for node in cluster.nodes:
        Said(node, "ensure-dirs", "--full-run")
        InPlace(node)


@Nodes(2)
@pytest.mark.req("D22-PRIV-01")
@pytest.mark.limit(240)
def test_daemons_change_their_users_whatever_was_left(cluster: OwnUsersCluster) -> None:
    """From a release whose daemons are all root's to one with users; the old ones could not clean up."""
    by_root, by_users = cluster.Install("root"), cluster.programs
    for programs in (by_root, by_users):
        for node in cluster.nodes:
            node.programs = programs
        StartAll(cluster)
        for daemon, user in OWNERS.items():
            wanted = user if programs == by_users else "root"
            assert cluster[0].Status(daemon)["Uid"].split()[0] == str(cluster[0].namespace.Ids(wanted)[0])
        nodes = [word for node in cluster.nodes for word in ("-n", node.name)]
        Said(cluster[0], "gnt-debug", "delay", *nodes, "0.01")
        assert AskConfd(cluster[0]) == queries.ROLE_MASTER
        if programs == by_users:
            InPlace(*cluster.nodes)
        for node in cluster.nodes:
            cluster.CutPower(node)
            # As its cleaner would do, a day later.
            for path in Unfinished(node):
                os.unlink(path)
        assert all(os.path.exists(cluster[0].Path(f"{RUN}/{daemon}.pid")) for daemon in OWNERS)


@Nodes(2)
@pytest.mark.limit(240)
def test_root_takes_over_what_users_of_their_own_have_left(cluster: OwnUsersCluster) -> None:
    """To a release whose daemons are all root's, as doc/security.rst says; nothing needs the users then."""
    by_root = cluster.Install("root")
    StartAll(cluster)
    nodes = [word for node in cluster.nodes for word in ("-n", node.name)]
    Said(cluster[0], "gnt-debug", "delay", *nodes, "0.01")
    Said(cluster[0], "gnt-job", "archive", "1")
    users = [user for user in OWNERS.values() if user != "root"]
    for node in reversed(cluster.nodes):
        Said(node, "daemon-util", "stop-all")
        node.programs = by_root
        refused = node.Start(NODED, check=False)
        assert refused.returncode == 1 and "belongs to user gnt-masterd" in refused.stderr
        Said(node, "ensure-dirs", "--full-run", *(f"--former-user={user}" for user in users))
        left = [path for path in Everything(node) if os.lstat(path).st_uid != 0]
        assert left == []
    for user in users:
        Said(cluster[0], "userdel", user)
    StartAll(cluster)
    for daemon in OWNERS:
        assert cluster[0].Status(daemon)["Uid"].split() == ["0"] * 4
    Said(cluster[0], "gnt-debug", "delay", *nodes, "0.01")
    assert AskConfd(cluster[0]) == queries.ROLE_MASTER
    assert AskRapi(cluster[0], "/2/info")


# --- LUXI ---------------------------------------------------------------------------------------------------------------

_POSE = """
import socket, sys, time
sock = socket.socket(socket.AF_UNIX)
sock.bind(sys.argv[1])
sock.listen(5)
open(sys.argv[1] + ".up", "w").close()
while True:
    client, _ = sock.accept()
    print(client.recv(100) or b"nothing", flush=True)
"""


@Nodes(1)
@pytest.mark.req("D22-PRIV-04", "D22-PRIV-07")
def test_whoever_is_in_the_group_may_ask_the_master_daemon(cluster: OwnUsersCluster) -> None:
    node = cluster[0]
    # Nothing after the master daemon: every further start runs ensure-dirs, which would correct its sockets.
    cluster.StartNodeDaemons()
    node.Start(MASTERD)
    Said(node, "useradd", "--system", "--groups=gnt-daemons", "clerk")
    for user in ("clerk", "gnt-rapi", "gnt-masterd", "root"):
        assert Said(node, "gnt-node", "list", "--no-headers", "-o", "name", user=user).splitlines() == [
            each.name for each in cluster.nodes
        ]
    Said(node, "gnt-debug", "delay", "0.01", user="clerk")
    Said(node, "useradd", "--system", "--groups=gnt-admin,gnt-masterd,gnt-confd", "stranger")
    for user in ("nobody", "stranger"):
        refused = node.RunAs(user, ["gnt-node", "list"])
        assert refused.returncode == 1 and "use an account of the group that owns the socket" in refused.stderr
    # The REST daemon has no other way in, and says so.
    node.Start(RAPI)
    os.chown(node.Path(f"{RUN}/socket/ganeti-query"), -1, 0)
    answer = AskRapi(node, "/2/info")
    assert isinstance(answer, dict) and answer["code"] == 502 and "may not open" in answer["message"]
    Said(node, "ensure-dirs")
    answer = AskRapi(node, "/2/info")
    assert isinstance(answer, dict) and answer["master"] == node.name


@Nodes(2)
def test_nobody_poses_as_the_master_daemon(cluster: OwnUsersCluster) -> None:
    """A daemon's user can make a socket where none is, and a command of root's would do what it says."""
    StartAll(cluster)
    second = cluster[1]
    path = second.Path(f"{RUN}/socket/ganeti-query")
    argv = second.namespace.Command(second.namespace.As("gnt-confd", ["python3", "-c", _POSE, path]))
    with subprocess.Popen(argv, env=second.Environment(), stdout=subprocess.PIPE, text=True) as poser:
        try:
            WaitUntil(lambda: os.path.exists(path + ".up"), "it listens")
            for words in (["gnt-node", "list"], ["gnt-instance", "console", "web1"]):
                refused = second.Run(words)
                assert refused.returncode == 1 and "poses as the master daemon" in refused.stderr
            # A real one takes its place, and it cannot take that one's.
            Said(second, "gnt-cluster", "master-failover", timeout=100)
            assert AskRapi(second, "/2/info")
            for user in ("gnt-confd", "gnt-rapi"):
                for command in (["rm", "-f", path], ["mv", path, path + "2"], ["ln", "-sf", "/etc/passwd", path]):
                    assert "Operation not permitted" in second.RunAs(user, command).stderr
            Said(second, "gnt-node", "list")
        finally:
            poser.kill()
            assert set(poser.communicate()[0].splitlines()) == {"b'nothing'"}


# --- links --------------------------------------------------------------------------------------------------------------


class Treasure:
    """A file and a directory of root's that nobody else may change."""

    def __init__(self, cluster: OwnUsersCluster):
        self.file, self.folder = (os.path.join(cluster.base, name) for name in ("treasure", "vault"))
        with open(self.file, "w", encoding="utf-8") as stream:
            stream.write("gold")
        os.chmod(self.file, 0o600)
        os.mkdir(self.folder, 0o755)

    def Check(self) -> None:
        with open(self.file, encoding="utf-8") as stream:
            assert stream.read() == "gold"
        for path, mode in ((self.file, 0o600), (self.folder, 0o755)):
            info = os.stat(path)
            assert (stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid) == (mode, 0, 0)
        assert os.listdir(self.folder) == []


@Nodes(1)
@pytest.mark.limit(180)
def test_root_follows_no_link_of_the_remote_interface(cluster: OwnUsersCluster) -> None:
    """The users of RAPI and confd may make names in RUN, LOG and the directory of sockets, before root's files are there."""
    node = cluster[0]
    treasure = Treasure(cluster)
    Said(node, "ensure-dirs")
    pids = [f"{RUN}/{daemon}.pid" for daemon in (NODED, MASTERD)]
    sockets = [f"{RUN}/socket/ganeti-{name}" for name in ("master", "query")]
    logs = [f"{LOG}/{name}.log" for name in ("node-daemon", "master-daemon", "watcher", "commands")]
    for name in [*pids, *sockets, *(name + "~" for name in sockets), *logs, f"{RUN}/instance-status"]:
        Said(node, "ln", "-s", treasure.file, node.Path(name), user="gnt-rapi")
    for name in (NODED, MASTERD):
        refused = node.Start(name, check=False)
        assert refused.returncode == 1 and "node-daemon.log is not a file; move it away" in refused.stderr
    watcher = node.Run(["ganeti-watcher"])
    assert watcher.returncode == 1 and "watcher.log cannot be written" in watcher.stderr
    assert Said(node, "gnt-cluster", "getmaster") == f"{node.name}\n"
    treasure.Check()
    for name in (*logs, *sockets):
        os.unlink(node.Path(name))
    # What else is in the way is replaced, and what it led to is not touched.
    StartAll(cluster)
    for words in (["gnt-debug", "delay", "0.01"], ["ganeti-watcher"], ["daemon-util", "rotate-all-logs"]):
        Said(node, *words)
        treasure.Check()
    InPlace(node)
    # Now that root's files are there, they stay.
    for name in (*pids, *logs, f"{RUN}/instance-status", f"{RUN}/ext"):
        for command in (["rm", "-rf"], ["mv", "-T", f"{node.root}{RUN}/mine"], ["ln", "-sfT", treasure.file]):
            assert (
                node.RunAs("gnt-confd", [*command, node.Path(name)]).returncode == 1
                or name == f"{RUN}/ganeti-confd.pid"
            )
    for daemon in (RAPI, CONFD, MASTERD, NODED):
        Said(node, "daemon-util", "stop", daemon)
    treasure.Check()


@Nodes(2)
@pytest.mark.limit(180)
def test_root_follows_no_link_of_the_master_daemon(cluster: OwnUsersCluster) -> None:
    """Its user owns DATA, where root's node daemon writes what the master sends."""
    StartAll(cluster)
    node = cluster[1]
    treasure = Treasure(cluster)
    for name in ("config.data", "hmac.key", "rapi.pem", "known_hosts", "ssconf_node_list"):
        Said(node, "ln", "-sf", treasure.file, node.Path(f"{DATA}/{name}"), user="gnt-masterd")
    # The node daemon may make a folder anew between the two steps; then that one is put aside as well.
    exchange = 'mv -T "$1" "$1.moved"; until ln -sT "$2" "$1"; do mv -T "$1" "$(mktemp -u "$1.XXXX")"; done'
    for name in ("queue", "rapi"):
        words = ("sh", "-c", exchange, "sh", node.Path(f"{DATA}/{name}"), treasure.folder)
        Said(node, *words, user="gnt-masterd")
    Said(cluster[0], "gnt-debug", "delay", "0.01")
    done = cluster[0].Run(["gnt-cluster", "redist-conf"])
    assert f"{DATA}/rapi is not a directory; move it away" in done.stdout
    WaitUntil(lambda: f"{DATA}/queue is not a directory; move it away" in node.Log(NODED), "it is reported")
    treasure.Check()
    refused = node.Run(["ensure-dirs"])
    assert refused.returncode == 1 and f"{DATA}/queue is not a directory" in refused.stderr
    assert node.Start(CONFD, check=False).returncode == 1
    treasure.Check()
    # Between the two steps its node daemon would make a folder anew.
    with cluster.Halted(node):
        for name in ("queue", "rapi"):
            os.unlink(node.Path(f"{DATA}/{name}"))
            os.rename(node.Path(f"{DATA}/{name}.moved"), node.Path(f"{DATA}/{name}"))
    os.unlink(node.Path(f"{DATA}/ssconf_node_list"))
    # What the master sends to all nodes was written anew, as files.
    Said(cluster[0], "gnt-cluster", "redist-conf")
    WaitUntil(lambda: node.Read(f"{DATA}/config.data") == cluster[0].Read(f"{DATA}/config.data"), "it goes on")
    Said(node, "ensure-dirs")
    treasure.Check()
