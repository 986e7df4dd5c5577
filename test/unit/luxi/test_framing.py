"""Bytes into messages, values into pieces: whatever comes, in whatever portions."""

from __future__ import annotations

import ast
import asyncio
import copy
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import sources

from ganeti import constants, errors, serializer
from ganeti.jqueue import watch
from ganeti.luxi import asyncclient, client, methods, pieces, protocol, server

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    max_leaves=40,
)


def Cut(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({min(c, len(data)) for c in cuts} | {0, len(data)})
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@pytest.mark.req("D20-LUXI-02")
@given(st.lists(JSON, max_size=6), st.lists(st.integers(0, 2000), max_size=30), st.booleans())
def test_messages_arrive_whole_however_the_stream_is_cut(values, cuts, newline):
    stream = b"".join(serializer.DumpBytes(v) + (b"\n" if newline else b"") + protocol.EOM for v in values)
    assert stream.count(protocol.EOM) == len(values)  # the end mark never occurs inside
    framer = protocol.Framer()
    got = []
    for part in Cut(stream, cuts):
        got.extend(serializer.Load(b"".join(m)) for m in framer.Feed(part))
    assert got == values
    assert framer.size == 0


@given(st.lists(st.binary(max_size=300), max_size=40))
def test_any_bytes_are_either_kept_or_refused(parts):
    framer = protocol.Framer(limit=500)
    try:
        for part in parts:
            framer.Feed(part)
            assert framer.size <= 500
    except protocol.MessageTooLarge:
        longest = max(len(m) for m in b"".join(parts).split(protocol.EOM))
        assert longest > 500


def test_single_bytes_do_not_become_single_objects():
    framer = protocol.Framer()
    for _ in range(100_000):
        framer.Feed(b"x")
    assert len(framer.chunks) < 5
    assert framer.size == 100_000


@given(JSON, st.integers(1, 30))
@settings(max_examples=200)
def test_pieces_give_the_same_value(value, weight):
    old = pieces.PIECE_WEIGHT, pieces.STRING_PART
    pieces.PIECE_WEIGHT, pieces.STRING_PART = weight, 40
    try:
        assert serializer.Load(b"".join(pieces.Dump(value))) == value
        builder = pieces.Builder()
        for line in pieces.ToLines(copy.deepcopy(value)):
            assert b"\n" not in line
            builder.Line(line)
        assert builder.Result() == value
    finally:
        pieces.PIECE_WEIGHT, pieces.STRING_PART = old


def test_pieces_of_a_large_value_are_small():
    value = {
        "jobs": [[{"OP_ID": "OP_TEST_DELAY", "duration": n, "text": "ä" * 50}] for n in range(30_000)],
        "s": "x" * 10**6,
    }
    parts = list(pieces.Dump(value))
    assert max(map(len, parts)) < 400_000
    assert serializer.Load(b"".join(parts)) == value


@pytest.mark.parametrize(
    "text", ["", "{", '{"a": nul}', "[1,", "\x00", '"\ud800"', r'["\ud83d\ude00", "\udc80"]', "[" * 100_000, "NaN"]
)
def test_the_worker_program_tells_what_is_wrong(text):
    chunks = [text.encode("utf-8", "surrogatepass")]
    with pytest.raises(errors.ParseError):
        pieces.Load(chunks)


def test_the_worker_program_parses_a_large_message():
    value = {
        "method": "SubmitManyJobs",
        "args": [[[{"OP_ID": "OP_X", "n": n}] for n in range(100_000)], "long" * 100_000],
    }
    assert pieces.Load([serializer.DumpBytes(value)]) == value


@pytest.mark.req("D20-LUXI-03", "D20-LUXI-04")
def test_the_envelopes_are_those_of_the_protocol():
    request = serializer.Load(protocol.EncodeRequest("QueryJobs", [[17], ["id"]])[:-1])
    assert request == {"method": "QueryJobs", "args": [[17], ["id"]], "version": constants.LUXI_VERSION}
    assert protocol.ReadRequest({"method": "A", "args": []}) == ("A", [])  # the version is optional
    assert protocol.ReadRequest({"method": "A", "args": [], "version": 2090000}) == ("A", [])
    assert protocol.DecodeResponse(b'{"success": true, "result": [1]}') == [1]
    assert protocol.DecodeResponse(b'{"success": true, "result": null, "version": 3010000}\n') is None
    with pytest.raises(errors.OpPrereqError) as caught:
        protocol.DecodeResponse(b'{"success": false, "result": ["OpPrereqError", ["no such node", "unknown_entity"]]}')
    assert caught.value.args == ("no such node", "unknown_entity")


@pytest.mark.req("D20-LUXI-05")
def test_a_failure_is_the_error_it_names_or_a_request_error():
    with pytest.raises(errors.OpPrereqError) as prereq:
        protocol.DecodeResponse(b'{"success": false, "result": ["OpPrereqError", ["no", "wrong_input"]]}')
    assert prereq.value.args == ("no", "wrong_input")
    for result in (
        b'"text"',
        b'["NoSuchError", ["x"]]',
        b'["LuxiError"]',
        b'["LuxiError", "x"]',
        b"[[], []]",
        b"null",
        b"7",
    ):
        with pytest.raises(protocol.RequestError):
            protocol.DecodeResponse(b'{"success": false, "result": %s}' % result)


@pytest.mark.parametrize("answer", [b"", b"7", b"{}", b'{"success": true}', b"\xff", b'{"success": true, "result": 1'])
def test_an_answer_that_is_none_is_a_protocol_error(answer):
    with pytest.raises(protocol.ProtocolError):
        protocol.DecodeResponse(answer)


def test_another_version_is_told():
    with pytest.raises(errors.LuxiError, match="2090000"):
        protocol.DecodeResponse(b'{"success": true, "result": 1, "version": 2090000}')


def test_the_table_has_the_25_methods_of_3_1_and_those_of_ours_and_reads_arguments():
    ours = {"CancelManyJobs", "QueryMetrics", "QueryRapiTokens", "WaitForEvents"}
    assert len(methods.METHODS.keys() - ours) == 25 and ours <= methods.METHODS.keys()
    assert methods.Find("CancelManyJobs").Bind([["12", 13]]) == [[12, 13], False]
    assert methods.Find("CancelJob").Bind(["12"]) == [12, False]
    assert methods.Find("QueryJobs").Bind([None, ["id"]]) == [None, ["id"]]
    assert methods.Find("QueryJobs").Bind([["3", 4], ["id"]]) == [[3, 4], ["id"]]
    assert str(methods.Find("CancelJob")) == "CancelJob(job_id, kill=False) -> [bool, str]"
    for name, args in [
        ("QueryClusterInfo", [1]),
        ("CancelJob", []),
        ("CancelJob", [-1]),
        ("CancelJob", [True]),
        ("CancelJob", ["x"]),
        ("SubmitJob", [7]),
        ("SubmitJob", {}),
        ("ArchiveJob", [1.5]),
    ]:
        with pytest.raises(methods.ArgumentError, match=name):
            methods.Find(name).Bind(args)
    for name in ("NoSuch", None, 7, [], "", "_x"):
        with pytest.raises(methods.ArgumentError):
            methods.Find(name)


@given(st.sampled_from(sorted(methods.METHODS)), JSON)
def test_no_arguments_whatever_break_the_check(name, args):
    try:
        bound = methods.Find(name).Bind(args)
    except methods.ArgumentError as err:
        assert str(err)
    else:
        assert len(bound) == len(methods.METHODS[name].args)


@pytest.mark.req("D20-LUXI-11")
def test_the_page_of_the_protocol_has_every_method_and_the_special_results():
    """The list of methods is ``methods.Document()``: put it there again when the table changes."""
    with open(os.path.join(TOP, "doc/luxi.rst"), encoding="utf-8") as stream:
        page = stream.read()
    assert page.endswith(methods.Document())
    for word in ("nochange", "OpPrereqError", "success", "byte 3"):
        assert word in page


def _Names() -> Iterator[tuple[str, set[str]]]:
    """Every module of ours with the names that it uses and imports."""
    for folder, _, files in os.walk(os.path.join(TOP, "lib")):
        for file in files:
            if file.endswith(".py"):
                path = os.path.join(folder, file)
                with open(path, encoding="utf-8") as stream:
                    nodes = list(ast.walk(sources.Parse(stream.read())))
                used = {str(getattr(node, "attr", getattr(node, "id", ""))) for node in nodes}
                imports = [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
                named = {f"{getattr(node, 'module', '')}.{alias.name}" for node in imports for alias in node.names}
                yield os.path.relpath(path, os.path.join(TOP, "lib")), used | named


@pytest.mark.req("D20-LUXI-10")
def test_nobody_else_builds_messages_or_reads_them():
    """One module knows the bytes; the library's two clients and the server use it, and everybody else uses the clients."""
    modules = dict(_Names())
    bytes_of_luxi = {"EncodeRequest", "DecodeResponse", "Framer", "EOM", "LUXI_VERSION"}
    users = {path for path, names in modules.items() if names & bytes_of_luxi}
    assert {path for path in users if not path.startswith("luxi/")} == {"constants.py"}
    for room in ("cli", "rapi", "watcher"):
        imports = set().union(*(names for path, names in modules.items() if path.startswith(f"{room}/")))
        assert imports & {"ganeti.luxi.client", "ganeti.luxi.asyncclient", "ganeti.luxi.client.Client"}, room


@pytest.mark.req("D20-LUXI-10")
def test_both_clients_send_and_read_the_same_bytes(tmp_path: Path) -> None:
    path = str(tmp_path / "luxi")
    seen: list[Any] = []

    def handle(method: str, args: list[Any]) -> Any:
        seen.append([method, args])
        if method == "QueryTags":
            raise errors.OpPrereqError("not found", errors.ECODE_NOENT)
        return {"name": "ä", "number": 2.0}

    async def ask(method: str, *args: Any) -> Any:
        connection = await asyncclient.Connect(path)
        try:
            return (await connection.Call(asyncclient.Request(method, args), 10)).Result()
        finally:
            connection.Close()

    listening = server.Server([path], handle, request_threads=1)
    listening.Start()
    try:
        with client.Client(path) as plain:
            assert plain.QueryClusterInfo() == asyncio.run(ask("QueryClusterInfo")) == {"name": "ä", "number": 2.0}
            for call in (lambda: plain.QueryTags("node", "x"), lambda: asyncio.run(ask("QueryTags", "node", "x"))):
                with pytest.raises(errors.OpPrereqError) as caught:
                    call()
                assert caught.value.args == ("not found", errors.ECODE_NOENT)
            for call in (lambda: plain.QueryTags("node", "x" * protocol.MAX_MESSAGE),
                         lambda: asyncclient.Request("QueryTags", ["node", "x" * protocol.MAX_MESSAGE])):  # fmt: skip
                with pytest.raises(protocol.MessageTooLarge, match="QueryTags: the request of"):
                    call()
    finally:
        listening.Shutdown(linger=0.5)
    assert seen == [["QueryClusterInfo", []]] * 2 + [["QueryTags", ["node", "x"]]] * 2


@pytest.mark.req("D20-LUXI-10")
def test_the_client_has_a_call_for_every_method():
    calls = {name for name in dir(client.Client) if not name.startswith("_")}
    wanted = set(methods.METHODS) - {"PickupJob"}  # reserved: always an error
    assert wanted <= calls


@pytest.mark.req("D20-LUXI-07")
def test_a_waiting_call_is_answered_before_its_client_gives_up():
    assert watch.MAX_TIMEOUT < protocol.IO_TIMEOUT / 2
    assert protocol.WAIT_TIMEOUT <= watch.MAX_TIMEOUT


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([7], "argument 'jobs' must be a list, got 7"),
        ([[7]], "argument 'jobs', item 0: expected a list"),
        ([[[], [{}, "secret"]]], "argument 'jobs', item 1, item 1: expected names with values"),
    ],
)
def test_a_wrong_part_of_an_argument_is_named_and_not_shown(args: list[Any], words: str) -> None:
    with pytest.raises(methods.ArgumentError) as caught:
        methods.METHODS["SubmitManyJobs"].Bind(args)
    assert str(caught.value) == f"SubmitManyJobs: {words}"
