"""Files of the store that were edited by hand while no master ran: what is taken for a change, and what is refused (rule 11)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from simulated import Machine, World
from support import configs
from support.exports import CLUSTER, EPOCH, JOB, Asides, Edit, EditsOf, NewStore, Node, Play, SsconfTexts, Text

from ganeti import errors, objects, pathutils, runtime, serializer
from ganeti.store import Epoch, NodeStore, Row
from ganeti.store.base import NOWHERE
from ganeti.store.files import export


def test_an_edit_on_the_newest_state_is_taken_as_a_change() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        node.exporter.Round()
        assert node.Edits() == {}
        Edit(pathutils.CLUSTER_CONF_FILE, lambda text: text.replace("web.example.org", "wob.example.org"))
        edits = node.Edits()
        assert set(edits) == {("instance", configs.WEB), ("config", "config")}
        assert '"wob.example.org"' in str(edits[("instance", configs.WEB)])
        assert serializer.Load(edits[("config", "config")] or "")["serial_no"] == node.snapshot.serial_no + 1

    Play(story)


def test_an_edit_may_take_objects_away() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        node.exporter.Round()

        def remove(text: str) -> str:
            data = serializer.Load(text)
            del data["instances"][configs.WEB]
            return serializer.Dump(data)

        Edit(pathutils.CLUSTER_CONF_FILE, remove)
        assert node.Edits()[("instance", configs.WEB)] is None

    Play(story)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text[:-20], "JSON"),
        (lambda text: text.replace('"group":"00000002', '"group":"99999999'), "group"),
        (lambda text: text.replace('"version":3010000', '"version":2010000'), "version"),
        (lambda text: text.replace('"uuid":"00000001-', '"uuid":"00000009-'), "uuid"),
    ],
)
def test_an_edit_without_sense_is_refused_and_nothing_is_touched(change: Callable[[str], str], words: str) -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        node.exporter.Round()
        Edit(pathutils.CLUSTER_CONF_FILE, change)
        before = (Text(pathutils.CLUSTER_CONF_FILE), node.store.GetState())
        with pytest.raises(errors.ConfigurationError) as caught:
            node.Edits()
        assert pathutils.CLUSTER_CONF_FILE in str(caught.value)
        assert words in str(caught.value)
        assert caught.value.hint
        assert before == (Text(pathutils.CLUSTER_CONF_FILE), node.store.GetState())

    Play(story)


def test_an_edit_on_an_older_state_is_refused() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        node.exporter.Round()
        Edit(pathutils.CLUSTER_CONF_FILE, lambda text: text.replace("web.", "wob."))
        # Meanwhile another master changed something.
        node.Change(node.snapshot.cluster.Replace(mac_prefix="aa:bb:cc"))
        with pytest.raises(errors.ConfigurationError, match="older state"):
            node.Edits()

    Play(story)


def test_an_edit_before_a_job_ran_is_still_on_the_newest_configuration() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        node.exporter.Round()
        node.Put(Row("job", "8", JOB % 8))
        node.exporter.Round()
        Edit(pathutils.CLUSTER_CONF_FILE, lambda text: text.replace("web.", "wob."))
        assert ("instance", configs.WEB) in node.Edits()

    Play(story)


def test_edits_of_the_queue() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        node.exporter.Round()
        Edit(pathutils.JobFile(7), lambda text: text.replace("null", "[1, 2]"))
        runtime.WriteFile(pathutils.JOB_QUEUE_SERIAL_FILE, "12\n", 0o640)
        runtime.WriteFile(pathutils.JOB_QUEUE_DRAIN_FILE, "", 0o644)
        edits = node.Edits()
        assert edits == {
            ("job", "7"): (JOB % 7).replace("null", "[1, 2]"),
            ("queue", "serial"): "12",
            ("queue", "drain"): "true",
        }

    Play(story)


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        (pathutils.JOB_QUEUE_SERIAL_FILE, "3\n", "last job id, 7"),
        (pathutils.JOB_QUEUE_SERIAL_FILE, "many\n", "number"),
        (pathutils.JobFile(7), JOB % 8, "another job"),
        (pathutils.JobFile(7), "\xff{", "JSON"),
    ],
)
def test_edits_of_the_queue_without_sense_are_refused(path: str, text: str, words: str) -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        node.exporter.Round()
        runtime.WriteFile(path, text, 0o640)
        with pytest.raises(errors.ConfigurationError) as caught:
            node.Edits()
        assert path in str(caught.value)
        assert words in str(caught.value)

    Play(story)


def test_files_the_store_never_wrote_are_no_edits() -> None:
    """A candidate that becomes master with the files of an older release: the store's state goes on."""

    def story(node: Node, machine: Machine) -> None:
        del machine
        runtime.MakeDirs(pathutils.QUEUE_DIR)
        runtime.WriteFile(pathutils.CLUSTER_CONF_FILE, configs.ExampleText().replace("web.", "old."), 0o640)
        assert node.Edits() == {}
        node.exporter.Round()
        assert Text(pathutils.CLUSTER_CONF_FILE) == objects.ConfigText(node.snapshot)
        assert len(Asides()) == 1

    Play(story)


def Adopt(node: Node, rows: dict[tuple[str, str], str | None]) -> None:
    """The next start takes these rows into the first transaction of its epoch."""
    epoch = Epoch(node.store.GetState().promised.number + 1, "bb")
    node.store.Promise(CLUSTER, epoch, "node1")
    node.store.Adopt(epoch, None, node.store.GetLine(), 0, True, [Row(*key, value) for key, value in rows.items()])


def test_a_crash_before_the_files_show_an_edit_needs_nobody() -> None:
    """The edit is stored, the file still holds it, and no file was written since: the next start goes on."""

    def story(node: Node, machine: Machine) -> None:
        del machine
        node.exporter.Round()
        Edit(pathutils.CLUSTER_CONF_FILE, lambda text: text.replace("web.", "wob."))
        edits = node.Edits()
        assert ("instance", configs.WEB) in edits
        Adopt(node, edits)
        assert node.NewExporter(serving=False).Round() is None, "it is left for the master"
        assert node.Edits() == {}
        Adopt(node, {})
        assert node.Edits() == {}
        # What was edited after that is an edit on an older state as before.
        Edit(pathutils.CLUSTER_CONF_FILE, lambda text: text.replace("wob.", "wub."))
        with pytest.raises(errors.ConfigurationError, match="older state"):
            node.Edits()

    Play(story)


def test_a_drain_flag_removed_by_hand_is_gone() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        node.Put(Row("queue", "drain", "true"))
        node.exporter.Round()
        runtime.RemoveFile(pathutils.JOB_QUEUE_DRAIN_FILE)
        assert node.NewExporter(serving=False).Round() is None, "it is left for the next start of the master"
        assert node.Edits() == {("queue", "drain"): None}
        Adopt(node, node.Edits())
        assert node.Edits() == {}

    Play(story)


@pytest.mark.parametrize("row", [Row("queue", "drain", "true"), Row("job", "9", JOB % 9)])
def test_a_crash_while_a_file_comes_or_goes_is_no_edit(row: Row) -> None:
    for steps in range(1, 400):
        with World(3) as world:
            machine = world.AddMachine("node1")

            def prepare() -> None:
                node = Node()
                node.exporter.Round()
                node.Put(row)

            def put() -> NodeStore:
                store = NewStore()
                export.Exporter(store, export.Owners(), SsconfTexts, True).Round()
                return store

            def take_away() -> None:
                store = put()
                store.Store(EPOCH, [row._replace(value=None)], NOWHERE)
                store.Acknowledge(EPOCH, store.GetState().last, 0)
                put()

            def edits() -> Any:
                return EditsOf(NewStore())

            machine.Call(prepare)
            process = machine.StartProcess(take_away, "masterd")
            until = world.steps + steps
            world.Run(until=lambda until=until, process=process: world.steps >= until or not process.alive)  # type: ignore[misc]
            ended = not process.alive
            process.Kill()
            assert machine.Call(edits) == {}, f"killed after {steps} steps"
            if ended:
                return
    raise AssertionError("the story is longer than that")


def test_an_edited_file_that_cannot_be_read_is_refused() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        node.exporter.Round()
        for path in (pathutils.CLUSTER_CONF_FILE, pathutils.JobFile(7), pathutils.JOB_QUEUE_SERIAL_FILE):
            runtime.RemoveFile(path)
            runtime.MakeDirs(path)
            with pytest.raises(errors.ConfigurationError, match="cannot be read") as caught:
                node.Edits()
            assert path in str(caught.value)
            runtime.RemoveDir(path)

    Play(story)
