"""The pool of LUXI connections: what is sent again, what never is, and what clients hear."""

from __future__ import annotations

import asyncio
import dataclasses
import os

import pytest

from ganeti import constants, errors, serializer
from ganeti.luxi import protocol
from ganeti.rapi.master import MasterPool, Times
from ganeti.rapi.requests.call import Caller, HttpError

STRANGER = Caller(None, "192.0.2.7:4711")
QUICK = Times(patience=1.0, step=0.02, answer=0.5, place=0.3)


class Daemon:
    """Answers on a socket as ``answers`` say, one for each request: a value, DROP, SILENT, GARBAGE, or an exception."""

    DROP, SILENT, GARBAGE = object(), object(), object()

    def __init__(self, path, *answers):
        self.path = path
        self.answers = list(answers)
        self.requests = []
        self._more = asyncio.Condition()
        self.connections = 0
        self.writers = []

    async def __aenter__(self):
        self._server = await asyncio.start_unix_server(self._Serve, self.path)
        return self

    async def __aexit__(self, *exc):
        await self.Stop()

    async def Stop(self):
        self._server.close()
        for writer in self.writers:
            writer.close()
        if os.path.exists(self.path):
            os.unlink(self.path)

    async def Received(self, count):
        async with self._more:
            await self._more.wait_for(lambda: len(self.requests) >= count)

    async def _Serve(self, reader, writer):
        self.connections += 1
        self.writers.append(writer)
        try:
            while True:
                data = await reader.readuntil(protocol.EOM)
                self.requests.append(serializer.Load(data[:-1]))
                async with self._more:
                    self._more.notify_all()
                answer = self.answers.pop(0) if self.answers else "fine"
                if answer is self.DROP:
                    break
                if answer is self.SILENT:
                    continue
                writer.write(self._Bytes(answer))
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    def _Bytes(self, answer):
        if answer is self.GARBAGE:
            return b"{]" + protocol.EOM
        if isinstance(answer, errors.GenericError):
            value = {"success": False, "result": errors.EncodeException(answer), "version": constants.LUXI_VERSION}
        else:
            value = {"success": True, "result": answer, "version": constants.LUXI_VERSION}
        return serializer.DumpBytes(value) + protocol.EOM


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "luxi")


def _Run(story):
    return asyncio.run(asyncio.wait_for(story, 30))


def test_connections_are_kept_and_shared(path):
    async def story():
        async with Daemon(path) as daemon:
            pool = MasterPool(2, path=path, times=QUICK)
            assert [await pool.Call("QueryClusterInfo") for _ in range(5)] == ["fine"] * 5
            assert daemon.connections == 1
            await asyncio.gather(*(pool.Call("QueryTags", "cluster", "") for _ in range(20)))
            assert daemon.connections <= 2
            assert daemon.requests[-1] == {
                "method": "QueryTags", "args": ["cluster", ""], "version": constants.LUXI_VERSION,
            }  # fmt: skip
            pool.Close()

    _Run(story())


def test_errors_of_the_method_are_raised(path):
    async def story():
        error = errors.OpPrereqError("no", errors.ECODE_NOENT)
        async with Daemon(path, error, "fine"):
            pool = MasterPool(path=path, times=QUICK)
            with pytest.raises(errors.OpPrereqError) as caught:
                await pool.Call("QueryTags", "node", "x")
            assert caught.value.args == error.args
            assert await pool.Call("QueryTags", "node", "x") == "fine"

    _Run(story())


def test_numbers_without_fraction_are_integers(path):
    async def story():
        async with Daemon(path, [1.0, 1.5, -0.0, 1e300, 123456789012.0]):
            value = await MasterPool(path=path, times=QUICK).Call("QueryClusterInfo")
            assert serializer.Dump(value) == "[1,1.5,0,1e+300,123456789012]"

    _Run(story())


def test_reading_is_tried_again_when_the_master_restarts(path):
    async def story():
        async with Daemon(path, Daemon.DROP, Daemon.DROP, "fine") as daemon:
            assert await MasterPool(path=path, times=QUICK).Call("QueryClusterInfo") == "fine"
            assert len(daemon.requests) == 3

    _Run(story())


@pytest.mark.parametrize("method", ["SubmitJob", "CancelJob", "ReplaceFilter", "SetDrainFlag"])
def test_a_change_is_never_sent_twice(path, method):
    async def story():
        async with Daemon(path, Daemon.DROP, "fine") as daemon:
            pool = MasterPool(path=path, times=QUICK)
            with pytest.raises(HttpError) as caught:
                await pool.Call(method, 1)
            assert caught.value.code == 502
            assert "may have been accepted" in str(caught.value)
            assert await pool.Call("QueryClusterInfo") == "fine"
            assert [request["method"] for request in daemon.requests] == [method, "QueryClusterInfo"]

    _Run(story())


def test_a_change_after_a_restart_takes_a_new_connection(path):
    """What the pool kept is closed by then; that the daemon was away between two requests is nobody's business."""

    async def story():
        pool = MasterPool(path=path, times=QUICK)
        async with Daemon(path):
            await pool.Call("SubmitJob", [])
        await asyncio.sleep(0.05)
        async with Daemon(path, 17) as daemon:
            assert await pool.Call("SubmitJob", []) == 17
            assert len(daemon.requests) == 1

    _Run(story())


def test_a_master_that_starts_is_waited_for(path):
    async def story():
        pool = MasterPool(path=path, times=QUICK)
        call = asyncio.create_task(pool.Call("SubmitJob", []))
        await asyncio.sleep(0.2)
        async with Daemon(path, 17) as daemon:
            assert await call == 17
            assert len(daemon.requests) == 1

    _Run(story())


def test_no_master_is_502_in_time(path):
    async def story():
        with pytest.raises(HttpError) as caught:
            await MasterPool(path=path, times=QUICK).Call("QueryClusterInfo")
        assert caught.value.code == 502
        assert "does not listen on this node" in str(caught.value)

    _Run(story())


def test_a_silent_master_is_504_and_its_late_answer_is_nobodys(path):
    async def story():
        async with Daemon(path, Daemon.SILENT, "fine") as daemon:
            pool = MasterPool(path=path, times=QUICK)
            with pytest.raises(HttpError) as caught:
                await pool.Call("QueryClusterInfo")
            assert caught.value.code == 504
            assert await pool.Call("QueryClusterInfo") == "fine"
            assert daemon.connections == 2

    _Run(story())


def test_an_answer_to_nothing_ends_the_connection(path):
    async def story():
        async with Daemon(path, "first", "second") as daemon:
            pool = MasterPool(path=path, times=QUICK)
            assert await pool.Call("QueryClusterInfo") == "first"
            daemon.writers[0].write(b'{"success": true, "result": "stray"}' + protocol.EOM)
            await daemon.writers[0].wait_closed()
            assert await pool.Call("QueryClusterInfo") == "second"

    _Run(story())


def test_an_answer_that_is_not_valid(path):
    async def story():
        async with Daemon(path, Daemon.GARBAGE):
            with pytest.raises(protocol.ProtocolError):
                await MasterPool(path=path, times=QUICK).Call("QueryClusterInfo")

    _Run(story())


def test_a_caller_that_leaves_frees_its_place(path):
    async def story():
        async with Daemon(path, Daemon.SILENT, "fine") as daemon:
            pool = MasterPool(1, path=path, times=QUICK)
            call = asyncio.create_task(pool.Call("QueryClusterInfo", caller=STRANGER))
            await daemon.Received(1)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert await pool.Call("QueryClusterInfo", caller=STRANGER) == "fine"
            assert daemon.connections == 2, "the answer of the first call must not be taken for that of the second"

    _Run(story())


def test_waiting_calls_do_not_take_the_places_of_others(path):
    async def story():
        async with Daemon(path, *[Daemon.SILENT] * 5) as daemon:
            pool = MasterPool(1, path=path, times=QUICK)
            waiting = [asyncio.create_task(pool.Call("WaitForJobChange", n, [], None, None, 10)) for n in range(5)]
            await daemon.Received(5)
            assert await pool.Call("QueryClusterInfo") == "fine"
            for task in waiting:
                task.cancel()

    _Run(story())


def test_more_than_the_places_is_503(path):
    async def story():
        async with Daemon(path, *[Daemon.SILENT] * 2) as daemon:
            pool = MasterPool(2, path=path, times=QUICK)
            first = [asyncio.create_task(pool.Call("QueryClusterInfo")) for _ in range(2)]
            await daemon.Received(2)
            with pytest.raises(HttpError) as caught:
                await pool.Call("QueryClusterInfo")
            assert caught.value.code == 503
            assert caught.value.headers == {"Retry-After": "10"}
            for task in first:
                task.cancel()

    _Run(story())


@pytest.mark.parametrize("method", ["QueryClusterInfo", "WaitForJobChange"])
def test_strangers_leave_places_to_those_with_a_login(path, method):
    """However many of them ask for what takes long, they have three of four places, and wait for a moment only."""

    async def story():
        async with Daemon(path, *[Daemon.SILENT] * 3) as daemon:
            times = dataclasses.replace(QUICK, answer=20.0, place=20.0, stranger=0.3)
            pool = MasterPool(4, 4, path=path, times=times)
            asked = [asyncio.create_task(pool.Call(method, caller=STRANGER)) for _ in range(30)]
            while sum(task.done() for task in asked) < 27:
                await asyncio.sleep(0.01)
            slow = [task for task in asked if not task.done()]
            for task in asked:
                if task.done():
                    error = task.exception()
                    assert isinstance(error, HttpError) and error.code == 503
                    assert error.headers == {"Retry-After": "10"}
                    assert "kept for clients that log in" in str(error)
            assert len(daemon.requests) == len(slow) == 3
            assert [await pool.Call(method) for _ in range(5)] == ["fine"] * 5
            assert await pool.Call("QueryRapiTokens", ["a"]) == "fine", "whose token it is must be found out first"
            slow[0].cancel()
            assert await pool.Call(method, caller=STRANGER) == "fine", "the place is free again"
            for task in slow:
                task.cancel()

    _Run(story())


@pytest.mark.parametrize("method", ["QueryClusterInfo", "WaitForJobChange"])
def test_one_name_leaves_places_to_others(path, method):
    """However many slow requests a user or a token sends; and nothing is remembered of names when they are answered."""

    async def story():
        async with Daemon(path, *[Daemon.SILENT] * 3) as daemon:
            times = dataclasses.replace(QUICK, answer=20.0, place=0.3)
            pool = MasterPool(4, 4, path=path, times=times)
            asked = [asyncio.create_task(pool.Call(method, caller=Caller("token:a", "192.0.2.7:1"))) for _ in range(30)]
            slow = set(asked)
            while len(slow) > 3:
                done, slow = await asyncio.wait(slow, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    error = task.exception()
                    assert isinstance(error, HttpError) and error.code == 503
                    assert "for this user or token; some places are kept for others" in str(error)
            assert len(daemon.requests) == 3
            for number in range(100):
                who = Caller(f"jack{number}", "192.0.2.7:2")
                assert await pool.Call(method, caller=who) == "fine"
            assert await pool.Call(method, caller=STRANGER) == "fine"
            assert len(pool._working) + len(pool._waiting) == 1, "only who has a call under way is remembered"
            for task in slow:
                task.cancel()
            await asyncio.wait(slow)
            assert len(pool._working) + len(pool._waiting) == 0

    _Run(story())


def test_strangers_do_not_delay_the_look_up_of_tokens(path):
    """Nor do those with a login: a place for the look-up is never one of the others."""

    async def story():
        async with Daemon(path, *[Daemon.SILENT] * 4) as daemon:
            pool = MasterPool(4, path=path, times=QUICK)
            tasks = [asyncio.create_task(pool.Call("QueryClusterInfo")) for _ in range(4)]
            await daemon.Received(4)
            assert await pool.Call("QueryRapiTokens", ["a"]) == "fine"
            for task in tasks:
                task.cancel()

    _Run(story())


@pytest.mark.parametrize("limit", [1, 2])
def test_the_smallest_numbers_of_places(path, limit):
    async def story():
        async with Daemon(path, Daemon.SILENT) as daemon:
            pool = MasterPool(limit, path=path, times=QUICK)
            stranger = asyncio.create_task(pool.Call("QueryClusterInfo", caller=STRANGER))
            await daemon.Received(1)
            assert await pool.Call("QueryClusterInfo") == "fine"
            stranger.cancel()

    _Run(story())
