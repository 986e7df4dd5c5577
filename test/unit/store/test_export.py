"""The files: what they hold, and what becomes of files that somebody else wrote, or edited while a master runs (rules 10 and 11)."""

from __future__ import annotations

from typing import Any

import pytest
from simulated import Machine, World
from support import configs
from support.exports import CLUSTER, EPOCH, JOB, Asides, Edit, EditsOf, NewStore, Node, Play, SsconfTexts, Text
from support.store_nodes import Story as StoreStory
from support.store_nodes import Until

from ganeti import configfile, errors, objects, pathutils, runtime, serializer
from ganeti.store import Epoch, Position, Row, Rows
from ganeti.store.base import ID_MASTER, KIND_ARCHIVED, KIND_MASTER
from ganeti.store.files import export
from ganeti.store.files.look import JobFiles


@pytest.mark.req("D20-JOB-13", "D20-JOB-17")
def test_rows_become_the_files_everybody_knows() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        node.Put(Row("queue", "drain", "true"), Row("job", "9", JOB % 9))
        node.exporter.Round()
        assert Text(pathutils.CLUSTER_CONF_FILE) == objects.ConfigText(node.snapshot)
        assert configfile.LoadConfig(Text(pathutils.CLUSTER_CONF_FILE) or "") == node.snapshot
        assert Text(pathutils.JobFile(9)) == JOB % 9
        assert Text(pathutils.JOB_QUEUE_SERIAL_FILE) == "7\n"
        assert Text(pathutils.JOB_QUEUE_VERSION_FILE) == "1\n"
        assert Text(pathutils.JOB_QUEUE_DRAIN_FILE) == ""
        assert Text(pathutils.SsconfFile("cluster_name")) == f"{node.snapshot.cluster.cluster_name}\n"
        modes = {
            path: runtime.Stat(path).st_mode & 0o777 for path in (pathutils.CLUSTER_CONF_FILE, pathutils.JobFile(9))
        }
        assert set(modes.values()) == {0o640}
        assert runtime.Stat(pathutils.SsconfFile("node_list")).st_mode & 0o777 == 0o444
        node.Put(Row("queue", "drain", "false"), Row("job", "9", None))
        node.exporter.Round()
        assert Text(pathutils.JobFile(9)) is None
        assert Text(pathutils.JOB_QUEUE_DRAIN_FILE) is None

    Play(story)


def test_what_is_not_acknowledged_is_in_no_file() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        node.exporter.Round()
        node.Put(Row("job", "7", '"changed"'), Row("job", "8", '"new"'), acknowledge=False)
        node.exporter.Round()
        node.NewExporter().Round()
        assert Text(pathutils.JobFile(7)) == JOB % 7
        assert Text(pathutils.JobFile(8)) is None
        node.Acknowledge()
        node.exporter.Round()
        assert (Text(pathutils.JobFile(7)), Text(pathutils.JobFile(8))) == ('"changed"', '"new"')

    Play(story)


def test_an_archived_job_moves_and_stays_when_its_row_goes() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        node.exporter.Round()
        node.Put(Row("job", "7", None), Row(KIND_ARCHIVED, "7", JOB % 7))
        assert node.exporter.Round() == node.store.GetState().last
        assert Text(pathutils.JobFile(7)) is None
        assert Text(pathutils.ArchivedJobFile(7)) == JOB % 7
        node.Put(Row(KIND_ARCHIVED, "7", None))
        node.exporter.Round()
        assert Text(pathutils.ArchivedJobFile(7)) == JOB % 7
        assert pathutils.ArchivedJobFile(7) not in node.store.database.GetFiles()

    Play(story)


def test_only_what_changed_is_written_and_the_exported_seq_is_told() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        node.exporter.Round()
        config = runtime.Stat(pathutils.CLUSTER_CONF_FILE).st_ino
        node.Put(Row("job", "8", "{}"))
        last = node.store.GetState().last
        assert node.exporter.Round() == last
        assert node.store.GetState().exported == last.seq
        assert runtime.Stat(pathutils.CLUSTER_CONF_FILE).st_ino == config

    Play(story)


def test_a_full_disk_is_survived_and_made_good() -> None:
    def story(node: Node, machine: Machine) -> None:
        node.exporter.Round()
        node.Put(Row("job", "8", "{}"))
        machine.disk_full = True
        with pytest.raises(OSError, match="space"):
            node.exporter.Round()
        machine.disk_full = False
        node.exporter.Round()
        assert Text(pathutils.JobFile(8)) == "{}"
        assert not Asides()

    Play(story)


def test_a_foreign_file_that_cannot_be_replaced_is_put_aside_once() -> None:
    """The file system takes no more data: every half second it is tried again."""

    def story(node: Node, machine: Machine) -> None:
        node.exporter.Round()
        Edit(pathutils.CLUSTER_CONF_FILE, lambda text: text.replace("web.", "wob."))
        node.Change(node.snapshot.cluster.Replace(mac_prefix="aa:00:77"))
        exporter = node.NewExporter()
        machine.disk_full = True
        for _ in range(3):
            with pytest.raises((OSError, errors.GenericError)):
                exporter.Round()
            runtime.Sleep(1)
        assert len(Asides()) == 1
        machine.disk_full = False
        exporter.Round()
        assert len(Asides()) == 1 and "web." in (Text(pathutils.CLUSTER_CONF_FILE) or "")
        Edit(pathutils.CLUSTER_CONF_FILE, lambda text: text.replace("web.", "wob."))
        runtime.Sleep(20)
        exporter.Round()
        assert len(Asides()) == 2

    Play(story)


def test_a_crash_at_any_step_leaves_no_file_that_looks_edited() -> None:
    for steps in range(5, 400, 7):
        with World(steps) as world:
            machine = world.AddMachine("node1")

            def write(machine: Machine = machine) -> None:
                node = Node()
                node.exporter.Round()
                for number in range(8, 12):
                    node.Put(Row("job", str(number), "{}"), Row("job", "7", f'"{number}"'))
                    node.Change(node.snapshot.cluster.Replace(mac_prefix=f"aa:00:{number:02d}"))
                    node.exporter.Round()

            machine.StartProcess(write, "masterd")
            world.Run(max_steps=steps * 4)
            machine.PowerOff()
            machine.PowerOn()

            def look() -> tuple[Any, Any, list[str]]:
                store = NewStore()
                if not store.GetState().last.seq:
                    return None, None, []
                assert EditsOf(store) == {}
                store.Acknowledge(EPOCH, store.GetState().last, 0)
                export.Exporter(store, export.Owners(), SsconfTexts, True).Round()
                rows = {(r.kind, r.id): r.value for r in store.ReadAll()[2]}
                return Text(pathutils.JobFile(7)), rows[("job", "7")], Asides()

            found, wanted, asides = machine.Call(look)
            assert found == wanted
            assert not asides


def test_the_file_of_a_job_that_went_does_not_come_back_with_the_power() -> None:
    """Nobody remembers it: it would be taken for a job that somebody put there."""
    for seed in range(8):
        with World(seed) as world:
            machine = world.AddMachine("node1")

            def remove() -> None:
                node = Node()
                node.exporter.Round()
                node.Put(Row("job", "7", None))
                node.exporter.Round()

            def look() -> tuple[Any, Any]:
                return Text(pathutils.JobFile(7)), EditsOf(NewStore())

            machine.Call(remove)
            machine.PowerOff()
            machine.PowerOn()
            assert machine.Call(look) == (None, {})


def test_a_round_that_a_full_copy_overtook_does_not_count_for_the_new_history() -> None:
    """A master that believed it would drop archived jobs whose files this node never wrote."""
    with World(3) as world:
        machine = world.AddMachine("node2")
        count = 5 * export.PORTION

        def prepare() -> None:
            node = Node("node2")
            node.exporter.Round()
            node.Put(*(Row("job", str(number), JOB % number) for number in range(10, 10 + count)))

        def write() -> None:
            export.Exporter(NewStore("node2"), export.Owners(), SsconfTexts).Round()

        def copy() -> int:
            before = len(JobFiles())
            store, epoch, last = NewStore("node2"), Epoch(2, "bb"), Position(Epoch(2, "bb"), 1)
            final = {"pieces": 1, "last": last.Wire(), "line": [["2.bb", 1]], "pruned": 0, "acknowledged": last.Wire()}
            rows = [[KIND_ARCHIVED, "7", JOB % 7, 1, "2.bb"]]
            message = {"store": store.GetState().store_id, "copy": "c", "piece": 0, "rows": rows, "final": final}
            common = {"cluster": CLUSTER, "epoch": str(epoch), "master": "node1"}
            assert store.Handlers()["store_copy"]({**common, **message})["stored"] is True
            return before

        def look() -> tuple[int, Any]:
            return NewStore("node2").GetState().exported, Text(pathutils.ArchivedJobFile(7))

        machine.Call(prepare)
        machine.slow_disk = 5.0
        process = machine.StartProcess(write, "noded")
        world.RunFor(15.0)
        machine.slow_disk = 0.0
        assert 1 < machine.Call(copy) < count
        assert process.alive
        world.Run(until=lambda: not process.alive)
        assert machine.Call(look) == (0, None)
        machine.Call(write)
        assert machine.Call(look) == (1, JOB % 7)


@pytest.mark.parametrize("links", [True, False], ids=["linked", "may not be linked"])
def test_foreign_files_are_put_aside_on_a_node_that_is_not_the_master(links: bool) -> None:
    with World(3) as world:

        def story() -> None:
            node = Node("node2")
            node.NewExporter(serving=False).Round()
            Edit(pathutils.CLUSTER_CONF_FILE, lambda text: text.replace("web.", "wob."))
            runtime.WriteFile(pathutils.JobFile(99), "left over", 0o640)
            node.Put(Row("job", "8", "{}"))
            node.NewExporter(serving=False).Round()
            assert Text(pathutils.CLUSTER_CONF_FILE) == objects.ConfigText(node.snapshot)
            assert Text(pathutils.JobFile(99)) is None
            kept = sorted(Text(f"{pathutils.DATA_EXT_DIR}/{name}") or "" for name in Asides())
            assert len(kept) == 2 and "left over" in kept and any("wob." in text for text in kept)

        machine = world.AddMachine("node2")
        machine.links_files = links
        machine.Call(story)


def test_a_foreign_file_stays_in_place_until_the_one_of_the_store_is() -> None:
    """Its readers, confd and programs of release 3.1, find the one or the other at any moment, also after a power cut."""
    for stop in range(0, 60, 4):
        with World(stop) as world:
            machine = world.AddMachine("node2")

            def prepare() -> tuple[str, str]:
                node = Node("node2")
                node.NewExporter(serving=False).Round()
                before = Text(pathutils.CLUSTER_CONF_FILE) or ""
                Edit(pathutils.CLUSTER_CONF_FILE, lambda text: text.replace("web.", "wob."))
                return before, Text(pathutils.CLUSTER_CONF_FILE) or ""

            def write() -> None:
                export.Exporter(NewStore("node2"), export.Owners(), SsconfTexts).Round()

            ours, foreign = machine.Call(prepare)
            process = machine.StartProcess(write, "noded")
            if not stop:
                world.Run(
                    until=lambda p=process, m=machine: not p.alive or not m.disk.Lookup(pathutils.CLUSTER_CONF_FILE)
                )
                assert not process.alive, "there is none for a moment"
            world.Run(max_steps=stop * 4)
            machine.PowerOff()
            machine.PowerOn()
            assert machine.Call(lambda: Text(pathutils.CLUSTER_CONF_FILE)) in (ours, foreign)
            machine.Call(write)
            assert machine.Call(lambda: Text(pathutils.CLUSTER_CONF_FILE)) == ours
            kept = machine.Call(lambda: {Text(f"{pathutils.DATA_EXT_DIR}/{name}") for name in Asides()})
            assert kept == {foreign}


def test_an_edited_file_on_the_masters_node_is_left_for_its_next_start() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        node.exporter.Round()
        Edit(pathutils.CLUSTER_CONF_FILE, lambda text: text.replace("web.", "wob."))
        assert node.NewExporter(serving=False).Round() is None
        assert "wob." in (Text(pathutils.CLUSTER_CONF_FILE) or "")
        assert not Asides()

    Play(story)


def test_beside_an_edited_file_all_others_are_written(caplog: pytest.LogCaptureFixture) -> None:
    """The master daemon died before it wrote what it had acknowledged; then somebody edited its configuration."""

    def story(node: Node, machine: Machine) -> None:
        del machine
        node.exporter.Round()
        before = node.store.GetState().exported
        node.Put(Row("job", "8", JOB % 8), Row("job", "7", None))
        Edit(pathutils.CLUSTER_CONF_FILE, lambda text: text.replace("web.", "wob."))
        Edit(pathutils.SsconfFile("master_node"), lambda text: "an old one\n")
        exporter = node.NewExporter(serving=False)
        assert exporter.Round() is None
        assert Text(pathutils.SsconfFile("master_node")) == "node1.example.org\n"
        assert (Text(pathutils.JobFile(7)), Text(pathutils.JobFile(8))) == (None, JOB % 8)
        assert node.store.GetState().exported == before, "one file does not show it"
        # What comes later is shown as soon as it is known, and the edit stays what it was.
        node.Put(Row("job", "9", JOB % 9))
        assert exporter.Round() is None
        assert Text(pathutils.JobFile(9)) == JOB % 9
        assert "wob." in (Text(pathutils.CLUSTER_CONF_FILE) or "") and not Asides()
        assert any(kind == "instance" and "wob." in str(value) for (kind, _), value in node.Edits().items())

    Play(story)
    said = [record.message for record in caplog.records if "Files were edited by hand" in record.message]
    assert len(said) == 1, "not at each look"


def test_an_edit_on_a_state_that_was_never_in_place_stays_one_on_an_older_state() -> None:
    """Its digest was recorded for a newer state; the writer died before that one was in place."""

    def story(node: Node, machine: Machine) -> None:
        del machine
        node.exporter.Round()
        record = node.store.database.GetFiles()[pathutils.CLUSTER_CONF_FILE]
        node.Change(node.snapshot.cluster.Replace(mac_prefix="aa:00:77"))
        newest = export.Digest(objects.ConfigText(node.snapshot).encode())
        newer = record._replace(shows=node.store.GetState().last, digest=newest, placed=record.digest)
        with node.store.database.Transaction():
            node.store.database.PutFiles([newer])
        Edit(pathutils.CLUSTER_CONF_FILE, lambda text: text.replace("web.", "wob."))
        assert node.NewExporter(serving=False).Round() is None
        with pytest.raises(errors.ConfigurationError, match="older state"):
            node.Edits()

    Play(story)


def test_an_edit_is_put_aside_as_soon_as_another_node_is_the_master() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        node.exporter.Round()
        Edit(pathutils.CLUSTER_CONF_FILE, lambda text: text.replace("web.", "wob."))
        exporter = node.NewExporter(serving=False)
        assert exporter.Round() is None
        node.Put(Row(KIND_MASTER, ID_MASTER, serializer.Dump({"name": "node2", "epoch": str(EPOCH)})))
        assert exporter.Round() == node.store.GetState().last
        assert Text(pathutils.CLUSTER_CONF_FILE) == objects.ConfigText(node.snapshot)
        assert len(Asides()) == 1
        assert node.store.GetState().exported == node.store.GetState().last.seq

    Play(story)


def test_an_edit_that_was_taken_back_stands_in_no_way() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        node.exporter.Round()
        before = Text(pathutils.CLUSTER_CONF_FILE) or ""
        Edit(pathutils.CLUSTER_CONF_FILE, lambda text: text.replace("web.", "wob."))
        exporter = node.NewExporter(serving=False)
        assert exporter.Round() is None
        Edit(pathutils.CLUSTER_CONF_FILE, lambda text: before)
        runtime.Sleep(export.LOOK_AGAIN_SECONDS)
        assert exporter.Round() == node.store.GetState().last
        node.Change(node.snapshot.cluster.Replace(mac_prefix="aa:00:77"))
        assert exporter.Round() == node.store.GetState().last
        assert "aa:00:77" in (Text(pathutils.CLUSTER_CONF_FILE) or "") and not Asides()

    Play(story)


def test_beside_a_master_of_another_user_the_node_writes_ssconf_and_nothing_else() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        serving = node.store.Serve()
        beside = export.Exporter(node.store, export.Owners(), SsconfTexts, beside=True)
        master = export.Exporter(node.store, export.Owners(), None, serving=True)
        assert export.Exporter(node.store, export.Owners(), SsconfTexts).Round() is None
        beside.Round()
        assert Text(pathutils.CLUSTER_CONF_FILE) is None
        assert Text(pathutils.SsconfFile("cluster_name")) == f"{node.snapshot.cluster.cluster_name}\n"
        master.Round()
        node.Change(node.snapshot.cluster.Replace(cluster_name="other.example.org"))
        master.Round()
        beside.Round()
        assert Text(pathutils.SsconfFile("cluster_name")) == "other.example.org\n"
        assert Text(pathutils.CLUSTER_CONF_FILE) == objects.ConfigText(node.snapshot)
        serving.release()
        node.Put(Row("job", "8", "{}"))
        beside.Round()
        assert Text(pathutils.JobFile(8)) == "{}"
        assert not Asides()

    Play(story)


def test_beside_a_master_only_ssconf_files_that_changed_are_written() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        paths = [pathutils.SsconfFile(name) for name in ("cluster_name", "node_list")]
        serving = node.store.Serve()
        export.Exporter(node.store, export.Owners(), SsconfTexts, beside=True).Round()
        before = [runtime.Stat(path).st_ino for path in paths]
        Edit(paths[0], lambda text: "another.example.org\n")
        export.Exporter(node.store, export.Owners(), SsconfTexts, beside=True).Round()
        assert Text(paths[0]) == f"{node.snapshot.cluster.cluster_name}\n"
        after = [runtime.Stat(path).st_ino for path in paths]
        assert after[0] != before[0] and after[1] == before[1]
        serving.release()

    Play(story)


def test_a_file_of_an_older_release_that_holds_what_is_wanted_stays() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        runtime.MakeDirs(pathutils.QUEUE_DIR)
        wanted = {pathutils.CLUSTER_CONF_FILE: objects.ConfigText(node.snapshot), pathutils.JobFile(7): JOB % 7}
        for path, text in wanted.items():
            runtime.WriteFile(path, text, 0o640)
        before = {path: runtime.Stat(path).st_ino for path in wanted}
        node.exporter.Round()
        assert {path: runtime.Stat(path).st_ino for path in wanted} == before
        assert not Asides()
        # They are files of the store from now on: an edit is seen as one.
        Edit(pathutils.CLUSTER_CONF_FILE, lambda text: text.replace("web.", "wob."))
        assert ("instance", configs.WEB) in node.Edits()

    Play(story)


@StoreStory
def test_the_files_follow_the_master_and_are_exact_after_its_stop(make: Any) -> None:
    cluster = make(1)
    store = cluster.Found(0, Row("job", "1", JOB % 1))
    thread = export.ExporterThread(export.Exporter(cluster[0].store, export.Owners(), SsconfTexts, serving=True), store)
    thread.Start()
    assert Text(pathutils.JobFile(1)) == JOB % 1, "after a start the files are exact"
    for number in (2, 3):
        store.Commit(Rows(Row("job", str(number), JOB % number)))
        Until(lambda number=number: Text(pathutils.JobFile(number)) == JOB % number, 1.0)
    store.Commit(Rows(Row("job", "4", JOB % 4)))
    assert store.Stop() is True
    began = runtime.Monotonic()
    thread.Stop()
    assert runtime.Monotonic() - began < 2 * export.ROUND_SECONDS
    assert Text(pathutils.JobFile(4)) == JOB % 4


def test_files_that_cannot_be_written_are_in_the_log_until_they_are(caplog: pytest.LogCaptureFixture) -> None:
    @StoreStory
    def play(make: Any) -> None:
        cluster = make(1)
        store = cluster.Found(0, Row("job", "1", JOB % 1))
        exporter = export.Exporter(cluster[0].store, export.Owners(), SsconfTexts, serving=True)
        thread = export.ExporterThread(exporter, store)
        thread.Start()
        for number in (2, 3):
            caplog.clear()
            runtime.MakeDirs(pathutils.JobFile(number))
            store.Commit(Rows(Row("job", str(number), JOB % number)))
            runtime.Sleep(20.0)
            assert [r.levelname for r in caplog.records if "could not be brought up to date" in r.message] == ["ERROR"]
            runtime.RemoveDir(pathutils.JobFile(number))
            Until(lambda number=number: Text(pathutils.JobFile(number)) == JOB % number, 20.0)
            runtime.Sleep(1.0)
            assert "that is over" in caplog.text
        store.Stop()
        thread.Stop()

    with caplog.at_level("INFO"):
        play()


def test_a_file_that_went_is_written_when_it_is_wanted_again() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        for _ in range(2):
            node.Put(Row("queue", "drain", "true"))
            node.exporter.Round()
            assert Text(pathutils.JOB_QUEUE_DRAIN_FILE) == ""
            node.Put(Row("queue", "drain", None))
            node.exporter.Round()
            assert Text(pathutils.JOB_QUEUE_DRAIN_FILE) is None

    Play(story)


def test_missing_files_are_written_anew() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        node.exporter.Round()
        runtime.RemoveFile(pathutils.CLUSTER_CONF_FILE)
        runtime.RemoveFile(pathutils.JobFile(7))
        assert node.Edits() == {}
        node.NewExporter().Round()
        assert Text(pathutils.CLUSTER_CONF_FILE) == objects.ConfigText(node.snapshot)
        assert Text(pathutils.JobFile(7)) == JOB % 7

    Play(story)


# Edits made by hand


def test_an_archived_file_is_forgotten_even_if_the_end_of_its_row_was_not_seen() -> None:
    """Deletions are pruned as soon as all voters have them, maybe before this node has written a file since."""

    def story(node: Node, machine: Machine) -> None:
        del machine
        path = pathutils.ArchivedJobFile(7)
        node.Put(Row("job", "7", None), Row("archived", "7", JOB % 7))
        node.exporter.Round()
        assert path in node.store.database.GetFiles()
        position = node.Put(Row("archived", "7", None))
        node.Put(Row("queue", "serial", "8"))
        node.store.Acknowledge(EPOCH, node.store.GetState().last, position.seq)
        node.exporter.Round()
        assert path not in node.store.database.GetFiles()
        assert path not in node.exporter._shown.placed
        assert Text(path) == JOB % 7
        assert node.Edits() == {}

    Play(story)


# Files that somebody else touches while daemons run


@pytest.mark.parametrize("serving", (True, False))
def test_files_that_were_removed_or_changed_are_written_again(serving: bool) -> None:
    with World(3) as world:

        def story() -> None:
            node = Node("node1" if serving else "node2")
            exporter = node.NewExporter(serving)
            exporter.Round()
            runtime.RemoveFile(pathutils.SsconfFile("node_list"))
            Edit(pathutils.SsconfFile("cluster_name"), lambda text: "another.example.org\n")
            Edit(pathutils.CLUSTER_CONF_FILE, lambda text: text.replace("web.", "wob."))
            runtime.RemoveFile(pathutils.JOB_QUEUE_SERIAL_FILE)
            runtime.Sleep(export.LOOK_AGAIN_SECONDS)
            exporter.Round()
            assert Text(pathutils.SsconfFile("node_list"))
            assert Text(pathutils.SsconfFile("cluster_name")) == f"{node.snapshot.cluster.cluster_name}\n"
            assert Text(pathutils.CLUSTER_CONF_FILE) == objects.ConfigText(node.snapshot)
            assert Text(pathutils.JOB_QUEUE_SERIAL_FILE) == "7\n"
            assert len(Asides()) == 1, "an edited configuration is kept"
            runtime.Sleep(export.LOOK_AGAIN_SECONDS)
            exporter.Round()
            assert len(Asides()) == 1

        world.AddMachine("node1").Call(story)
        assert not world.failures


def test_a_long_round_of_the_node_daemon_gives_way_to_a_master_that_starts() -> None:
    with World(3) as world:
        machine = world.AddMachine("node1")
        count = 5 * export.PORTION

        def prepare() -> None:
            node = Node()
            node.exporter.Round()
            node.Put(*(Row("job", str(number), JOB % number) for number in range(10, 10 + count)))

        def rounds() -> None:
            store = NewStore()
            export.RunExporter(export.Exporter(store, export.Owners(), SsconfTexts), lambda: False)

        def start() -> int:
            store = NewStore()
            serving = store.Serve()
            before = len(JobFiles())
            export.Exporter(store, export.Owners(), SsconfTexts, serving=True).Round()
            assert len(JobFiles()) == count + 1
            serving.release()
            return before

        machine.Call(prepare)
        # One portion takes longer than half of what a start waits for: all of them would take far too long.
        machine.slow_disk = 70.0
        machine.StartProcess(rounds, "noded")
        world.RunFor(100.0)
        done = machine.Call(start)
        assert 0 < done < count


def test_a_look_that_finds_nothing_new_reads_nothing() -> None:
    with World(3, trace=True) as world:

        def story() -> None:
            node = Node()
            node.exporter.Round()
            for _ in range(3):
                runtime.Sleep(export.LOOK_AGAIN_SECONDS + 1)
                before = len(world.trace)
                node.exporter.Round()
                steps = [str(step) for step in world.trace[before:]]
                assert any("Stat" in step for step in steps)
                assert not any("ReadFile" in step or "ListDir" in step for step in steps)

        world.AddMachine("node1").Call(story)
        assert not world.failures
