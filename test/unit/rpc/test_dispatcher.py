"""The node's side of a call: every outcome has its shape, whatever comes in."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti import errors, rpc
from ganeti.rpc.base import MAX_BODY
from ganeti.rpc.procedures import PROCEDURES, Procedure
from ganeti.rpc.server import Dispatcher, OpenGate


class Booking:
    """A gate that books what enters, and refuses when told."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.refuse: errors.GenericError | None = None

    @contextmanager
    def Enter(self, procedure: Procedure, headers: Mapping[str, str]) -> Iterator[None]:
        if self.refuse is not None:
            raise self.refuse
        self.seen.append((procedure.name, dict(headers)))
        self.inside.append(procedure.name)
        try:
            yield
        finally:
            self.inside.remove(procedure.name)


def ask(dispatcher: Dispatcher, name: str, args: Any, **headers: str) -> Any:
    status, reply_headers, body = dispatcher.Handle(f"/{name}", headers, json.dumps(args).encode())
    assert status == 200
    assert reply_headers["Content-Type"] == "application/json"
    return json.loads(body)


def test_success_and_failure_have_their_shapes() -> None:
    def sizes(devices: list[str]) -> dict[str, int]:
        if not devices:
            raise errors.RpcCallError("no devices named")
        return dict.fromkeys(devices, 5)

    dispatcher = Dispatcher({"bdev_sizes": sizes}, OpenGate())
    assert ask(dispatcher, "bdev_sizes", [["/dev/a"]]) == [True, {"/dev/a": 5}]
    assert ask(dispatcher, "bdev_sizes", [[]]) == [False, "no devices named"]


def test_an_unexpected_error_is_told_and_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> None:
        raise KeyError("where")

    dispatcher = Dispatcher({"vg_list": broken}, OpenGate())
    assert ask(dispatcher, "vg_list", []) == [False, "Error while executing backend function: 'where'"]
    assert "Traceback" in caplog.text and "vg_list" in caplog.text


def test_an_answer_that_is_no_json_is_an_error_not_a_crash() -> None:
    dispatcher = Dispatcher({"vg_list": lambda: {1, 2}}, OpenGate())
    good, text = ask(dispatcher, "vg_list", [])
    assert good is False and text.startswith("Error while executing backend function: ")


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ([], "bdev_sizes: 0 arguments given, 1 expected (devices)"),
        ([[], []], "bdev_sizes: 2 arguments given, 1 expected (devices)"),
        ({"devices": []}, "bdev_sizes: the body must be a JSON list of arguments"),
        (["/dev/a"], "bdev_sizes: argument devices must be list[path]"),
        ([["relative"]], "bdev_sizes: argument devices must be list[path]"),
    ],
)
def test_wrong_arguments_are_named(args: Any, text: str) -> None:
    dispatcher = Dispatcher({"bdev_sizes": lambda devices: None}, OpenGate())
    assert ask(dispatcher, "bdev_sizes", args) == [False, text]


def test_the_http_level_has_its_own_answers() -> None:
    dispatcher = Dispatcher({"vg_list": lambda: None}, OpenGate())
    assert dispatcher.Handle("/nothing", {}, b"[]")[0] == 404
    # In the table, but this node does not have it.
    assert dispatcher.Handle("/lv_list", {}, b"[]")[0] == 404
    assert dispatcher.Handle("/vg_list", {}, b"[]", method="PUT")[0] == 400
    for length in (80, 81):
        shown = b"x" * 80 + b"..." * (length > 80)
        assert (
            b"Procedure &#x27;" + shown + b"&#x27; does not exist"
            in dispatcher.Handle("/" + "x" * length, {}, b"[]")[2]
        )
    status, headers, body = dispatcher.Handle("/<script>", {}, b"[]")
    assert status == 404 and headers["Content-Type"].startswith("text/html") and b"<script>" not in body
    assert dispatcher.Handle("/vg_list", {}, b" " * (MAX_BODY + 1))[0] == 413


def test_the_console_call_has_an_object_for_a_body() -> None:
    dispatcher = Dispatcher({"instance_console_info": lambda instances: sorted(instances)}, OpenGate())
    assert ask(dispatcher, "instance_console_info", {"b": {}, "a": {}}) == [True, ["a", "b"]]
    assert ask(dispatcher, "instance_console_info", [1])[0] is False


def test_only_changing_calls_pass_the_gate_and_run_inside_it() -> None:
    gate = Booking()
    dispatcher = Dispatcher(
        {"export_remove": lambda export: list(gate.inside), "export_list": lambda: list(gate.inside)}, gate
    )
    assert ask(dispatcher, "export_remove", ["x"], **{"x-ganeti-epoch": "3.ab"}) == [True, ["export_remove"]]
    assert ask(dispatcher, "export_list", []) == [True, []]
    assert gate.seen == [("export_remove", {"x-ganeti-epoch": "3.ab"})]
    assert gate.inside == []


def test_a_newer_epoch_refuses_with_its_master() -> None:
    gate = Booking()
    gate.refuse = rpc.EpochRefused("7.beef", "node2\r\nX-Evil: 1~")
    ran: list[str] = []
    dispatcher = Dispatcher({"export_remove": ran.append}, gate)
    status, headers, body = dispatcher.Handle("/export_remove", {}, b'["x"]')
    assert status == 409
    assert headers["X-Ganeti-Epoch"] == "7.beef"
    assert headers["X-Ganeti-Master"] == "node2X-Evil: 1~"
    assert json.loads(body)[0] is False
    gate.refuse = errors.LockError("an older call still runs")
    assert ask(dispatcher, "export_remove", ["x"]) == [False, "an older call still runs"]
    assert ran == []


def test_an_error_without_words_is_named_by_its_kind() -> None:
    def fail() -> None:
        raise errors.StorageError

    assert ask(Dispatcher({"vg_list": fail}, OpenGate()), "vg_list", []) == [False, "StorageError"]


def test_a_call_without_arguments_says_that_it_takes_none() -> None:
    text = "vg_list: 1 arguments given, 0 expected (none)"
    assert ask(Dispatcher({"vg_list": lambda: None}, OpenGate()), "vg_list", [5]) == [False, text]


def test_a_request_and_an_answer_may_have_exactly_the_limit() -> None:
    dispatcher = Dispatcher(
        {"bdev_sizes": lambda devices: "x" * (MAX_BODY - len('[true,""]') + len(devices))}, OpenGate()
    )
    request = b"[[" + b" " * (MAX_BODY - 4) + b"]]"
    status, _, body = dispatcher.Handle("/bdev_sizes", {}, request)
    assert (status, len(body)) == (200, MAX_BODY) and body.endswith(b'x"]')
    good, text = ask(dispatcher, "bdev_sizes", [["/dev/a"]])
    assert not good and text == f"the answer of bdev_sizes has {MAX_BODY + 1} bytes, the limit is {MAX_BODY}"


def test_calls_of_the_store_do_not_hide_the_others_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    dispatcher = Dispatcher({"vg_list": dict, "store_status": lambda *args: {}}, OpenGate())
    with caplog.at_level(logging.DEBUG):
        assert ask(dispatcher, "vg_list", []) == [True, {}]
        assert ask(dispatcher, "store_status", [{}]) == [True, {}]
    levels = {
        record.getMessage().split()[2]: record.levelno for record in caplog.records if "took" in record.getMessage()
    }
    assert levels == {"vg_list": logging.INFO, "store_status": logging.DEBUG}


@pytest.mark.parametrize(
    "parameters",
    [{"A\0": "x"}, {"A": "x\0"}, {"A": "\0"}, {"ok": "x", "A": "b\0c"}],
)
def test_a_variable_of_a_program_has_no_nul_in_it(parameters: dict[str, str]) -> None:
    """No command line and no environment could take it: the program would not even start."""
    dispatcher = Dispatcher({"hooks_runner": lambda *args: "ran"}, OpenGate())
    good, text = ask(dispatcher, "hooks_runner", ["cluster-verify", "pre", parameters])
    assert not good and text == "hooks_runner: argument env must not contain a NUL character"
    assert ask(dispatcher, "hooks_runner", ["cluster-verify", "pre", {"A": "x", "B": ""}]) == [True, "ran"]


def test_a_nul_is_found_however_deep_it_is_and_refused_only_where_it_does_harm() -> None:
    names = ("instance_migratable", "store_append", "instance_start")
    dispatcher = Dispatcher(dict.fromkeys(names, lambda *args: "ran"), OpenGate())
    for deep in ({"a": [{"b": ["c\0"]}]}, {"a": {"b\0": 1}}, {"a": 1, "b": ["\0", 5], "c": "d"}):
        good, text = ask(dispatcher, "instance_migratable", [deep])
        assert (good, "NUL" in text) == (False, True)
        assert ask(dispatcher, "store_append", [deep]) == [True, "ran"], "rows of the store may hold anything"
    whole = {"a": [{"b": ["c"], "d": 5}], "e": None}
    assert ask(dispatcher, "instance_migratable", [whole]) == [True, "ran"]
    assert ask(dispatcher, "instance_start", [whole, False, [["user", "why\0", 1]]]) == [True, "ran"]


def test_handlers_must_be_in_the_table() -> None:
    with pytest.raises(errors.ProgrammerError, match="no_such_thing"):
        Dispatcher({"no_such_thing": lambda: None}, OpenGate())


def accept_everything(*args: Any) -> Any:
    return list(args)


everything = Dispatcher(dict.fromkeys(PROCEDURES, accept_everything), OpenGate())
names = st.one_of(st.sampled_from(sorted(PROCEDURES)).map(lambda name: f"/{name}"), st.text(max_size=40))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
bodies = st.one_of(st.binary(max_size=200), values.map(lambda value: json.dumps(value).encode()))


@given(path=names, body=bodies, method=st.sampled_from(["POST", "POST", "POST", "GET", "\u00e4"]))
def test_no_input_gives_a_traceback(path: str, body: bytes, method: str) -> None:
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    try:
        status, headers, answer = everything.Handle(path, {}, body, method)
    finally:
        logging.getLogger().removeHandler(handler)
    assert not [record for record in records if record.exc_info]
    assert status in (200, 400, 404)
    if status == 200:
        value = json.loads(answer)
        assert isinstance(value, list) and len(value) == 2 and isinstance(value[0], bool)
        assert value[0] or (isinstance(value[1], str) and value[1])
    for text in headers.values():
        assert "\r" not in text and "\n" not in text


@given(name=st.sampled_from(sorted(PROCEDURES)), data=st.data())
def test_right_number_and_wrong_shapes(name: str, data: st.DataObject) -> None:
    args = data.draw(st.lists(values, min_size=len(PROCEDURES[name].args), max_size=len(PROCEDURES[name].args)))
    status, _, answer = everything.Handle(f"/{name}", {}, json.dumps(args).encode())
    assert status == 200
    good, payload = json.loads(answer)
    fits = all(
        arg.encoding.wire(item) for arg, item in zip(PROCEDURES[name].args, json.loads(json.dumps(args)), strict=True)
    )
    text = json.dumps(args)
    if not PROCEDURES[name].body_object and not any(word in text for word in ("NaN", "Infinity", "\\u0000")):
        assert good is fits, payload
    if not good:
        assert "Error while executing" not in payload


def test_a_deeply_nested_body_is_refused() -> None:
    assert everything.Handle("/node_verify", {}, b"[" * 100000)[0] == 200
