"""ganeti-confd without its process: when it reads its files, and what it says about datagrams that it drops."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from simulated.world import World
from support import configs

from ganeti import objects, pathutils, renewal, runtime
from ganeti.confd import queries, wire
from ganeti.server import confd, confdload

KEY = b"0123456789abcdef0123456789abcdef01234567\n"
ROOT = configs.Example()
NODE = ROOT.nodes[configs.NODE2]
OWN = ROOT.nodes[configs.NODE1].name


def _Write(root: objects.Snapshot | str) -> None:
    text = root if isinstance(root, str) else objects.ConfigText(root)
    runtime.WriteFile(pathutils.CLUSTER_CONF_FILE, text)


def _Files() -> None:
    runtime.MakeDirs(pathutils.DATA_DIR)
    runtime.WriteFile(pathutils.CONFD_HMAC_KEY, KEY)


def _On(name: str, story: Any) -> Any:
    with World(5) as world:
        return world.AddMachine(name).Call(story)


def _Role(loader: confdload.Loader) -> int | None:
    view = loader.state.view
    node = None if view is None else view.FindNode(NODE.name)
    return None if view is None or node is None else view.Role(node)


def _Started() -> confdload.Loader:
    loader = confdload.Loader()
    runtime.Thread(loader.Run, "loader").start()
    return loader


OFFLINE = ROOT.WithObject(NODE.Replace(offline=True, master_candidate=False))


def test_a_change_is_read_at_once() -> None:
    def story() -> None:
        _Files()
        _Write(ROOT)
        loader = _Started()
        runtime.Sleep(5)
        assert _Role(loader) == queries.ROLE_CANDIDATE
        _Write(OFFLINE)
        runtime.Sleep(0.1)
        assert _Role(loader) == queries.ROLE_OFFLINE
        # Soon after the last one it has to wait a little.
        _Write(ROOT)
        runtime.Sleep(0.1)
        assert _Role(loader) == queries.ROLE_OFFLINE
        runtime.Sleep(confdload.PAUSE)
        assert _Role(loader) == queries.ROLE_CANDIDATE

    _On(OWN, story)


@pytest.mark.parametrize("seed", range(20))
def test_a_file_that_is_replaced_during_a_look_is_read_by_the_next(seed: int) -> None:
    def story() -> None:
        _Files()
        _Write(ROOT)
        loader = confdload.Loader()
        writer = runtime.Thread(lambda: _Write(OFFLINE), "writer")
        writer.start()
        loader.Look()
        writer.join()
        loader.Look()
        assert _Role(loader) == queries.ROLE_OFFLINE

    with World(seed) as world:
        world.AddMachine(OWN).Call(story)


def test_where_nothing_can_be_watched_it_looks_every_second() -> None:
    def story() -> None:
        loader = _Started()
        runtime.Sleep(5)
        assert loader.state == confdload.State()
        # The folder was not there when the watch began.
        _Files()
        _Write(ROOT)
        runtime.Sleep(2.5)
        assert _Role(loader) == queries.ROLE_CANDIDATE

    _On(OWN, story)


def test_what_the_log_says_is_true_when_it_says_so() -> None:
    """Whoever reads that questions are answered now asks at once."""
    said: list[tuple[str, bool]] = []

    def story() -> None:
        loader = confdload.Loader()
        note = logging.Handler()
        note.emit = lambda record: said.append((record.getMessage(), _Role(loader) is not None))  # type: ignore[method-assign]
        root = logging.getLogger()
        root.addHandler(note)
        root.setLevel(logging.INFO)
        _Files()
        for change in (None, ROOT, OFFLINE, ROOT):
            if change is not None:
                _Write(change)
            loader.Look()

    _On(NODE.name, story)
    answers = [answered for text, answered in said if "questions are answered" in text or "Read the conf" in text]
    silences = [answered for text, answered in said if "No question is answered" in text]
    assert (answers, silences) == ([True] * 4, [False] * 2)


@pytest.mark.req("D21-CONFD-01")
def test_when_it_is_silent_and_when_it_reports_an_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    def story() -> None:
        loader = confdload.Loader()

        def look(reason: str) -> confdload.State:
            caplog.clear()
            loader.Look()
            assert reason in caplog.text
            return loader.state

        assert look("No question is answered: The key") == confdload.State()
        _Files()
        assert look("this node has no copy of the configuration") == confdload.State()
        _Write("{")
        broken = look("every question is answered with this error")
        assert broken.keys == (KEY,) and broken.view is None and "cannot be read" in broken.failure
        _Write(OFFLINE)
        assert look("this node is not a master candidate") == confdload.State()
        _Write(ROOT)
        state = look("This node is a master candidate now")
        assert state.keys == (KEY,) and state.view is not None
        # Nothing changed: nothing is read.
        assert not loader.Look() and loader.state is state
        runtime.WriteFile(pathutils.CONFD_HMAC_KEY, b"another\n")
        loader.Look()
        assert loader.state.keys == (b"another\n",)
        runtime.RemoveFile(pathutils.CLUSTER_CONF_FILE)
        assert look("this node has no copy of the configuration") == confdload.State()

    _On(NODE.name, story)


def test_a_stranger_with_a_configuration_is_silent() -> None:
    def story() -> None:
        _Files()
        _Write(ROOT)
        loader = confdload.Loader()
        loader.Look()
        assert loader.state == confdload.State()

    _On("stranger.example.net", story)


def test_after_a_restart_a_copy_of_an_earlier_question_gets_no_answer() -> None:
    """The process that has answered it is gone, and with it what it remembered."""

    def story() -> None:
        _Files()
        _Write(ROOT)
        loader = confdload.Loader()
        loader.Look()
        question = wire.Request(queries.PING, None, "r")
        datagram = wire.PackRequest(KEY, question, runtime.Time())
        assert confd.Server(runtime.OpenUdp("127.0.0.1"), loader).Handle(datagram, "192.0.2.1") is not None
        runtime.Sleep(5)
        restarted = confd.Server(runtime.OpenUdp("127.0.0.1"), loader)
        assert restarted.Handle(datagram, "192.0.2.2") is None
        assert restarted.tally.total == {wire.CLOCK: 1}
        again = wire.PackRequest(KEY, question, runtime.Time())
        assert restarted.Handle(again, "192.0.2.1") is not None

    _On(OWN, story)


def test_dropped_datagrams_are_counted_and_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    def story() -> None:
        _Files()
        loader = confdload.Loader()
        server = confd.Server(runtime.OpenUdp("127.0.0.1"), loader)
        loader.Look()
        good = wire.PackRequest(KEY, wire.Request(queries.PING, None, "r"), runtime.Time())
        assert server.Handle(good, "192.0.2.1") is None
        _Write(ROOT)
        loader.Look()
        assert server.Handle(good, "192.0.2.1") is not None
        for _ in range(1000):
            assert server.Handle(b"plj1", "192.0.2.2") is None
        runtime.Sleep(61)
        for _ in range(10):
            assert server.Handle(good, "192.0.2.3") is None
        assert server.tally.total == {confd.NO_ANSWER: 1, wire.BAD_MAGIC: 1000, wire.REPLAY: 10}

    _On(OWN, story)
    lines = [record.message for record in caplog.records if "Dropped" in record.message]
    assert len(lines) == 2
    assert "no answer 1; the last one, from 192.0.2.1: this node does not answer questions" in lines[0]
    assert "magic 1000, replay 1; the last one, from 192.0.2.3" in lines[1]


def test_a_broken_configuration_is_the_answer() -> None:
    def story() -> None:
        _Files()
        _Write("{")
        loader = confdload.Loader()
        loader.Look()
        server = confd.Server(runtime.OpenUdp("127.0.0.1"), loader)
        datagram = server.Handle(
            wire.PackRequest(KEY, wire.Request(queries.PING, None, "r"), runtime.Time()), "192.0.2.1"
        )
        assert datagram is not None
        reply, rsalt = wire.OpenReply(KEY, datagram)
        assert rsalt == "r" and reply.status == queries.ERROR and "cannot be read" in reply.answer

    _On(OWN, story)


def test_a_configuration_that_contradicts_itself_does_not_end_the_daemon() -> None:
    """A disk that is not there, and a minor that is no number: the questions about them fail, the others do not."""
    disk = ROOT.disks[configs.WEB_DISK]
    logical_id = [*disk.logical_id]
    second = disk.Replace(uuid=configs.Uuid(71), logical_id=[*logical_id[:3], None, None, "x"])
    missing = ROOT.instances[configs.WEB].Replace(disks=[configs.Uuid(70), second.uuid, disk.uuid])
    root = ROOT.WithObject(second).WithObject(missing)

    def story() -> list[Any]:
        _Files()
        _Write(root)
        loader = confdload.Loader()
        loader.Look()
        server = confd.Server(runtime.OpenUdp("127.0.0.1"), loader)
        replies = []
        for kind, query in (
            (queries.INSTANCE_DISKS, missing.name),
            (queries.NODE_DRBD, NODE.name),
            (queries.PING, None),
        ):
            datagram = server.Handle(wire.PackRequest(KEY, wire.Request(kind, query, "r"), runtime.Time()), "192.0.2.1")
            assert datagram is not None
            replies.append(wire.OpenReply(KEY, datagram)[0])
        return replies

    disks, minors, ping = _On(OWN, story)
    assert disks.status == queries.ERROR and f"disk {configs.Uuid(70)} is not in the configuration" in disks.answer
    assert minors == wire.Reply(queries.ERROR, queries.INTERNAL, 0)
    assert ping.status == queries.OK


def test_while_the_key_is_replaced_a_question_is_answered_with_its_own_key() -> None:
    keys = {suffix: f"key{suffix}\n".encode() for suffix in ("", renewal.NEXT, renewal.OLD)}

    def story() -> None:
        _Files()
        _Write(ROOT)
        loader = _Started()
        for suffix, key in keys.items():
            runtime.WriteFile(pathutils.CONFD_HMAC_KEY + suffix, key)
        runtime.Sleep(1)
        server = confd.Server(runtime.OpenUdp("127.0.0.1"), loader)

        def ask(key: bytes, salt: str) -> bytes | None:
            return server.Handle(
                wire.PackRequest(key, wire.Request(queries.PING, None, salt), runtime.Time()), "192.0.2.1"
            )

        for number, key in enumerate(keys.values()):
            datagram = ask(key, str(number))
            assert datagram is not None and wire.OpenReply(key, datagram)[1] == str(number)
        assert ask(b"another\n", "x") is None
        runtime.RemoveFiles([pathutils.CONFD_HMAC_KEY + suffix for suffix in keys if suffix])
        runtime.Sleep(1)
        assert [ask(key, "again") is not None for key in keys.values()] == [True, False, False]

    _On(OWN, story)
