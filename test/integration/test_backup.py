"""Exports and imports, and moves to another cluster: real daemons, real files, the transfer program between them."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest
from support.realcluster import FollowJob, RealCluster

from ganeti import constants

_MIB = 1024 * 1024
EXPORTS = "/srv/ganeti/export"


@pytest.fixture
def cluster() -> Iterator[RealCluster]:
    with Started() as made:
        yield made


@contextlib.contextmanager
def Started(secret: str | None = None) -> Iterator[RealCluster]:
    """A cluster with an operating system whose scripts copy disks as they are."""
    with RealCluster(3) as made:
        folder = made.MakeOs("copying")
        WriteScript(
            folder,
            "export",
            'stat -c %s "$EXPORT_DEVICE" >&$EXP_SIZE_FD; echo "exporting $EXPORT_INDEX" >&2; cat "$EXPORT_DEVICE"',
        )
        WriteScript(folder, "import", 'dd of="$IMPORT_DEVICE" bs=64K conv=notrunc status=none')
        WriteScript(folder, "rename", f'echo "$OLD_INSTANCE_NAME $INSTANCE_NAME" >>{made.base}/renamed')
        if secret is not None:
            for node in made.nodes:
                node.Write("/var/lib/ganeti/cluster-domain-secret", secret, 0o640)
        made.StartNodeDaemons()
        made[0].StartMaster()
        yield made


def WriteScript(folder: str, name: str, text: str) -> None:
    with open(os.path.join(folder, name), "w", encoding="utf-8") as stream:
        stream.write(f"#!/bin/bash\nset -e\n{text}\n")


def Submit(cluster: RealCluster, **op: object) -> int:
    with cluster[0].Client() as client:
        return client.SubmitJob([{"reason": [], **op}])


def Finish(cluster: RealCluster, job: int) -> tuple[str, Any, list[str]]:
    """Return status, result and messages of a job when it has ended."""
    with cluster[0].Client() as client:
        status, log = FollowJob(client, job)
        [[results]] = client.QueryJobs([job], ["opresult"])
    return status, results[0], [str(entry[3]) for entry in log]


def Run(cluster: RealCluster, **op: object) -> Any:
    status, result, log = Finish(cluster, Submit(cluster, **op))
    assert status == "success", (result, log)
    return result


def Fail(cluster: RealCluster, **op: object) -> str:
    """Return what a job that fails says, in its result and before."""
    status, result, log = Finish(cluster, Submit(cluster, **op))
    assert status == "error", result
    return "\n".join([str(result), *log])


EMPTY: dict[str, Any] = {"beparams": {}, "hvparams": {}, "osparams": {}, "tags": []}


def Create(cluster: RealCluster, name: str, node: int, **more: Any) -> dict[str, Any]:
    """Return the request for an instance."""
    values: dict[str, Any] = {
        "mode": "create",
        "disk_template": "file",
        "disks": [{"size": 8}, {"size": 3}],
        "nics": [],
        "os_type": "copying+default",
        "pnode": cluster[node].name,
        "start": False,
        "ip_check": False,
        "name_check": False,
        "ignore_ipolicy": True,
        **EMPTY,
    }
    return {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": name, **values, **more}


def Import(cluster: RealCluster, name: str, node: int, **more: Any) -> dict[str, Any]:
    return Create(cluster, name, node, mode="import", disks=[], os_type=None, disk_template=None, **more)


def Export(name: str, target: str, **more: Any) -> dict[str, Any]:
    return {"OP_ID": "OP_BACKUP_EXPORT", "instance_name": name, "target_node": target, "mode": "local", **more}


def FillDisks(cluster: RealCluster, name: str) -> list[bytes]:
    """Write something else into each disk of an instance, and return it."""
    contents = []
    for number, path in enumerate(DiskPaths(cluster, name)):
        data = random.Random(number).randbytes(os.path.getsize(path))
        with open(path, "r+b") as stream:
            stream.write(data)
        contents.append(data)
    return contents


def DiskPaths(cluster: RealCluster, name: str) -> list[str]:
    folder = os.path.join(cluster.files, name)
    found = os.listdir(folder) if os.path.isdir(folder) else []
    return [os.path.join(folder, path) for path in sorted(found, key=lambda path: path[-1])]


def Contents(paths: list[str]) -> list[bytes]:
    contents = []
    for path in paths:
        with open(path, "rb") as stream:
            contents.append(stream.read())
    return contents


def Exports(cluster: RealCluster, node: int) -> list[str]:
    return sorted(name for name in os.listdir(cluster[node].Path(EXPORTS)) if not name.startswith("."))


def Row(cluster: RealCluster, name: str, *fields: str) -> list[Any]:
    with cluster[0].Client() as client:
        [row] = client.QueryInstances([name], list(fields))
    return row


@pytest.mark.slow
@pytest.mark.req(
    "D20-OS-05", "D20-OS-07", "D20-OS-14", "D20-OS-16", "D20-VAR-01", "D22-MOVE-01", "D22-MOVE-02", "D22-OSST-08"
)
def test_an_instance_comes_back_from_its_export(cluster: RealCluster) -> None:
    nics = [
        {"mac": f"aa:00:00:77:00:0{number}", "mode": "routed", "ip": f"192.0.2.{number}", "link": "main"}
        for number in (1, 2)
    ]
    Run(cluster, **Create(cluster, "web.example.com", 0, nics=nics, beparams={"memory": 96}, tags=["kept"]))
    contents = FillDisks(cluster, "web.example.com")
    assert Run(cluster, **Export("web.example.com", cluster[1].name)) == [True, [True, True]]
    assert Exports(cluster, 1) == ["web.example.com"]
    folder = cluster[1].Path(f"{EXPORTS}/web.example.com")
    assert os.stat(os.path.join(folder, "config.ini")).st_mode & 0o077 == 0, "it may hold private parameters"

    # Elsewhere: then the first one is not needed any longer.
    assert Run(cluster, **Export("web.example.com", cluster[2].name, compress="gzip")) == [True, [True, True]]
    assert (Exports(cluster, 1), Exports(cluster, 2)) == ([], ["web.example.com"])

    Run(cluster, OP_ID="OP_INSTANCE_REMOVE", instance_name="web.example.com", ignore_failures=False)
    Run(cluster, **Import(cluster, "new.example.com", 1, src_path="web.example.com"))
    assert Contents(DiskPaths(cluster, "new.example.com")) == contents
    fields = ["disk.sizes", "nic.macs", "be/maxmem", "tags", "os", "pnode", "admin_state", "disk_template"]
    assert Row(cluster, "new.example.com", *fields) == [
        [8, 3], [nic["mac"] for nic in nics], 96, ["kept"], "copying+default", cluster[1].name, "down", "file",
    ]  # fmt: skip
    with open(os.path.join(cluster.base, "renamed"), encoding="utf-8") as stream:
        assert stream.read() == "web.example.com new.example.com\n"

    with cluster[0].Client() as client:
        rows = client.Query("export", ["node", "export"], None)["data"]
    assert [[value for _, value in row] for row in rows] == [[cluster[2].name, "web.example.com"]]
    Run(cluster, OP_ID="OP_BACKUP_REMOVE", instance_name="web.example.com")
    assert [Exports(cluster, node) for node in range(3)] == [[], [], []]
    for node in cluster.nodes:
        left = node.Path("/var/run/ganeti/import-export")
        assert not os.path.isdir(left) or os.listdir(left) == []


@pytest.mark.slow
@pytest.mark.req("D20-OS-20")
def test_disks_of_an_instance_without_a_system_are_sent_as_they_are(cluster: RealCluster) -> None:
    Run(cluster, **Create(cluster, "raw.example.com", 0, os_type=None, no_install=True))
    contents = FillDisks(cluster, "raw.example.com")
    Run(cluster, **Export("raw.example.com", cluster[1].name, compress="gzip"))
    Run(cluster, **Import(cluster, "copy.example.com", 2, src_path="raw.example.com"))
    assert Contents(DiskPaths(cluster, "copy.example.com")) == contents
    assert Row(cluster, "copy.example.com", "os") == [""]


@pytest.mark.slow
def test_a_running_guest_is_down_for_its_export_and_runs_again(cluster: RealCluster) -> None:
    Run(cluster, **Create(cluster, "web.example.com", 0, start=True))
    said = Fail(cluster, **Export("web.example.com", cluster[1].name))
    assert "--long-sleep" in said and "no snapshots" in said
    assert "cannot be exported while it runs" in Fail(
        cluster, **Export("web.example.com", cluster[1].name, shutdown=False)
    )
    Run(cluster, **Export("web.example.com", cluster[1].name, long_sleep=True))
    assert Row(cluster, "web.example.com", "oper_state", "admin_state", "disks_active") == [True, "up", True]
    Run(cluster, OP_ID="OP_INSTANCE_SHUTDOWN", instance_name="web.example.com")
    Run(cluster, **Export("web.example.com", cluster[1].name, remove_instance=True))
    with cluster[0].Client() as client:
        assert client.QueryInstances([], ["name"]) == []
    assert Exports(cluster, 1) == ["web.example.com"]


@pytest.mark.slow
def test_an_export_that_fails_keeps_the_older_one_and_the_guest(cluster: RealCluster) -> None:
    Run(cluster, **Create(cluster, "web.example.com", 0, start=True))
    Run(cluster, **Export("web.example.com", cluster[1].name, long_sleep=True))
    older = Contents([cluster[1].Path(f"{EXPORTS}/web.example.com/config.ini")])
    folder = os.path.join(cluster.base, "os", "copying")
    WriteScript(folder, "export", 'head -c 100000 "$EXPORT_DEVICE"; echo "the file system is damaged" >&2; exit 3')
    said = Fail(cluster, **Export("web.example.com", cluster[1].name, long_sleep=True))
    assert "the file system is damaged" in said and "disk 0" in said and "disk 1" in said
    assert Contents([cluster[1].Path(f"{EXPORTS}/web.example.com/config.ini")]) == older
    assert Row(cluster, "web.example.com", "oper_state") == [True]
    Run(cluster, OP_ID="OP_BACKUP_REMOVE", instance_name="web.example.com")
    assert Exports(cluster, 1) == []


@pytest.mark.slow
def test_an_import_whose_data_does_not_arrive_fails(cluster: RealCluster) -> None:
    Run(cluster, **Create(cluster, "web.example.com", 0))
    Run(cluster, **Export("web.example.com", cluster[1].name))
    folder = os.path.join(cluster.base, "os", "copying")
    WriteScript(folder, "import", 'head -c 1000 >/dev/null; echo "no room" >&2; exit 1')
    said = Fail(cluster, **Import(cluster, "new.example.com", 1, src_path="web.example.com"))
    assert "no room" in said and "gnt-instance remove new.example.com" in said
    assert Row(cluster, "new.example.com", "admin_state") == ["down"]
    said = Fail(cluster, **Import(cluster, "third.example.com", 1))
    assert "No export 'third.example.com' found on any node" in said
    bad = cluster[1].Path(f"{EXPORTS}/web.example.com/config.ini")
    with open(bad, "a", encoding="utf-8") as stream:
        stream.write("[export\nversion = what")
    said = Fail(cluster, **Import(cluster, "third.example.com", 1, src_path="web.example.com"))
    assert "cannot be used" in said


@pytest.mark.slow
@pytest.mark.req(
    "D22-MOVE-04", "D22-MOVE-05", "D22-MOVE-06", "D22-MOVE-08", "D22-MOVE-09", "D22-MOVE-10", "D22-MOVE-12",
    "D22-MOVE-13", "D22-MOVE-14", "D22-MOVE-15", "D22-MOVE-16", "D22-MOVE-17",
    "D22-X509-01", "D22-X509-03", "D22-X509-04", "D22-X509-05", "D22-X509-18",
)  # fmt: skip
def test_an_instance_moves_to_another_cluster() -> None:
    secret = "secret-of-both-clusters\n"
    with Started(secret) as here, Started(secret) as there:
        Run(here, **Create(here, "web.example.com", 0))
        contents = FillDisks(here, "web.example.com")
        ready = Run(here, OP_ID="OP_BACKUP_PREPARE", instance_name="web.example.com", mode="remote")
        receiving = Submit(
            there,
            **Create(
                there,
                "web.example.com",
                1,
                mode="remote-import",
                source_handshake=ready["handshake"],
                source_x509_ca=ready["x509_ca"],
                source_instance_name="web.example.com",
                start=True,
            ),
        )
        [told] = WaitForEntry(there, receiving, constants.ELOG_REMOTE_IMPORT)
        assert "PRIVATE KEY" not in str([ready, told]), "no private key leaves its cluster"
        sent = Run(
            here,
            OP_ID="OP_BACKUP_EXPORT",
            instance_name="web.example.com",
            mode="remote",
            target_node=told["disks"],
            x509_key_name=ready["x509_key_name"],
            destination_x509_ca=told["x509_ca"],
            remove_instance=True,
        )
        assert sent == [True, [True, True]]
        status, result, log = Finish(there, receiving)
        assert status == "success", (result, log)
        assert Contents(DiskPaths(there, "web.example.com")) == contents
        assert Row(there, "web.example.com", "oper_state") == [True]
        assert DiskPaths(here, "web.example.com") == []
        for cluster in (here, there):
            for node in cluster.nodes:
                keys = node.Path("/var/run/ganeti/crypto")
                assert not os.path.isdir(keys) or os.listdir(keys) == []


def WaitForEntry(cluster: RealCluster, job: int, kind: str) -> list[Any]:
    """Return the contents of a job's log entries of a kind, once there are some."""
    found: list[Any] = []
    serial = -1
    with cluster[0].Client() as client:
        while not found:
            changes = client.WaitForJobChange(job, ["status"], None, serial)
            assert changes is not None
            (status,), entries = changes
            for number, _time, entry_kind, content in entries or ():
                serial = max(serial, number)
                if entry_kind == kind:
                    found.append(content)
            assert found or status in ("queued", "waiting", "running"), status
    return found
