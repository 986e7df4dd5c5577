"""Files that were cut off, written over or edited badly: refused with file, reason and way out; nothing is overwritten."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from support.realcluster import FollowJob, RealCluster, RealNode, WaitUntil

from ganeti import errors

MASTERD, NODED = "ganeti-masterd", "ganeti-noded"
CONFIG = "/var/lib/ganeti/config.data"
STORE = "/var/lib/ganeti/ext/store.db"
QUEUE = "/var/lib/ganeti/queue"
DELAY = {"OP_ID": "OP_TEST_DELAY", "duration": 0.0, "on_nodes": [], "on_master": False, "reason": []}


@pytest.fixture
def one() -> Iterator[RealNode]:
    """A cluster of one node, whose files are still those of 3.1."""
    with RealCluster(1) as cluster:
        cluster.StartNodeDaemons()
        yield cluster[0]


def ReadBytes(node: RealNode, path: str) -> bytes:
    with open(node.Path(path), "rb") as stream:
        return stream.read()


def WriteBytes(node: RealNode, path: str, data: bytes) -> None:
    with open(node.Path(path), "wb") as stream:
        stream.write(data)


def Refused(node: RealNode, *words: str) -> None:
    """The master daemon does not come up and says so in these words; it serves nobody."""
    done = node.StartMaster(check=False)
    assert done.returncode in (1, 2, 11), done.stderr
    assert node.Pid(MASTERD) == 0
    for word in words:
        assert word in done.stderr
    assert "Traceback" not in done.stderr + node.Log(MASTERD)
    assert os.listdir(node.Path("/var/run/ganeti/socket")) == []


def RunJobs(node: RealNode, count: int = 3) -> list[int]:
    with node.Client() as client:
        ids = [client.SubmitJob([DELAY]) for _ in range(count)]
        assert [FollowJob(client, job_id)[0] for job_id in ids] == ["success"] * count
    return ids


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "zeros": lambda data: b"\0" * len(data),
    "another type": lambda data: b'["a", "list"]',
    "not UTF-8": lambda data: data.replace(b"cluster.example.com", b"cl\xfcster.example.com"),
    "half a character": lambda data: data.replace(b"cluster.example.com", rb"cl\udcfcster.example.com"),
    "a key is missing": lambda data: data.replace(b'"cluster_name"', b'"name_of_cluster"'),
    "a newer version": lambda data: data.replace(b"3010000", b"3020000"),
    "an older version": lambda data: data.replace(b"3010000", b"2090000"),
    "a wrong type": lambda data: data.replace(b'"candidate_pool_size":10', b'"candidate_pool_size":"ten"'),
    "a node that is not there": lambda data: data.replace(b'"master_node":"', b'"master_node":"f'),
    "nested deeply": lambda data: b"[" * 1_000_000,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_configuration_that_cannot_be_taken_over(one: RealNode, damage: str) -> None:
    good = ReadBytes(one, CONFIG)
    bad = DAMAGE[damage](good)
    assert bad != good
    WriteBytes(one, CONFIG, bad)
    Refused(one, one.Path(CONFIG), "good copy" if "version" not in damage else "release")
    assert ReadBytes(one, CONFIG) == bad
    assert one.Pid(NODED) != 0
    # The way out works.
    WriteBytes(one, CONFIG, good)
    one.StartMaster()
    RunJobs(one, 1)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_bad_edit_of_the_configuration(one: RealNode, damage: str) -> None:
    one.StartMaster()
    ids = RunJobs(one)
    one.Stop(MASTERD)
    good = ReadBytes(one, CONFIG)
    bad = DAMAGE[damage](good)
    assert bad != good
    WriteBytes(one, CONFIG, bad)
    Refused(one, one.Path(CONFIG), "edited by hand", "remove it: it is then written anew from the store")
    assert ReadBytes(one, CONFIG) == bad
    os.unlink(one.Path(CONFIG))
    one.StartMaster()
    with one.Client() as client:
        assert [row[0] for row in client.QueryJobs(ids, ["status"])] == ["success"] * 3
    one.Stop(MASTERD)
    assert ReadBytes(one, CONFIG)[:100] == good[:100]


@pytest.mark.parametrize(
    "bad",
    [b"", b'{"id": 2, "ops": [', b"{}", b"\0\0\0", b'{"id": 1, "ops": []}', b"[" * 100_000],
    ids=lambda b: repr(b[:20]),
)
def test_a_bad_edit_of_a_job(one: RealNode, bad: bytes) -> None:
    one.StartMaster()
    ids = RunJobs(one)
    one.Stop(MASTERD)
    path = f"{QUEUE}/job-{ids[1]}"
    good = ReadBytes(one, path)
    WriteBytes(one, path, bad)
    Refused(one, one.Path(path), "edited by hand", "put the file back")
    assert ReadBytes(one, path) == bad
    WriteBytes(one, path, good)
    one.StartMaster()
    with one.Client() as client:
        assert [row[0] for row in client.QueryJobs(ids, ["status"])] == ["success"] * 3


@pytest.mark.parametrize("bad", [b"", b"two\n", b"1\n", b"\xff"], ids=repr)
def test_a_bad_edit_of_the_last_job_number(one: RealNode, bad: bytes) -> None:
    one.StartMaster()
    ids = RunJobs(one)
    # What the file showed last before is no edit, as the store may have ended before it replaced that: here it is the third.
    WaitUntil(lambda: one.Read(f"{QUEUE}/serial") == f"{ids[-1]}\n", "the file shows the last one")
    ids += RunJobs(one, 1)
    one.Stop(MASTERD)
    WriteBytes(one, f"{QUEUE}/serial", bad)
    Refused(one, one.Path(f"{QUEUE}/serial"), f"the last job id, {ids[-1]}", "put the file back")
    assert ReadBytes(one, f"{QUEUE}/serial") == bad
    os.unlink(one.Path(f"{QUEUE}/serial"))
    one.StartMaster()
    assert RunJobs(one, 1)[0] > ids[-1]


def test_jobs_of_3_1_that_cannot_be_read_are_kept_aside_and_hinder_nobody(one: RealNode) -> None:
    one.Write(f"{QUEUE}/job-5", '{"id": 5, "ops": [', 0o640)
    one.Write(f"{QUEUE}/job-7", '{"id": 8, "ops": [], "received_timestamp": [1, 2]}', 0o640)
    one.Write(f"{QUEUE}/serial", "7\n", 0o640)
    one.StartMaster()
    log = one.Log(MASTERD)
    for name in ("job-5", "job-7"):
        assert f"{one.Path(QUEUE)}/{name} is not taken over" in log
    kept = [os.path.join(folder, name) for folder, _, names in os.walk(one.Path("/var/lib/ganeti")) for name in names]
    texts = []
    for path in kept:
        with open(path, "rb") as stream:
            texts.append(stream.read())
    assert b'{"id": 5, "ops": [' in texts
    assert RunJobs(one, 1) == [8]


# The store's database


def EndOfSide(node: RealNode) -> None:
    """Brings everything into the database itself: what SQLite keeps beside it would mend a lot of damage."""
    with sqlite3.connect(node.Path(STORE)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    NoSide(node)


def NoSide(node: RealNode) -> None:
    for side in ("-wal", "-shm"):
        if os.path.exists(node.Path(STORE + side)):
            os.unlink(node.Path(STORE + side))


def StopNode(cluster: RealCluster, node: RealNode) -> None:
    """Every process of the node, in good order where there is one."""
    if node.Pid(MASTERD):
        node.Stop(MASTERD)
    node.Stop(NODED)
    cluster.CutPower(node)


DATABASE: dict[str, Callable[[bytes], bytes]] = {
    "no database": lambda data: b"this is no database\n" * 500,
    "cut off": lambda data: data[: len(data) // 2],
    "a few pages": lambda data: data[:8192],
    "header gone": lambda data: b"\0" * 100 + data[100:],
    "a hole": lambda data: data[: len(data) // 3] + b"\xff" * 8192 + data[len(data) // 3 + 8192 :],
    "broken bits": lambda data: bytes(b ^ (0xFF if i % 4999 == 4998 else 0) for i, b in enumerate(data)),
}
STATEMENTS = [
    "UPDATE rows SET value = '{\"broken' WHERE kind = 'cluster'",
    "UPDATE rows SET value = '[]' WHERE kind = 'node'",
    "UPDATE rows SET value = '{}' WHERE kind = 'config'",
    "UPDATE rows SET value = CAST(X'ff41' AS TEXT) WHERE kind = 'cluster'",
    "UPDATE rows SET value = 'x' WHERE kind = 'voters'",
    "UPDATE rows SET value = 'x' WHERE kind = 'queue' AND id = 'serial'",
    "UPDATE rows SET id = 'abc' WHERE kind = 'job' AND id = '2'",
    "UPDATE state SET last_seq = 'abc'",
    "UPDATE state SET version = 99",
    "DELETE FROM rows WHERE kind = 'config'",
    "DELETE FROM line",
    "DELETE FROM state",
    "DROP TABLE rows",
]


def test_a_damaged_database_is_refused_and_left_alone() -> None:
    with RealCluster(1) as cluster:
        node = cluster[0]
        cluster.StartNodeDaemons()
        node.StartMaster()
        ids = RunJobs(node)
        StopNode(cluster, node)
        EndOfSide(node)
        good = ReadBytes(node, STORE)
        config = ReadBytes(node, CONFIG)
        for name, damage in DATABASE.items():
            bad = damage(good)
            assert bad != good, name
            NoSide(node)
            WriteBytes(node, STORE, bad)
            node.StartNoded()
            Refused(node, node.Path(STORE), "damaged", "away")
            StopNode(cluster, node)
            assert ReadBytes(node, STORE) == bad, name
            assert ReadBytes(node, CONFIG) == config, name
            assert "Traceback" not in node.Log(NODED)
        WriteBytes(node, STORE, good)
        node.StartNoded()
        node.StartMaster()
        with node.Client() as client:
            assert [row[0] for row in client.QueryJobs(ids, ["status"])] == ["success"] * 3


@pytest.mark.parametrize("statements", [STATEMENTS[::2], STATEMENTS[1::2]], ids=["even", "odd"])
def test_a_database_that_can_be_read_and_makes_no_sense_is_refused(statements: Sequence[str]) -> None:
    with RealCluster(1) as cluster:
        node = cluster[0]
        cluster.StartNodeDaemons()
        node.StartMaster()
        RunJobs(node)
        StopNode(cluster, node)
        EndOfSide(node)
        good = ReadBytes(node, STORE)
        for statement in statements:
            NoSide(node)
            WriteBytes(node, STORE, good)
            with sqlite3.connect(node.Path(STORE)) as database:
                database.execute(statement)
            database.close()
            node.StartNoded()
            Refused(node, node.Path(STORE), "away")
            StopNode(cluster, node)
            with sqlite3.connect(node.Path(STORE)) as database:
                assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            database.close()
            assert "Traceback" not in node.Log(NODED) + node.Log(MASTERD), statement


@pytest.mark.req("D20-VOTE-07")
@pytest.mark.limit(150)
def test_the_way_out_of_a_damaged_database_another_candidate_takes_over_and_copies_it() -> None:
    with RealCluster(3) as cluster:
        cluster.StartNodeDaemons()
        first, second, _ = cluster.nodes
        first.StartMaster()
        ids = RunJobs(first, 5)
        StopNode(cluster, first)
        EndOfSide(first)
        WriteBytes(first, STORE, b"rubbish" * 1000)
        first.StartNoded()
        Refused(first, first.Path(STORE), "damaged")
        # As the words say: away with it, then it is an empty node, which must not become master by its old files.
        StopNode(cluster, first)
        for side in ("", "-wal", "-shm"):
            if os.path.exists(first.Path(STORE + side)):
                os.rename(first.Path(STORE + side), first.Path(STORE + side + ".away"))
        first.StartNoded()
        Refused(first, second.name, "start the master daemon on")
        second.StartMaster("--take-over")
        with second.Client() as client:
            assert [row[0] for row in client.QueryJobs(ids, ["status"])] == ["success"] * 5
            assert client.QueryConfigValues(["master_node"]) == [second.name]
            more = client.SubmitJob([DELAY])
            assert FollowJob(client, more)[0] == "success"

            def copied() -> bool:
                try:
                    with sqlite3.connect(f"file:{first.Path(STORE)}?mode=ro", uri=True) as database:
                        rows = database.execute("SELECT count(*) FROM rows WHERE kind = 'job'").fetchone()[0]
                except sqlite3.Error:
                    return False
                return bool(rows == len(ids) + 1)

            WaitUntil(copied, "the emptied node has a copy again", 60)


@pytest.mark.limit(90)
def test_a_candidate_with_a_damaged_database_does_not_stop_the_others() -> None:
    with RealCluster(3) as cluster:
        cluster.StartNodeDaemons()
        cluster[0].StartMaster()
        RunJobs(cluster[0])
        third = cluster[2]
        StopNode(cluster, third)
        NoSide(third)
        bad = b"rubbish" * 1000
        WriteBytes(third, STORE, bad)
        third.StartNoded()
        RunJobs(cluster[0])
        WaitUntil(
            lambda: third.Path(STORE) in third.Log(NODED) and "damaged" in third.Log(NODED), "it says so in its log"
        )
        assert ReadBytes(third, STORE) == bad
        assert "Traceback" not in third.Log(NODED)
        with cluster[0].Client() as client:
            op: dict[str, Any] = {"OP_ID": "OP_TEST_DELAY", "duration": 0.0, "on_nodes": [third.name], "reason": []}
            # Reading calls go on there; changing ones need the store and are refused with words.
            assert FollowJob(client, client.SubmitJob([op]))[0] in ("success", "error")
            with pytest.raises(errors.OpExecError, match=third.name):
                client.SetWatcherPause(4e9)
