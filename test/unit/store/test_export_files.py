"""Who owns the files of a node, which rows make which of them, when they are written, and which edits may be taken over."""

from __future__ import annotations

import itertools
import logging
from typing import Any

import pytest
from simulated import Machine
from support.exports import EPOCH, JOB, Asides, Edit, NewStore, Node, Play, SsconfTexts, Text
from support.store_nodes import Story as StoreStory
from support.store_nodes import Until

from ganeti import errors, pathutils, runtime, serializer
from ganeti.server.exporting import NodeExporter
from ganeti.store import Epoch, Position, Row, Rows
from ganeti.store.base import ID_MASTER, KIND_ARCHIVED, KIND_MASTER, NOWHERE, Line, StoredRow
from ganeti.store.copy.database import FileRecord, State
from ganeti.store.files import export
from ganeti.store.files.look import IsArchived, IsJobId, IsOfJob, IsSsconf, JobFiles, LiveJobOf, Look, StampOf
from ganeti.store.files.owned import NO_OWNER, LockOwned, MakeOwned

OTHER = Epoch(2, "bb")


def Stored(kind: str, row_id: str, value: str | None, seq: int = 1) -> StoredRow:
    return StoredRow(kind, row_id, value, seq, EPOCH)


# What a copy may show


@pytest.mark.parametrize(
    ("last", "acknowledged", "whole", "visible"),
    [
        ((EPOCH, 0), (EPOCH, 0), 0, None),
        ((EPOCH, 5), (EPOCH, 5), 0, (EPOCH, 5)),
        # Behind what is acknowledged elsewhere, of the same epoch: all of it is.
        ((EPOCH, 5), (EPOCH, 9), 0, (EPOCH, 5)),
        ((EPOCH, 5), (EPOCH, 3), 0, (EPOCH, 3)),
        ((EPOCH, 5), (EPOCH, 3), 3, (EPOCH, 3)),
        # What unacknowledged transactions replaced is known only from a later one on.
        ((EPOCH, 5), (EPOCH, 3), 4, None),
        ((EPOCH, 5), (EPOCH, 0), 0, None),
        # Another master acknowledged it, in a history that is not this one.
        ((EPOCH, 5), (OTHER, 3), 0, None),
        ((EPOCH, 5), (OTHER, 9), 0, None),
    ],
)
def test_only_what_is_acknowledged_and_known_row_by_row_is_shown(
    last: Any, acknowledged: Any, whole: int, visible: Any
) -> None:
    state = State(cluster="c", store_id="s", last=Position(*last), acknowledged=Position(*acknowledged), whole=whole)
    line = Line([(EPOCH, 1)], Position(*last))
    assert export.VisiblePosition(state, line) == (None if visible is None else Position(*visible))


# Which rows make which files


def test_each_row_makes_its_file_and_its_end_takes_it_away(caplog: pytest.LogCaptureFixture) -> None:
    owners = export.Owners((1, 2), (3, 4), (5, 6))
    view = export.View(owners, None)
    assert not view.makes_ssconf and export.View(owners, SsconfTexts).makes_ssconf
    targets, forget = view.Take(
        [
            Stored("job", "7", "{}"),
            Stored("job", "8", None),
            Stored(KIND_ARCHIVED, "9", "[]"),
            Stored(KIND_ARCHIVED, "10", None),
            Stored("queue", "serial", "12"),
            Stored("queue", "drain", "true"),
            Stored("queue", "other", "5"),
            Stored("master", "master", "{}"),
            Stored("job", "07", "{}"),
            Stored(KIND_ARCHIVED, "../x", "{}"),
        ]
    )
    assert targets == {
        pathutils.JobFile(7): export.Target(b"{}", 0o640, (3, 4)),
        pathutils.JobFile(8): None,
        pathutils.ArchivedJobFile(9): export.Target(b"[]", 0o640, (3, 4)),
        pathutils.JOB_QUEUE_SERIAL_FILE: export.Target(b"12\n", 0o640, (3, 4)),
        pathutils.JOB_QUEUE_DRAIN_FILE: export.Target(b"", 0o644, (3, 4)),
    }
    assert forget == [pathutils.ArchivedJobFile(10)]
    assert [record.args for record in caplog.records] == [("job", "07"), (KIND_ARCHIVED, "../x")]
    for value in ("false", None):
        assert view.Take([Stored("queue", "drain", value)])[0] == {pathutils.JOB_QUEUE_DRAIN_FILE: None}
    empty, _ = view.Take([Stored("queue", "serial", None)])
    assert empty[pathutils.JOB_QUEUE_SERIAL_FILE] == export.Target(b"0\n", 0o640, (3, 4))


def test_the_configuration_is_written_once_it_is_whole_and_only_when_it_changed() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        owners = export.Owners((1, 2), (3, 4), (5, 6))
        view = export.View(owners, lambda rows: {"one": "a", "two": "b\n", "three": ""})
        rows = [Stored(*row) for row in node.snapshot.ToRows()]
        for lacking in ("config", "cluster"):
            assert view.Take([row for row in rows if row.kind != lacking]) == ({}, [])
            view.Clear()
        targets, _ = view.Take(rows)
        config = targets.pop(pathutils.CLUSTER_CONF_FILE)
        assert config is not None and (config.mode, config.owner) == (0o640, (1, 2))
        assert targets == {
            pathutils.SsconfFile(name): export.Target(data, 0o444, (5, 6))
            for name, data in (("one", b"a\n"), ("two", b"b\n"), ("three", b""))
        }
        assert view.Take([Stored("job", "1", "{}")])[0].keys() == {pathutils.JobFile(1)}
        gone = next(row for row in rows if row.kind == "instance")
        shorter = view.Take([Stored("instance", gone.id, None)])[0][pathutils.CLUSTER_CONF_FILE]
        assert shorter is not None and gone.id.encode() in config.data and gone.id.encode() not in shorter.data

    Play(story)


def test_files_and_folders_belong_to_the_daemons_that_use_them() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        owners = export.Owners((11, 12), (13, 14), (15, 16))
        node.Put(Row(KIND_ARCHIVED, "3", JOB % 3), Row("queue", "drain", "true"))
        export.Exporter(node.store, owners, SsconfTexts, serving=True).Round()

        def of(path: str) -> tuple[int, int, int]:
            info = runtime.Stat(path)
            return info.st_uid, info.st_gid, info.st_mode & 0o777

        assert of(pathutils.CLUSTER_CONF_FILE) == (11, 12, 0o640)
        assert of(pathutils.SsconfFile("node_list")) == (15, 16, 0o444)
        for path in (pathutils.JobFile(7), pathutils.ArchivedJobFile(3), pathutils.JOB_QUEUE_SERIAL_FILE):
            assert of(path) == (13, 14, 0o640)
        assert of(pathutils.JOB_QUEUE_VERSION_FILE) == (13, 14, 0o640)
        assert of(pathutils.JOB_QUEUE_DRAIN_FILE) == (13, 14, 0o644)
        folders = (
            pathutils.QUEUE_DIR,
            pathutils.JOB_QUEUE_ARCHIVE_DIR,
            pathutils.ArchivedJobFile(3).rpartition("/")[0],
        )
        for folder in folders:
            assert of(folder) == (13, 14, 0o750)
        # What is there already keeps what an administrator gave it.
        runtime.Chown(pathutils.QUEUE_DIR, 1, 1)
        node.Put(Row("job", "8", JOB % 8))
        export.Exporter(node.store, owners, SsconfTexts, serving=True).Round()
        assert of(pathutils.QUEUE_DIR)[:2] == (1, 1)

    Play(story)


def test_a_shared_lock_and_a_folder_are_given_away_once() -> None:
    def story(node: Node, machine: Machine) -> None:
        del node, machine

        def owner(path: str) -> tuple[int, int]:
            info = runtime.Stat(path)
            return info.st_uid, info.st_gid

        runtime.MakeDirs("/tmp/plain", 0o700)
        LockOwned("/tmp/theirs", True, 1.0, (5, 6)).release()
        LockOwned("/tmp/theirs", True, 1.0, (7, 8)).release()
        LockOwned("/tmp/ours", True, 1.0, NO_OWNER).release()
        MakeOwned("/tmp/folder", 0o750, (5, 6))
        MakeOwned("/tmp/folder", 0o700, (7, 8))
        MakeOwned("/tmp/own", 0o700, NO_OWNER)
        assert owner("/tmp/theirs") == owner("/tmp/folder") == (5, 6)
        assert runtime.Stat("/tmp/folder").st_mode & 0o777 == 0o750
        assert owner("/tmp/ours") == owner("/tmp/own") == owner("/tmp/plain")

    Play(story)


# What lies where files should be


def test_the_names_of_files_tell_whose_they_are() -> None:
    queue = pathutils.QUEUE_DIR
    assert [LiveJobOf(f"{queue}/{name}") for name in ("job-0", "job-12", "job-" + "9" * 19)] == [0, 12, int("9" * 19)]
    for name in ("job-", "job-x", "job-01", "job-1.tmp", "serial", "xjob-1", "job-" + "1" * 20, "job-\u0661", "job--1"):
        assert LiveJobOf(f"{queue}/{name}") is None
    assert LiveJobOf("/tmp/job-1") is None and LiveJobOf(pathutils.ArchivedJobFile(12)) is None
    assert IsJobId("0") and not IsJobId("") and not IsJobId("00")
    assert IsArchived(pathutils.ArchivedJobFile(5)) and not IsArchived(pathutils.JobFile(5))
    assert IsOfJob(pathutils.JobFile(5)) and IsOfJob(pathutils.ArchivedJobFile(5))
    assert not IsOfJob(pathutils.JOB_QUEUE_SERIAL_FILE)
    assert IsSsconf(pathutils.SsconfFile("node_list")) and not IsSsconf(pathutils.CLUSTER_CONF_FILE)


def test_a_look_finds_what_changed_went_and_came() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        assert (JobFiles(), StampOf(pathutils.JobFile(7))) == ({}, ""), "before the queue has a folder"
        node.Put(Row(KIND_ARCHIVED, "3", JOB % 3))
        node.exporter.Round()
        records = node.store.database.GetFiles()
        look = Look(records)
        assert (look.changed, look.unknown) == (set(), set()) and pathutils.ArchivedJobFile(3) in records
        runtime.WriteFile(pathutils.JobFile(50), b"{}", 0o640)
        runtime.WriteFile(f"{pathutils.QUEUE_DIR}/note", b"{}", 0o640)
        runtime.WriteFile(pathutils.JOB_QUEUE_SERIAL_FILE, b"8\n", 0o640)
        runtime.RemoveFile(pathutils.CLUSTER_CONF_FILE)
        runtime.RemoveTree(pathutils.ArchivedJobFile(3).rpartition("/")[0])
        look = Look(records)
        assert look.unknown == {pathutils.JobFile(50)}
        assert look.changed == {
            pathutils.JOB_QUEUE_SERIAL_FILE,
            pathutils.CLUSTER_CONF_FILE,
            pathutils.ArchivedJobFile(3),
        }
        assert JobFiles() == {7: pathutils.JobFile(7), 50: pathutils.JobFile(50)}
        # One whose stamp was never noted counts as changed.
        bare = FileRecord("/tmp/x", NOWHERE, "d", "d")
        assert Look({"/tmp/x": bare}).changed == {"/tmp/x"}

    Play(story)


# When


def test_files_follow_a_change_within_a_second_and_many_changes_make_few_rounds() -> None:
    rounds: list[float] = []

    class Counting(export.Exporter):
        def Round(self, acknowledged: Position = NOWHERE) -> Position | None:
            rounds.append(runtime.Monotonic())
            return super().Round(acknowledged)

    @StoreStory
    def play(make: Any) -> None:
        cluster = make(1)
        store = cluster.Found(0, Row("job", "1", JOB % 1))
        thread = export.ExporterThread(Counting(cluster[0].store, export.Owners(), SsconfTexts, serving=True), store)
        thread.Start()
        assert Text(pathutils.JobFile(1)) == JOB % 1, "exact when the start returns"
        for number in range(2, 12):
            store.Commit(Rows(Row("job", str(number), JOB % number)))
            runtime.Sleep(0.1)
            began = runtime.Monotonic()
            Until(lambda number=number: Text(pathutils.JobFile(number)) is not None)
            assert runtime.Monotonic() - began <= 2 * export.ROUND_SECONDS
        pauses = [later - sooner for sooner, later in itertools.pairwise(rounds[1:])]
        assert min(pauses) >= export.ROUND_SECONDS
        # A quiet cluster's files are looked at now and then.
        runtime.Sleep(1.0)
        before = len(rounds)
        runtime.Sleep(10 * export.LOOK_AGAIN_SECONDS)
        assert 8 <= len(rounds) - before <= 11
        store.Commit(Rows(Row("job", "99", JOB % 99)))
        store.Stop()
        thread.Stop()
        assert Text(pathutils.JobFile(99)) == JOB % 99, "and when the stop returns"
        ended = len(rounds)
        runtime.Sleep(30.0)
        assert len(rounds) == ended

    play()


def test_a_node_s_own_exporter_works_until_it_is_told_to_stop(caplog: pytest.LogCaptureFixture) -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        stop: list[bool] = []
        exporter = node.NewExporter(serving=False)
        thread = runtime.Thread(lambda: export.RunExporter(exporter, lambda: bool(stop)), "exporter")
        thread.start()
        Until(lambda: Text(pathutils.JobFile(7)) == JOB % 7)
        runtime.MakeDirs(pathutils.JobFile(8))
        node.Put(Row("job", "8", JOB % 8))
        runtime.Sleep(5.0)
        assert "could not be brought up to date" in caplog.text
        runtime.RemoveDir(pathutils.JobFile(8))
        Until(lambda: Text(pathutils.JobFile(8)) == JOB % 8)
        stop.append(True)
        thread.join(5.0)
        assert not thread.is_alive()

    with caplog.at_level(logging.INFO):
        Play(story)


def test_beside_a_serving_master_a_node_s_exporter_leaves_everything_to_it() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        plain = node.NewExporter(serving=False)
        beside = export.Exporter(node.store, export.Owners(), SsconfTexts, beside=True)
        with NewStore().Serve():
            assert plain.Round() is None and not runtime.Exists(pathutils.CLUSTER_CONF_FILE)
            assert beside.Round() is not None
            assert Text(pathutils.SsconfFile("cluster_name")) and not runtime.Exists(pathutils.CLUSTER_CONF_FILE)
            assert node.exporter.Round() is not None, "the master's own"
            runtime.RemoveFile(pathutils.CLUSTER_CONF_FILE)
        assert plain.Round() is not None and runtime.Exists(pathutils.CLUSTER_CONF_FILE)
        assert beside.Round() is not None

    Play(story)


def test_a_node_without_a_copy_writes_nothing() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        node.store.Close()
        runtime.RemoveTree(pathutils.DATA_EXT_DIR)
        empty = NewStore("node2")
        assert export.Exporter(empty, export.Owners(), SsconfTexts, serving=True).Round() is None
        assert not runtime.Exists(pathutils.CLUSTER_CONF_FILE)

    Play(story)


# Edits


def test_a_node_that_leaves_the_cluster_gets_none_of_its_files_back() -> None:
    """The exporter lives until the node daemon ends, and has the removed database open."""

    def story(node: Node, machine: Machine) -> None:
        del machine
        node.Put(Row(KIND_MASTER, ID_MASTER, serializer.Dump({"name": "node2", "epoch": str(EPOCH)})))
        exporter = NodeExporter(node.store, export.Owners(), SsconfTexts)
        assert exporter.Round() and Text(pathutils.CLUSTER_CONF_FILE)
        for path in (pathutils.STORE_FILE, pathutils.CLUSTER_CONF_FILE):
            runtime.RemoveFile(path)
        runtime.Sleep(export.LOOK_AGAIN_SECONDS)
        assert exporter.Round() is None
        assert Text(pathutils.CLUSTER_CONF_FILE) is None and not runtime.Exists(pathutils.STORE_FILE)
        with pytest.raises(export.GaveWay):  # a round that has begun stops at the next portion
            exporter.GiveWay()

    Play(story)


def test_an_exporter_that_begins_when_its_node_has_left_makes_no_copy() -> None:
    """It may need longer to start than the master to take the node out of the cluster."""

    def story(node: Node, machine: Machine) -> None:
        del machine
        node.store.Close()
        runtime.RemoveTree(pathutils.DATA_EXT_DIR)
        exporter = NodeExporter(NewStore("node2"), export.Owners(), SsconfTexts)
        assert exporter.Round() is None
        assert not runtime.Exists(pathutils.DATA_EXT_DIR)

    Play(story)


def test_an_edit_may_change_everything_but_whose_cluster_it_is() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        node.exporter.Round()
        original = Text(pathutils.CLUSTER_CONF_FILE) or ""
        cluster = node.snapshot.cluster
        for old, key in ((cluster.uuid, "uuid"), (cluster.master_node, "master_node")):
            Edit(pathutils.CLUSTER_CONF_FILE, lambda text, old=old: text.replace(f'"{old}"', f'"{old[:-1]}f"'))
            with pytest.raises(errors.ConfigurationError, match="cannot be taken over") as caught:
                node.Edits()
            assert key in str(caught.value) or "node" in str(caught.value)
            runtime.WriteFile(pathutils.CLUSTER_CONF_FILE, original.encode(), 0o640)
        value = serializer.Load(original)
        value["cluster"]["tags"] = ["edited"]
        runtime.WriteFile(pathutils.CLUSTER_CONF_FILE, serializer.Dump(value).encode(), 0o640)
        rows = node.Edits()
        assert set(rows) == {("cluster", "cluster"), ("config", "config")}
        top = serializer.Load(rows["config", "config"] or "")
        assert top["serial_no"] == node.snapshot.serial_no + 1, "readers see that it is newer"
        # An editor that raised the number itself is not sent back.
        value["serial_no"] = 500
        runtime.WriteFile(pathutils.CLUSTER_CONF_FILE, serializer.Dump(value).encode(), 0o640)
        assert serializer.Load(node.Edits()["config", "config"] or "")["serial_no"] == 501

    Play(story)


def test_a_job_that_was_edited_is_taken_over_if_it_is_that_job() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        node.Put(Row("job", "8", JOB % 8), Row("job", "10", JOB % 10))
        node.exporter.Round()
        for number in (7, 10):
            Edit(pathutils.JobFile(number), lambda text: text.replace("null", "[1, 2]"))
        # Written anew with the same content: no edit.
        runtime.WriteFile(pathutils.JobFile(8), (JOB % 8).encode(), 0o640)
        edited = node.Edits()
        assert edited == {("job", str(n)): (JOB % n).replace("null", "[1, 2]") for n in (7, 10)}
        for text in (JOB % 70, "\xff"):
            runtime.WriteFile(pathutils.JobFile(7), text.encode("latin-1"), 0o640)
            with pytest.raises(errors.ConfigurationError, match="job-7 was edited by hand and cannot be taken over"):
                node.Edits()

    Play(story)


@pytest.mark.parametrize(("text", "taken"), [("7\n", {}), ("7", {}), ("8\n", {("queue", "serial"): "8"})])
def test_the_last_job_id_may_be_raised_by_hand(text: str, taken: dict[tuple[str, str], str]) -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        node.exporter.Round()
        runtime.WriteFile(pathutils.JOB_QUEUE_SERIAL_FILE, text.encode(), 0o640)
        assert node.Edits() == taken
        assert Asides() == []

    Play(story)
