"""How an exporter begins: where another one of its node ended, unless somebody has touched the files (rules 10 and 11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from simulated import Machine, World
from support import configs
from support.exports import EPOCH, JOB, Asides, Edit, Node, Play, SsconfTexts, Text

from ganeti import objects, pathutils, runtime, ssconf
from ganeti.store import Position, Row
from ganeti.store.base import NOWHERE
from ganeti.store.election import Adopted
from ganeti.store.files import export
from ganeti.store.files.edits import HandEdits
from ganeti.store.files.look import JobFiles


def test_a_file_with_the_stamp_that_was_noted_is_not_read_again() -> None:
    with World(3, trace=True) as world:

        def story() -> None:
            node = Node()
            node.exporter.Round()
            node.Put(*(Row("job", str(number), JOB % number) for number in range(10, 20)))
            node.exporter.Round()
            before = len(world.trace)
            node.NewExporter().Round()
            assert node.Edits() == {}
            read = [step for step in world.trace[before:] if "ReadFile" in str(step)]
            assert [step for step in read if "/queue/job-" in str(step)] == []
            Edit(pathutils.JobFile(12), lambda text: text.replace("null", "true"))
            assert ("job", "12") in node.Edits()

        world.AddMachine("node1").Call(story)
        assert not world.failures


def _StepsOfAStart(jobs: int) -> tuple[int, int]:
    """Return the steps of the first round of a new exporter, and of a look for edits, beside so many finished jobs."""
    with World(3, trace=True) as world:

        def story() -> tuple[int, int]:
            runtime.MakeDirs(pathutils.QUEUE_DIR)
            # Half of them are files of release 3.1 that become the store's.
            for number in range(10, 10 + jobs // 2):
                runtime.WriteFile(pathutils.JobFile(number), JOB % number, 0o640)
            node = Node()
            node.Put(*(Row("job", str(number), JOB % number) for number in range(10, 10 + jobs)))
            node.exporter.Round()
            before = len(world.trace)
            node.NewExporter().Round()
            between = len(world.trace)
            assert node.Edits() == {}
            return between - before, len(world.trace) - between

        counts = world.AddMachine("node1").Call(story)
        assert not world.failures
        return counts


def test_a_start_takes_as_many_steps_beside_many_jobs_as_beside_few() -> None:
    assert _StepsOfAStart(200) == _StepsOfAStart(20)


def test_a_start_looks_at_the_files_once() -> None:
    with World(3, trace=True) as world:

        def story() -> None:
            node = Node()
            node.exporter.Round()
            state, line, _ = node.store.ReadAll()
            edits = HandEdits(node.store, lambda job_id, text: None)
            assert edits.Rows(Adopted({}, {}, state.last, line)) == []
            exporter = export.Exporter(node.store, export.Owners(), SsconfTexts, serving=True, look=edits.look)
            before = len(world.trace)
            assert exporter.Round() == state.last
            steps = [str(step) for step in world.trace[before:]]
            assert not [step for step in steps if "ListStats" in step or "ReadFile" in step]
            # What changes later is noticed, although the look was an early one.
            runtime.RemoveFile(pathutils.CLUSTER_CONF_FILE)
            runtime.Sleep(export.LOOK_AGAIN_SECONDS)
            exporter.Round()
            assert runtime.Exists(pathutils.CLUSTER_CONF_FILE)

        world.AddMachine("node1").Call(story)
        assert not world.failures


def test_rows_that_came_after_the_last_round_are_written_at_the_next_start() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        node.Put(Row("job", "8", JOB % 8), Row("queue", "drain", "true"))
        node.exporter.Round()
        before = runtime.Stat(pathutils.JobFile(7)).st_ino
        node.Put(Row("job", "8", None), Row("job", "9", JOB % 9), Row("queue", "serial", "9"))
        node.Put(Row("queue", "drain", None))
        node.NewExporter().Round()
        assert Text(pathutils.JobFile(8)) is None and Text(pathutils.JobFile(9)) == JOB % 9
        assert Text(pathutils.JOB_QUEUE_SERIAL_FILE) == "9\n"
        assert Text(pathutils.JOB_QUEUE_DRAIN_FILE) is None
        assert runtime.Stat(pathutils.JobFile(7)).st_ino == before

    Play(story)


def test_a_release_that_makes_other_texts_of_the_same_rows_writes_them_at_its_start() -> None:
    def newer(rows: Mapping[str, Mapping[str, str]]) -> Any:
        return {**SsconfTexts(rows), "release_version": "3.2.0"}

    def story(node: Node, machine: Machine) -> None:
        del machine
        node.exporter.Round()
        node.NewExporter().Round()
        assert Text(pathutils.SsconfFile("release_version")) != "3.2.0\n"
        export.Exporter(node.store, export.Owners(), newer, serving=True).Round()
        assert Text(pathutils.SsconfFile("release_version")) == "3.2.0\n"
        assert not Asides()

    Play(story)


@pytest.mark.parametrize("what", ["edited", "removed", "added"])
def test_a_start_notices_the_one_file_that_changed(what: str) -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        node.Put(*(Row("job", str(number), JOB % number) for number in range(10, 20)))
        node.exporter.Round()
        if what == "edited":
            Edit(pathutils.JobFile(12), lambda text: text.replace("null", "true"))
        elif what == "removed":
            runtime.RemoveFile(pathutils.JobFile(12))
        else:
            runtime.WriteFile(pathutils.JobFile(5), JOB % 5, 0o640)
        node.NewExporter(serving=True).Round()
        assert {job_id: Text(path) for job_id, path in JobFiles().items()} == {
            number: JOB % number for number in (7, *range(10, 20))
        }
        assert len(Asides()) == (0 if what == "removed" else 1), "what somebody wrote is kept"

    Play(story)


def test_an_ssconf_file_is_made_good_at_the_start_of_who_writes_it() -> None:
    with World(3, trace=True) as world:

        def story() -> None:
            node = Node()
            node.exporter.Round()
            path = pathutils.SsconfFile("cluster_name")
            for exporter, good in (
                (export.Exporter(node.store, export.Owners(), None, serving=True), False),
                (node.NewExporter(), True),
            ):
                runtime.WriteFile(path, "odd\n", 0o444)
                before = len(world.trace)
                exporter.Round()
                # A master that may not write them does not look at all files because of them.
                looked = [step for step in world.trace[before:] if "ReadFile" in str(step)]
                assert (Text(path) != "odd\n") is good
                assert bool(looked) is good

        world.AddMachine("node1").Call(story)
        assert not world.failures


def test_an_exporter_that_waited_for_the_files_leaves_them_to_the_master_that_has_them() -> None:
    with World(3) as world:
        machine = world.AddMachine("node1")
        answers: list[Position | None] = []

        def story() -> None:
            node = Node()
            node.exporter.Round()
            node.Put(Row("job", "8", JOB % 8))
            with export.LockFiles(node.store, serving=True):
                waiting = runtime.Thread(lambda: answers.append(node.NewExporter(serving=False).Round()), "noded")
                waiting.start()
                runtime.Sleep(1.0)
                serving = node.store.Serve()
                seen = node.store.database.GetFiles()
            waiting.join()
            assert answers == [None]
            assert node.store.database.GetFiles() == seen, "what the master saw is still so"
            serving.release()

        machine.Call(story)
        assert not world.failures


def test_a_first_round_that_was_too_early_leaves_nothing_out() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        node.exporter.Round()
        later = node.NewExporter()
        # Nothing of this history may be shown yet: it came as a whole, and how far it is acknowledged is not known.
        with node.store.Writing(EPOCH) as (database, state):
            before = state
            database.PutState(state.With(acknowledged=NOWHERE, whole=state.last.seq))
        assert later.Round() is None
        with node.store.Writing(EPOCH) as (database, _):
            database.PutState(before)
        node.Change(node.snapshot.instances[configs.WEB].Replace(serial_no=77))
        later.Round()
        assert Text(pathutils.CLUSTER_CONF_FILE) == objects.ConfigText(node.snapshot)

    Play(story)


def test_what_another_exporter_wrote_meanwhile_is_replaced_by_what_is_wanted_again() -> None:
    def story(node: Node, machine: Machine) -> None:
        del machine
        node.exporter.Round()
        other = node.NewExporter()
        node.Put(Row("job", "7", JOB % 7 + " "))
        other.Round()
        assert Text(pathutils.JobFile(7)) == JOB % 7 + " "
        node.Put(Row("job", "7", JOB % 7))
        node.exporter.Round()
        assert Text(pathutils.JobFile(7)) == JOB % 7

    Play(story)


def test_ssconf_files_are_written_by_one_at_a_time() -> None:
    with World(3) as world:

        def story() -> None:
            node = Node()
            path = pathutils.SsconfFile("cluster_name")
            lock = ssconf.Lock()
            writer = runtime.Thread(lambda: node.exporter.Round(), "exporter")
            writer.start()
            runtime.Sleep(1.0)
            assert runtime.Exists(pathutils.CLUSTER_CONF_FILE) and not runtime.Exists(path)
            lock.release()
            writer.join()
            assert Text(path) == f"{node.snapshot.cluster.cluster_name}\n"

        world.AddMachine("node1").Call(story)
        assert not world.failures


def test_the_end_of_a_job_makes_no_text_of_the_configuration() -> None:
    made: list[int] = []

    def texts(rows: Mapping[str, Mapping[str, str]]) -> Any:
        made.append(len(rows))
        return SsconfTexts(rows)

    def story(node: Node, machine: Machine) -> None:
        del machine
        exporter = export.Exporter(node.store, export.Owners(), texts, serving=True)
        exporter.Round()
        assert len(made) == 1
        node.Put(Row("job", "8", JOB % 8))
        exporter.Round()
        assert Text(pathutils.JobFile(8)) == JOB % 8 and len(made) == 1
        node.Change(node.snapshot.instances[configs.WEB].Replace(serial_no=77))
        exporter.Round()
        assert len(made) == 2

    Play(story)


def test_files_show_one_moment_however_much_is_written_meanwhile() -> None:
    for seed in range(1, 16):
        with World(seed) as world:

            def story() -> list[tuple[str | None, str | None]]:
                node = Node()
                node.Put(Row("job", "8", "[0]"), Row("job", "9", "[0]"))
                node.exporter.Round()
                writing = [True]

                def write() -> None:
                    for number in range(40):
                        node.Put(Row("job", "8", f"[{number}]"), Row("job", "9", f"[{number}]"))
                    writing.clear()

                runtime.Thread(write, "master").start()
                seen = []
                while writing:
                    # A file that is missing has the next exporter read everything.
                    runtime.RemoveFile(pathutils.JobFile(7))
                    exporter = node.NewExporter()
                    exporter.Round()
                    exporter.Round()
                    seen.append((Text(pathutils.JobFile(8)), Text(pathutils.JobFile(9))))
                return seen

            seen = world.AddMachine("node1").Call(story)
            assert len(set(seen)) > 1
            assert [pair for pair in seen if pair[0] != pair[1] or pair[0] is None] == [], seed
            assert not world.failures
