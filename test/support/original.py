"""A cluster that the original runs: its files, and stand-ins of its programs with the same command lines.

The stand-ins do what ``adopt`` relies on: daemons that are processes with pid files, a master that reads config.data and
refuses another version or a file of another user, a queue that can be drained, lists of jobs and instances.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from ganeti import objects, upgrade
from support import configs
from support.realcluster import RealCluster, RealNode

DATA = "/var/lib/ganeti"
VERSION = "3.0.2"
# Folders outside DATA, where several daemons can make names.
ALSO_OWNED = ("/var/run/ganeti/socket", "/var/run/ganeti/livelocks", "/var/log/ganeti/master-cleaner")
_PROGRAMS = (
    *(f"sbin/{name}" for name in ("gnt-cluster", "gnt-job", "gnt-instance")),
    *(f"sbin/ganeti-{name}" for name in ("noded", "confd", "wconfd", "luxid", "rapi")),
    "lib/ganeti/daemon-util",
    "lib/ganeti/ensure-dirs",
)
# What every program of the stand-in is; settings stand before it.
_BODY = r"""
import json, os, signal, subprocess, sys, time
NAME, WORDS = os.path.basename(sys.argv[0]), sys.argv[1:]
ROOT, HOST = os.environ["GANETI_ROOTDIR"], os.environ["GANETI_HOSTNAME"]
SBIN = os.path.join(PREFIX, "sbin")
RUN, DATA = ROOT + "/var/run/ganeti", ROOT + "/var/lib/ganeti"
NODE, MASTER = ["ganeti-noded", "ganeti-confd"], ["ganeti-wconfd", "ganeti-luxid", "ganeti-rapi"]


def pid_of(name):
    try:
        pid = int(open(f"{RUN}/{name}.pid").read())
        return pid if name in open(f"/proc/{pid}/cmdline").read() else 0
    except (OSError, ValueError):
        return 0


def is_master():
    return open(DATA + "/ssconf_master_node").read().strip() == HOST


def config():
    return json.load(open(DATA + "/config.data"))


def note(text):
    with open(PREFIX + "/log", "a") as stream:
        stream.write(f"{time.time():.3f} {HOST} {text}\n")


def stop(names):
    pids = [pid_of(name) for name in names]
    for pid in filter(None, pids):
        os.kill(pid, signal.SIGTERM)
    while any(map(pid_of, names)):
        time.sleep(0.01)


def start(names):
    for name in names:
        if not pid_of(name):
            child = subprocess.Popen([sys.executable, "-IS", f"{SBIN}/{name}"], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                     text=True, start_new_session=True)
            if child.stdout.readline() != "ready\n":
                sys.exit(f"{name} did not start: {child.stdout.read()}")


def daemon():
    if NAME == "ganeti-wconfd":
        path = DATA + "/config.data"
        found = config()["version"]
        if found != CONFIG_VERSION or os.stat(path).st_uid != MASTERD_UID or os.path.exists(DATA + "/ext"):
            print(f"{path}: version {found}, owner {os.stat(path).st_uid}, ext {os.path.exists(DATA + '/ext')}")
            sys.exit(1)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    with open(f"{RUN}/{NAME}.pid", "w") as stream:
        stream.write(str(os.getpid()))
    print("ready", flush=True)
    os.close(1)
    while True:
        time.sleep(3600)


def daemon_util():
    note(" ".join(WORDS))
    if os.path.exists(f"{PREFIX}/fails-{WORDS[0]}-{HOST}"):
        sys.exit("told to fail")
    if WORDS == ["stop-all"]:
        stop((MASTER if is_master() else []) + NODE)
    elif WORDS == ["start-all"]:
        start(NODE + (MASTER if is_master() else []))
    else:
        sys.exit("unknown")


def needs_master():
    if not pid_of("ganeti-luxid"):
        sys.exit("Cannot communicate with the master daemon.")


def jobs():
    needs_master()
    rows = []
    for name in os.listdir(DATA + "/queue"):
        if name.startswith("job-"):
            job = json.load(open(f"{DATA}/queue/{name}"))
            states = [op["status"] for op in job["ops"]]
            rows.append(f"{job['id']}|{'success' if set(states) == {'success'} else states[-1]}")
    print("\n".join(rows))


def instances():
    needs_master()
    data = config()
    for item in data["instances"].values():
        up = os.path.exists(os.path.join(os.path.dirname(ROOT), data["nodes"][item["primary_node"]]["name"],
                                         "var/run/ganeti/fake-hypervisor", item["name"]))
        wanted = item["admin_state"] == "up"
        status = {(1, 1): "running", (1, 0): "ERROR_down", (0, 1): "ERROR_up", (0, 0): "ADMIN_down"}[wanted, up]
        print("|".join([item["name"], data["nodes"][item["primary_node"]]["name"], status]))


def cluster():
    needs_master()
    note(" ".join(WORDS))
    flag = DATA + "/queue/drain"
    if WORDS == ["queue", "drain"]:
        open(flag, "w").close()
    elif WORDS == ["queue", "undrain"]:
        os.path.exists(flag) and os.unlink(flag)
    else:
        sys.exit("unknown")


if WORDS == ["--version"]:
    print(f"{NAME} (ganeti) {VERSION}")
elif NAME == "ensure-dirs":
    note("ensure-dirs")
else:
    {"daemon-util": daemon_util, "gnt-cluster": cluster, "gnt-job": jobs, "gnt-instance": instances}.get(NAME, daemon)()
"""
SSH = r"""#!/bin/sh
# The last two words are user@host and the command.
for word; do host=$last; last=$word; done
[ -e "%s/unreachable-${host#*@}" ] && { echo "no route to host" >&2; exit 255; }
exec /bin/sh -c "$last"
"""


def WriteProgram(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.chmod(path, 0o755)


class OriginalCluster(RealCluster):
    """A cluster of release 3.0.2 with diskless instances, every other one of which runs.

    As root its files belong to ``uid``, which the stand-in's master demands.
    """

    def __init__(self, count: int, instances: int = 4):
        super().__init__(count)
        self.prefix = os.path.join(self.base, "original")
        self.uid = 104 if os.geteuid() == 0 else os.geteuid()
        self._MakePrograms()
        self._MakeFiles(instances)

    def _MakePrograms(self) -> None:
        settings = (
            f"PREFIX, VERSION, CONFIG_VERSION, MASTERD_UID = {self.prefix!r}, {VERSION!r}, {upgrade.V3_0}, {self.uid}\n"
        )
        for name in _PROGRAMS:
            WriteProgram(os.path.join(self.prefix, name), f"#!{sys.executable} -IS\n{settings}{_BODY}")
        WriteProgram(os.path.join(self.base, "bin", "ssh"), SSH % self.prefix)

    def _MakeFiles(self, count: int) -> None:
        example = configs.Example()
        pattern = example.instances[configs.WEB]
        nodes = list(self.config.nodes.values())
        config = self.config
        for number in range(count):
            instance = pattern.Replace(
                uuid=configs.Uuid(5000 + number), name=f"inst{number}.example.com", hypervisor="fake", hvparams={},
                primary_node=nodes[number % len(nodes)].uuid, disks=[], nics=[], osparams={}, os="mini",
                admin_state="up" if number % 2 == 0 else "down", tags=[],
            )  # fmt: skip
            config = config.WithObject(instance)
        self.config = config
        self.original_config = upgrade.DowngradeConfig(json.loads(objects.ConfigText(config)))
        for number, node in enumerate(self.nodes):
            self._MakeNode(node, number, count)

    def _MakeNode(self, node: RealNode, number: int, count: int) -> None:
        args = f'NODED_ARGS="-b {node.address} --no-mlock"\nRAPI_ARGS="-b {node.address}"\nCONFD_ARGS="-b {node.address}"\n'
        node.Write("/etc/default/ganeti", args)
        node.Write(
            "/etc/cron.d/ganeti", "*/5 * * * * root [ -x /usr/sbin/ganeti-watcher ] && /usr/sbin/ganeti-watcher\n"
        )
        node.Write(f"{DATA}/config.data", json.dumps(self.original_config), 0o640)
        node.Write(f"{DATA}/ssconf_release_version", VERSION + "\n", 0o444)
        node.Write(f"{DATA}/queue/serial", "0\n", 0o640)
        node.Write(f"{DATA}/queue/version", "1\n", 0o640)
        os.makedirs(node.Path("/var/run/ganeti/fake-hypervisor"), exist_ok=True)
        for index in range(number, count, len(self.nodes)):
            if index % 2 == 0:
                node.Write(f"/var/run/ganeti/fake-hypervisor/inst{index}.example.com", "0\n128\n1\n")
        for folder, _, files in os.walk(node.Path(DATA)):
            for path in (folder, *(os.path.join(folder, name) for name in files)):
                os.chown(path, self.uid, -1)
        for folder in ALSO_OWNED:
            os.makedirs(node.Path(folder), exist_ok=True)
            os.chown(node.Path(folder), self.uid, -1)

    def StartOriginal(self) -> None:
        for node in self.nodes:
            done = node.Run([os.path.join(self.prefix, "lib/ganeti/daemon-util"), "start-all"])
            assert done.returncode == 0, done.stdout + done.stderr

    def Adopt(self, *words: str, node: int = 0, timeout: float = 150) -> tuple[int, str]:
        """Run the program on a node, the master by default; exit code and output."""
        done = self[node].Run(self.Command(*words), timeout=timeout, PATH=self.Path())
        return done.returncode, done.stdout + done.stderr

    def Command(self, *words: str) -> list[str]:
        top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        return [f"{top}/daemons/tools/adopt", "--original", self.prefix, *words]

    def Path(self) -> str:
        return f"{self.base}/bin:{os.environ['PATH']}"

    def Begin(self, *words: str) -> subprocess.Popen[str]:
        """Start the program on the master; its output is to be read line by line."""
        return subprocess.Popen(
            self.Command(*words), env=self[0].Environment(PATH=self.Path(), PYTHONUNBUFFERED="1"), cwd=self[0].root,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def Notes(self) -> list[str]:
        """What the original's programs were told, in order: time, node, words."""
        try:
            with open(os.path.join(self.prefix, "log"), encoding="utf-8") as stream:
                return stream.read().splitlines()
        except FileNotFoundError:
            return []

    def Owners(self) -> dict[str, tuple[int, int, int]]:
        """Mode, user and group of everything in DATA, and of some folders beside it, of all nodes."""
        found = {}
        for node in self.nodes:
            for folder, _, files in os.walk(node.Path(DATA)):
                for path in (folder, *(os.path.join(folder, name) for name in files)):
                    info = os.lstat(path)
                    found[path] = (info.st_mode, info.st_uid, info.st_gid)
            for folder in ALSO_OWNED:
                info = os.lstat(node.Path(folder))
                found[node.Path(folder)] = (info.st_mode, info.st_uid, info.st_gid)
        return found

    def Guests(self) -> dict[str, tuple[int, int]]:
        """What would change if a guest were touched."""
        found = {}
        for node in self.nodes:
            for entry in os.scandir(node.Path("/var/run/ganeti/fake-hypervisor")):
                found[entry.name] = (entry.inode(), entry.stat().st_mtime_ns)
        return found

    def ConfigOf(self, number: int) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self[number].Read(f"{DATA}/config.data"))
        return data
