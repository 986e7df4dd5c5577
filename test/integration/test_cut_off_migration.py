"""Migrations of real guests that are cut off in the middle, and QEMU processes that hang (doc/design-migration.rst)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support import allocator, lab
from support.commandline import CommandLine, Done
from support.realcluster import FollowJob, RealCluster, RealNode, WaitGone, WaitUntil

from ganeti import runtime
from ganeti.hypervisor.kvm import qmp

pytestmark = pytest.mark.lab

GUEST = "web.example.com"
MASTERD, NODED = "ganeti-masterd", "ganeti-noded"
_SLOW, _FAST = 1, 1000  # MiB/s
_MIB = 1 << 20
# A machine that boots and moves in software emulation beside other work takes its time.
_PATIENCE = 180.0
# A node waits 5 s for QEMU; the rest is the way of a call and of a command.
_LOOK_LIMIT = 20.0


class GuestCluster(RealCluster):
    """Two nodes that share a directory, the master on a third, and one KVM guest on the first."""

    def __init__(self) -> None:
        self._ports = allocator.Lease()
        super().__init__(3)
        self.first, self.second, self.master = self.nodes[1], self.nodes[2], self.nodes[0]
        self.StartNodeDaemons()
        self.master.StartMaster()
        self._line: CommandLine | None = CommandLine(self.master)
        self.Create()

    def _WriteFiles(self) -> None:
        cluster = self.config.cluster
        hvparams = lab.TcgParams(migration_port=self._ports.Port(), migration_bandwidth=_SLOW, migration_downtime=300)
        templates = ["sharedfile"]
        self.config = self.config.WithObject(
            cluster.Replace(
                enabled_hypervisors=["kvm"],
                hvparams={**cluster.hvparams, "kvm": hvparams},
                enabled_disk_templates=templates,
                shared_file_storage_dir=self.files,
                ipolicy={**cluster.ipolicy, "disk-templates": templates},
            )
        )
        super()._WriteFiles()

    def Close(self) -> None:
        if self._line is not None:
            self._line.Close()
        super().Close()
        self._ports.Release()

    # --- what the administrator does --------------------------------------------------------------------------------------

    def Create(self) -> None:
        made = self.Do(
            "gnt-instance", "add", "-t", "sharedfile", "--disk", "0:size=64m", "-B", "minmem=128,maxmem=128,vcpus=1",
            "-n", self.first.name, "--no-install", "--no-nics", "--no-ip-check", "--no-name-check", "--ignore-ipolicy",
            GUEST,
        )  # fmt: skip
        started = self.Do("gnt-instance", "startup", GUEST)
        assert (made.code, started.code) == (0, 0), made.err + started.err

    def Do(self, *argv: str) -> Done:
        assert self._line is not None
        return self._line.Run(*argv)

    def Cleanup(self) -> None:
        done = self.Do("gnt-instance", "migrate", "--cleanup", "-f", GUEST)
        assert done.code == 0, done.err + done.out

    def List(self) -> tuple[str, str]:
        """Return the instance's primary node and status."""
        done = self.Do("gnt-instance", "list", "--no-headers", "--separator=|", "-o", "pnode,status", GUEST)
        assert done.code == 0, done.err
        node, status = done.out.strip().split("|")
        return node, status

    def Complaints(self) -> list[str]:
        """Return what a verification says against the guest, apart from the group's policy and from QEMU's user."""
        done = self.Do("gnt-cluster", "verify")
        said = [line for line in (done.out + done.err).splitlines() if GUEST in line]
        return [line for line in said if "not in range" not in line and "QEMU runs as root" not in line]

    def BeginMigration(self) -> int:
        """Start to migrate the guest to the second node; return the job when the first bytes are on their way."""
        with self.master.Client("ganeti-master") as client:
            op = {"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": GUEST, "target_node": self.second.name, "reason": []}
            job_id: int = client.SubmitJob([op])
        WaitUntil(lambda: Sent(self.first) > 0, "the guest is on its way", _PATIENCE)
        return job_id

    def EndJob(self, job_id: int) -> str:
        with self.master.Client() as client:
            return FollowJob(client, job_id)[0]

    # --- what can be seen ---------------------------------------------------------------------------------------------

    def CheckOnlyOn(self, node: RealNode, before: lab.Sign) -> None:
        """One process, on the primary node, holds the disk, and its guest is the one that ran before."""
        assert self.List() == (node.name, "running")
        found = WaitUntil(lambda: len(users := self.DiskUsers()) == 1 and users, "one process has the disk", _PATIENCE)
        assert found == [QemuPid(node)]
        other = self.first if node is self.second else self.second
        assert not QemuPid(other)
        assert not os.path.islink(other.Path(f"/var/run/ganeti/instance-disks/{GUEST}:0"))
        after = Ask(node)
        assert after.boot_id == before.boot_id and after.uptime > before.uptime

    def DiskUsers(self) -> list[int]:
        """Return the processes of this cluster that have the guest's disk open."""
        return [pid for pid in self.Processes() if any(path.startswith(self.files) for path in _OpenFiles(pid))]


def _OpenFiles(pid: int) -> Iterator[str]:
    try:
        for entry in os.scandir(f"/proc/{pid}/fd"):
            yield os.readlink(entry.path)
    except OSError:
        return  # it has ended


def QemuPid(node: RealNode) -> int:
    """Return the guest's process on this node, 0 if there is none."""
    try:
        pid = int(node.Read(f"/var/run/ganeti/kvm-hypervisor/pid/{GUEST}"))
    except (OSError, ValueError):
        return 0
    return pid if runtime.ProcessAlive(pid) else 0


def _Socket(node: RealNode, kind: str) -> str:
    return node.Path(f"/var/run/ganeti/kvm-hypervisor/ctrl/{GUEST}.{kind}")


def Look(node: RealNode) -> dict[str, Any]:
    """Return what QEMU says: {question: answer}."""
    return qmp.AskMany({GUEST: _Socket(node, "look")}, ("query-status", "query-migrate"), 30.0)[GUEST] or {}


def Sent(node: RealNode) -> int:
    """Return how many bytes the source has sent."""
    return int(((Look(node).get("query-migrate") or {}).get("ram") or {}).get("transferred", 0))


def State(node: RealNode) -> str:
    return str((Look(node).get("query-status") or {}).get("status"))


def SetSpeed(node: RealNode, mib: int) -> None:
    with qmp.Monitor(_Socket(node, "look"), 30.0) as monitor:
        monitor.Execute("migrate-set-parameters", {"max-bandwidth": mib * _MIB})


def Ask(node: RealNode) -> lab.Sign:
    with lab.Console(_Socket(node, "serial")) as console:
        return console.Ask(_PATIENCE)


@pytest.fixture
def cluster() -> Iterator[GuestCluster]:
    with GuestCluster() as made:
        yield made


def test_master_dies_and_the_guest_arrives_meanwhile(cluster: GuestCluster) -> None:
    """The source is ``postmigrate``, the target runs, the configuration names the source."""
    before = Ask(cluster.first)
    cluster.BeginMigration()
    cluster.master.Kill(MASTERD)
    SetSpeed(cluster.first, _FAST)
    WaitUntil(lambda: State(cluster.second) == "running", "the guest arrives", _PATIENCE)
    # The target may begin before the source knows that all has been sent.
    WaitUntil(lambda: State(cluster.first) == "postmigrate", "the source has nothing left to send", _PATIENCE)
    cluster.master.StartMaster()
    assert cluster.List() == (cluster.first.name, "ERROR_wrongnode")
    for command in (["startup"], ["reboot"], ["shutdown", "--timeout=0"], ["failover", "-f", "-n", cluster.first.name]):
        done = cluster.Do("gnt-instance", *command, GUEST)
        assert done.code == 1, command
        assert State(cluster.second) == "running", f"{command} leaves the guest alone"
    assert f"gnt-instance migrate --cleanup {GUEST}" in cluster.Do("gnt-instance", "startup", GUEST).err
    cluster.Cleanup()
    cluster.CheckOnlyOn(cluster.second, before)
    assert cluster.Complaints() == []


def test_master_dies_and_the_transfer_is_ended(cluster: GuestCluster) -> None:
    before = Ask(cluster.first)
    cluster.BeginMigration()
    cluster.master.Kill(MASTERD)
    cluster.master.StartMaster()
    assert cluster.List() == (cluster.first.name, "running")
    assert cluster.Do("gnt-instance", "startup", GUEST).code == 1
    cluster.Cleanup()
    cluster.CheckOnlyOn(cluster.first, before)


def test_target_is_killed(cluster: GuestCluster) -> None:
    before = Ask(cluster.first)
    job_id = cluster.BeginMigration()
    target = QemuPid(cluster.second)
    os.kill(target, signal.SIGKILL)
    WaitGone(target)
    assert cluster.EndJob(job_id) == "error"
    cluster.CheckOnlyOn(cluster.first, before)
    cluster.Cleanup()
    cluster.CheckOnlyOn(cluster.first, before)


def test_node_daemon_of_the_source_is_killed(cluster: GuestCluster) -> None:
    """A status that does not come is asked for again: the migration succeeds when the daemon is back."""
    before = Ask(cluster.first)
    job_id = cluster.BeginMigration()
    cluster.first.Kill(NODED)
    SetSpeed(cluster.first, _FAST)
    WaitUntil(lambda: State(cluster.second) == "running", "the guest arrives", _PATIENCE)
    cluster.first.StartNoded()
    assert cluster.EndJob(job_id) == "success"
    cluster.CheckOnlyOn(cluster.second, before)


def test_node_daemon_of_the_source_and_the_master_are_killed(cluster: GuestCluster) -> None:
    before = Ask(cluster.first)
    cluster.BeginMigration()
    cluster.first.Kill(NODED)
    cluster.master.Kill(MASTERD)
    cluster.master.StartMaster()
    done = cluster.Do("gnt-instance", "startup", GUEST)
    assert done.code == 1 and cluster.first.name in done.err
    cluster.first.StartNoded()
    cluster.Cleanup()
    cluster.CheckOnlyOn(cluster.first, before)


def test_process_that_hangs_is_named_and_can_be_stopped(cluster: GuestCluster) -> None:
    Ask(cluster.first)
    pid = QemuPid(cluster.first)
    os.kill(pid, signal.SIGSTOP)
    began = time.monotonic()
    assert cluster.List() == (cluster.first.name, "ERROR_unresponsive")
    assert time.monotonic() - began < _LOOK_LIMIT
    began = time.monotonic()
    [line] = cluster.Complaints()
    assert time.monotonic() - began < 2 * _LOOK_LIMIT
    assert "does not respond" in line and f"gnt-instance shutdown --timeout 0 {GUEST}" in line
    done = cluster.Do("gnt-instance", "startup", GUEST)
    assert done.code == 1 and f"gnt-instance shutdown --timeout 0 {GUEST}" in done.err
    assert QemuPid(cluster.first) == pid, "only a stop ends it"
    done = cluster.Do("gnt-instance", "shutdown", "--timeout", "0", GUEST)
    assert done.code == 0, done.err
    assert not QemuPid(cluster.first) and not cluster.DiskUsers()
    assert cluster.List() == (cluster.first.name, "ADMIN_down")
    done = cluster.Do("gnt-instance", "startup", GUEST)
    assert done.code == 0, done.err
    Ask(cluster.first)
