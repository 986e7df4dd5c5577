"""A cluster of real daemons on this machine: one directory and one address of 127.0.0.0/8 per node.

::

    with RealCluster(3) as cluster:
        cluster.StartNodeDaemons()
        cluster[0].StartMaster()
        with cluster[0].Client() as client: ...

Every start returns when the daemon serves, as it says so itself; nothing here waits for a guessed time.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

from ganeti import constants, objects, ssconf, x509
from ganeti.daemon import memory
from ganeti.luxi import client as luxi_client
from support import allocator, configs, secrets
from support.patience import Deadline
from support.virtualnode import VirtualNode

START_TIMEOUT = 60
OS_DIR, ES_DIR, ALLOCATOR_DIR = "os", "extstorage", "allocators"
_FOLDERS = (
    "var/lib/ganeti/queue/archive",
    "var/lib/ganeti/rapi",
    "var/run/ganeti/ext",
    "var/run/ganeti/instance-disks",
    "srv/ganeti/export",
)
_OS_SCRIPTS = ("create", "import", "export", "rename", "verify")
_MAINS = {
    "ganeti-noded": "ganeti.server.noded",
    "ganeti-masterd": "ganeti.server.masterd",
    "ganeti-rapi": "ganeti.rapi.main",
    "ganeti-confd": "ganeti.server.confd",
}
_LOGS = {
    "ganeti-noded": "node-daemon",
    "ganeti-masterd": "master-daemon",
    "ganeti-rapi": "rapi-daemon",
    "ganeti-confd": "conf-daemon",
}
_PROGRAM_LOGS = ("watcher", "cleaner")
_TRACEBACK = "Traceback (most recent call last)"
RAPI_USERS = "reader secret-of-reader read\nwriter secret-of-writer write\nplain secret-of-plain\n"


def MakeConfig(
    names: Sequence[str], addresses: Sequence[str], master_ip: str, candidates: int, files: str = "/srv/nowhere"
) -> objects.Snapshot:
    """The first ``candidates`` nodes are master candidates; the first is master.  ``files``: where file disks live."""
    example = configs.Example()
    template = example.nodes[configs.NODE1]
    nodes = {}
    for number, (name, address) in enumerate(zip(names, addresses, strict=True)):
        uuid = configs.Uuid(100 + number)
        nodes[uuid] = template.Replace(
            uuid=uuid,
            name=name,
            primary_ip=address,
            secondary_ip=address,
            master_candidate=number < candidates,
            offline=False,
            drained=False,
            group=configs.GROUP,
        )
    templates = ["diskless", "file"]
    cluster = example.cluster.Replace(
        cluster_name="cluster.example.com",
        master_node=next(iter(nodes)),
        master_ip=master_ip,
        master_netdev="lo",
        master_netmask=32,
        enabled_hypervisors=["fake"],
        enabled_disk_templates=templates,
        ipolicy={**example.cluster.ipolicy, "disk-templates": templates},
        file_storage_dir=files,
        tcpudp_port_pool=[],
        volume_group_name=None,
        drbd_usermode_helper=None,
        osparams_private_cluster={"private-os": {"password": secrets.MARK + "of-every-cluster"}},
        candidate_pool_size=10,
    )
    root = example.Replace(cluster=cluster, nodes=nodes, instances={}, disks={}, networks={}, filters={}, serial_no=1)
    group = example.nodegroups[configs.GROUP].Replace(networks={})
    return root.WithObject(group)


class RealNode(VirtualNode):
    """One node and its daemons."""

    def __init__(self, base: str, name: str, address: str, uuid: str):
        super().__init__(base, name)
        self.address = address
        self.uuid = uuid
        for folder in _FOLDERS:
            os.makedirs(os.path.join(self.root, folder), exist_ok=True)
        # For daemon-util; nodes of other clusters on this machine listen at the same ports of other addresses.
        self.Write("/etc/default/ganeti", f'NODED_ARGS="-b {address} --no-mlock"\nRAPI_ARGS="-b {address}"\n')

    def Start(self, daemon: str, *options: str, check: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        """Starts a daemon in the background; returns when it serves, or has said why not."""
        if daemon == "ganeti-masterd":  # as daemon-util does
            more = {**memory.RETURNED, **more}
        # By its name: a process that is called otherwise is not the daemon, and gets no signal.
        program = self.Write(f"/programs/{daemon}", self.Program(daemon))
        done = self.Run([sys.executable, program, *options], timeout=START_TIMEOUT, **more)
        if check and done.returncode:
            raise AssertionError(
                f"{daemon} on {self.name}: exit code {done.returncode}\n{done.stderr}\n{self.Log(daemon)}"
            )
        return done

    def Program(self, daemon: str) -> str:
        """The daemon as a Python program, built for operating systems, providers and allocators in the cluster's own directory."""
        base = os.path.dirname(self.root)
        return (
            "import sys; from ganeti import pathutils\n"
            f"pathutils.OS_SEARCH_PATH = ({os.path.join(base, OS_DIR)!r},)\n"
            f"pathutils.ES_SEARCH_PATH = ({os.path.join(base, ES_DIR)!r},)\n"
            f"pathutils.IALLOCATOR_SEARCH_PATH = ({os.path.join(base, ALLOCATOR_DIR)!r},)\n"
            f"from {_MAINS[daemon]} import Main; sys.exit(Main())"
        )

    def StartNoded(self) -> None:
        self.Start("ganeti-noded", "-b", self.address, "--no-mlock")

    def StartConfd(self, *options: str) -> None:
        self.Start("ganeti-confd", "-b", self.address, *options)

    def StartMaster(self, *options: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.Start("ganeti-masterd", *options, check=check)

    def StartRapi(self, *options: str, users: str | None = RAPI_USERS) -> None:
        """Starts the REST daemon on this node's own address, at its usual port; ``users``: None leaves the file alone."""
        if users is not None:
            self.Write("/var/lib/ganeti/rapi/users", users, 0o640)
        self.Start("ganeti-rapi", "-b", self.address, *options)

    def Pid(self, daemon: str) -> int:
        """The daemon's pid, 0 if it does not run."""
        try:
            pid = int(self.Read(f"/var/run/ganeti/{daemon}.pid"))
            os.kill(pid, 0)
        except (OSError, ValueError):
            return 0
        return pid

    def Signal(self, daemon: str, number: int) -> int:
        pid = self.Pid(daemon)
        if pid:
            os.kill(pid, number)
        return pid

    def Kill(self, daemon: str) -> None:
        """As a crash; returns when the process is gone."""
        WaitGone(self.Signal(daemon, signal.SIGKILL))

    def Stop(self, daemon: str, timeout: float = 40) -> None:
        """Asks it to end; returns when it is gone."""
        WaitGone(self.Signal(daemon, signal.SIGTERM), timeout)

    def Log(self, daemon: str) -> str:
        name = _LOGS[daemon]
        try:
            return self.Read(f"/var/log/ganeti/{name}.log")[-20000:]
        except OSError:
            return "(no log)"

    def Client(self, socket: str = "ganeti-query", **options: Any) -> luxi_client.Client:
        path = self.Path(f"/var/run/ganeti/socket/{socket}")
        return luxi_client.Client(path, **{"connect_timeout": 10, "io_timeout": 60, "retry_delays": (), **options})


def WaitGone(pid: int, timeout: float = 20) -> None:
    """Returns when the process has ended."""
    if not pid:
        return
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        deadline = Deadline(timeout)
        while (left := deadline.Left()) > 0:
            if select.select([descriptor], [], [], left)[0]:
                return
        raise AssertionError(f"process {pid} did not end within {timeout} s")
    finally:
        os.close(descriptor)


class RealCluster:
    """Some nodes; by default all of them are master candidates."""

    node_class = RealNode

    def __init__(self, count: int, candidates: int | None = None):
        self._lease = allocator.Lease()
        self.more_secrets: list[str] = []
        """What must not leak either, such as a token that was made."""
        self.expect_tracebacks = False
        """Set where a test lets a daemon fail in a way that its log shows with a traceback."""
        # Paths of UNIX sockets are short.
        self.base = tempfile.mkdtemp(prefix="gnt-", dir="/tmp")
        names = [f"node{n + 1}.example.com" for n in range(count)]
        addresses = [self._lease.Address() for _ in names]
        voters = count if candidates is None else candidates
        self.files = os.path.join(self.base, "files")
        os.mkdir(self.files)
        self.config = MakeConfig(names, addresses, self._lease.Address(), voters, self.files)
        self.nodes = [
            self.node_class(self.base, node.name, node.primary_ip, node.uuid) for node in self.config.nodes.values()
        ]
        self._WriteFiles()

    def __getitem__(self, number: int) -> RealNode:
        return self.nodes[number]

    def __enter__(self) -> RealCluster:
        return self

    def __exit__(self, kind: object, *more: object) -> None:
        if kind is None:
            self.Close()
        else:
            self._End()  # what went wrong is known already

    def _WriteFiles(self) -> None:
        """What gnt-cluster init and gnt-node add would have written."""
        hosts = [f"{node.address} {node.name} {node.name.partition('.')[0]}\n" for node in self.nodes]
        hosts.append(f"{self.config.cluster.master_ip} {self.config.cluster.cluster_name} cluster\n")
        with open(os.path.join(self.base, "hosts"), "w", encoding="utf-8") as stream:
            stream.write("".join(hosts))
        server_pem = x509.MakeServerPem()
        clients = {node.uuid: x509.MakeClientPem(server_pem, node.name) for node in self.nodes}
        voters = [node.uuid for node in self.config.nodes.values() if node.master_candidate]
        certs = {uuid: x509.Digest(clients[uuid]) for uuid in voters}
        self.config = self.config.WithObject(self.config.cluster.Replace(candidate_certs=certs))
        secret = x509.NewSecret() + "\n"
        values = ssconf.Values(self.config)
        for node in self.nodes:
            data = "/var/lib/ganeti/"
            node.Write(data + "server.pem", server_pem, 0o440)
            node.Write(data + "client.pem", clients[node.uuid], 0o440)
            node.Write(data + "rapi.pem", server_pem, 0o440)
            node.Write(data + "hmac.key", secret, 0o440)
            node.Write(data + "cluster-domain-secret", secret, 0o640)
            node.Write(data + "known_hosts", "", 0o644)
            node.Write("/etc/ganeti/file-storage-paths", self.files + "\n")
            for key, value in values.items():
                node.Write(f"{data}ssconf_{key}", ssconf.FileText(key, value).decode(), 0o444)
        self.WriteConfig(self.config)

    def WriteConfig(self, config: objects.Snapshot) -> None:
        """Lets the master daemon start with this configuration the first time."""
        self.config = config
        self.nodes[0].Write("/var/lib/ganeti/config.data", objects.ConfigText(self.config), 0o640)

    def MakeOs(self, name: str) -> str:
        """An operating system whose scripts do nothing, on every node; its directory."""
        folder = os.path.join(self.base, OS_DIR, name)
        os.makedirs(folder)
        files = {"ganeti_api_version": "20\n", "variants.list": "default\n", "parameters.list": ""}
        for file_name, text in {**files, **dict.fromkeys(_OS_SCRIPTS, "#!/bin/sh\nexit 0\n")}.items():
            with open(os.path.join(folder, file_name), "w", encoding="utf-8") as stream:
                stream.write(text)
            os.chmod(os.path.join(folder, file_name), 0o755)
        return folder

    def MakeProvider(self, name: str, parameters: str, scripts: dict[str, str]) -> str:
        """A provider of external storage with these shell scripts, on every node; its directory."""
        folder = os.path.join(self.base, ES_DIR, name)
        os.makedirs(folder)
        for file_name, text in {"parameters.list": parameters, **scripts}.items():
            with open(os.path.join(folder, file_name), "w", encoding="utf-8") as stream:
                stream.write(text if file_name == "parameters.list" else f"#!/bin/sh\nset -e\n{text}\n")
            os.chmod(os.path.join(folder, file_name), 0o755)
        return folder

    def MakeStranger(self, name: str, *names: str) -> RealNode:
        """A machine that is in no cluster; all nodes can resolve its name, and further ``names`` of other addresses."""
        stranger = RealNode(self.base, name, self._lease.Address(), "")
        shutil.rmtree(stranger.Path("/var/lib/ganeti"))
        with open(os.path.join(self.base, "hosts"), "a", encoding="utf-8") as stream:
            stream.write(f"{stranger.address} {name}\n")
            stream.writelines(f"{self._lease.Address()} {other}\n" for other in names)
        return stranger

    def StartNodeDaemons(self) -> None:
        for node in self.nodes:
            node.StartNoded()

    def StartWithRapi(self, *options: str, name: str = "mini", users: str | None = RAPI_USERS) -> None:
        """Starts all of the cluster, with an operating system of this name and these options and users of ganeti-rapi."""
        self.MakeOs(name)
        self.StartNodeDaemons()
        self[0].StartMaster()
        self[0].StartRapi(*options, users=users)

    def Processes(self, node: RealNode | None = None) -> list[int]:
        """Every process of this cluster, or of one node: all carry the node's directory in their environment."""
        mark = f"GANETI_ROOTDIR={self.base}/".encode() if node is None else f"GANETI_ROOTDIR={node.root}\0".encode()
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):  # gone, or not ours
                if mark in _Environment(name) + b"\0":
                    found.append(int(name))
        return found

    def CutPower(self, node: RealNode) -> None:
        """Every process of a node is gone, those that serve a kept connection too, and those started meanwhile."""
        while pids := self.Processes(node):
            _KillAll(pids)

    @contextlib.contextmanager
    def Halted(self, node: RealNode, *but: int) -> Iterator[None]:
        """Let a node hang: each of its processes stands still, apart from ``but`` and what these start.

        A child that stands still before it has become a program would keep its parent, too.
        """
        halted: set[int] = set()
        try:
            while pids := {pid for pid in self.Processes(node) if not {pid, _Parent(pid)} & set(but)} - halted:
                halted |= pids
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGSTOP)
                WaitUntil(lambda pids=pids: all(_StandsStill(pid) for pid in pids), "they stand still")
            yield
        finally:
            for pid in halted:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def Leaks(self) -> list[str]:
        """Where secrets of this cluster can be read by whoever should not."""
        processes = self.Processes()
        return [line for node in self.nodes for line in secrets.Leaks(node, processes, self.more_secrets)]

    def Tracebacks(self) -> list[str]:
        """What daemons' logs have of errors that were not expected: each with the lines after it."""
        found = []
        for node in self.nodes:
            folder = node.Path("/var/log/ganeti")
            for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
                path = os.path.join(folder, name)
                if name.removesuffix(".log") not in (*_LOGS.values(), *_PROGRAM_LOGS) or not os.path.isfile(path):
                    continue
                with open(path, encoding="utf-8", errors="replace") as stream:
                    _, mark, rest = stream.read().partition(_TRACEBACK)
                if mark:
                    found.append(f"{node.name}, {name}: {mark}{rest[:4000]}")
        return found

    def Close(self) -> None:
        """Ends everything, at once; an assertion if a secret has leaked or a daemon had an error that nobody expected."""
        leaks = self.Leaks()
        tracebacks = [] if self.expect_tracebacks else self.Tracebacks()
        self._End()
        assert not tracebacks, "a daemon failed:\n" + "\n".join(tracebacks)
        assert not leaks, "secrets have leaked:\n" + "\n".join(leaks)

    def _End(self) -> None:
        while pids := self.Processes():
            _KillAll(pids)
        shutil.rmtree(self.base, ignore_errors=True)
        self._lease.Release()


def _Environment(pid: str) -> bytes:
    """Return the environment of a process; one that is about to become another program has none for a moment."""
    while True:
        texts = []
        for kind in ("cmdline", "environ"):
            with open(f"/proc/{pid}/{kind}", "rb") as stream:
                texts.append(stream.read())
        if any(texts):
            return texts[1]
        os.readlink(f"/proc/{pid}/exe")  # raises OSError for one of the kernel's own, or one that has ended


def _KillAll(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            WaitGone(pid)


def _Stat(pid: int) -> list[bytes]:
    """State, parent and the rest of what the system says of a process; of one that has ended, that it has."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            return stream.read().rpartition(b")")[2].split()
    except OSError:
        return [b"X", b"0"]


def _StandsStill(pid: int) -> bool:
    return _Stat(pid)[0] in (b"T", b"Z", b"X")


def _Parent(pid: int) -> int:
    return int(_Stat(pid)[1])


def WaitUntil(check: Any, what: str, timeout: float = 30) -> Any:
    """For what can only be asked for: looks often; the value that counts as true.

    A file that is not there counts as false: one that is written anew may be put aside before.
    """
    deadline = Deadline(timeout)
    while True:
        missing = ""
        try:
            value = check()
        except FileNotFoundError as err:
            value, missing = None, f": {err}"
        if value:
            return value
        assert not deadline.Passed(), f"{what} within {timeout} s{missing}"
        time.sleep(0.02)


def FollowJob(client: luxi_client.Client, job_id: int) -> tuple[str, list[Any]]:
    """Waits for a job as the command line does; its last status and its log."""
    info, serial, log = None, None, []
    while True:
        values, entries = client.WaitForJobChange(job_id, ["status"], info, serial)
        log += entries
        info, serial = values, max([e[0] for e in entries], default=serial)
        if values[0] in ("success", "error", "canceled") and not entries:
            return values[0], log


def InterruptDelay(client: luxi_client.Client, job_id: int) -> None:
    """End an interruptible delay.  It says where it can be interrupted a moment after it has begun."""

    def path() -> Any:
        [[[entries]]] = client.QueryJobs([job_id], ["oplog"])
        return next((text[0] for _, _, kind, text in entries if kind == constants.ELOG_DELAY_TEST), None)

    with socket.socket(socket.AF_UNIX) as end:
        end.connect(WaitUntil(path, "the delay waits"))


__all__ = ["FollowJob", "InterruptDelay", "MakeConfig", "RealCluster", "RealNode", "WaitGone", "WaitUntil"]
