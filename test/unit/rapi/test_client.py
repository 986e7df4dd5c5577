"""The client library: every method's request as 3.1's library sends it, answers and errors."""

from __future__ import annotations

import inspect
import itertools
import json
import os
import re
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import allocator
from support.recorder import FEATURES, SILENCE, Recorder, Reply, Request
from support.virtualnode import TOP

from ganeti import x509
from ganeti.rapi import client as rapi
from ganeti.rapi.client import GanetiApiError, GanetiRapiClient, GenericCurlConfig

TABLE = os.path.join(TOP, "test", "data", "rapi", "client-methods.md")
ADDITIONS = {"Conditional", "Events", "GetMetrics", "Request"}


class Row:
    """One method of the table of 3.1's library."""

    def __init__(self, line: str):
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        name, self.arguments, request, query, body, self.returns = cells
        self.name = name.strip("`").removesuffix(" (3.1)")
        self.requests = [part.strip() for part in request.strip("`").split(", then ")]
        self.query = [] if query == "–" else [part.strip() for part in query.split(";")]
        self.body = body

    def __repr__(self) -> str:
        return self.name


def _Rows() -> list[Row]:
    with open(TABLE, encoding="utf-8") as stream:
        return [Row(line) for line in stream if line.startswith("| `")]


ROWS = _Rows()

# What is given for an argument; the name of an object for what is not here.
VALUES: dict[str, Any] = {
    "tags": ["one", "two:2"], "mode": "create", "disks": [{"size": 1}], "nics": [], "disk": 3, "amount": 1024, "job_id": 17,
    "priority": 5, "predicates": [["jobid", [">", "id", 1]]], "action": "REJECT", "reason_trail": [["me", "", 1]],
    "fields": ["name", "tags"], "qfilter": ["=", "name", "x"], "instances": [{"name": "x"}], "nodes": ["n1", "n2"],
    "prev_job_info": ["running"], "prev_log_serial": 3, "period": 0, "retries": 1, "osparams": {"a": "b"},
    "x509_key_name": ["k", "h", "s"], "destination": [["h", 1, "m"]], "add_reserved_ips": "10.0.0.1,10.0.0.2",
    "output_fields": "name,size", "reason": "because & why",
}  # fmt: skip
FLAGS = {
    "dry_run", "bulk", "static", "ignore_size", "force", "wait_for_sync", "ignore_secondaries", "no_remember", "no_startup",
    "early_release", "shutdown", "remove_instance", "cleanup", "ignore_consistency", "ip_check", "name_check", "accept_old",
    "auto_promote", "allocatable",
}  # fmt: skip
KEYWORDS = {"beparams": {"vcpus": 2}, "depends": [[1, ["success"]]]}
LISTS = ("GetInstances", "GetNodes", "GetNetworks", "GetGroups", "GetJobs", "GetFilters")


def _ValueOf(row: Row, name: str) -> Any:
    if name == "disks" and row.name == "ReplaceInstanceDisks":
        return [0, 2]
    if name == "tags" and row.name == "CreateNetwork":
        return "one,two"
    return True if name in FLAGS else VALUES.get(name, f"{name}.example")


def _Parameters(row: Row) -> tuple[list[str], list[str], bool]:
    """Returns the required arguments, the optional ones, and whether more keywords may be given."""
    listed = [] if row.arguments == "–" else row.arguments.split(", ")
    names = [part.partition("=")[0] for part in listed if not part.startswith("**")]
    required = [part for part in listed if "=" not in part and not part.startswith("**")]
    return required, names[len(required) :], listed[-1:] == ["**kwargs"]


def _Cases() -> Iterator[Any]:
    """Each method with no optional argument, with each alone, with all together, with keywords, with flags set to False."""
    for row in ROWS:
        required, optional, more = _Parameters(row)
        base = {name: _ValueOf(row, name) for name in required}
        choices: list[dict[str, Any]] = [{}, *({name: _ValueOf(row, name)} for name in optional)]
        everything = {name: _ValueOf(row, name) for name in optional}
        if row.name == "EvacuateNode":  # an allocator or a node
            everything.pop("remote_node")
        choices.append(everything)
        choices += [{name: False} for name in optional if name in FLAGS]
        choices += [dict(KEYWORDS), {**everything, **KEYWORDS}] if more else []
        if row.name in ("CreateInstance", "InstancesMultiAlloc"):
            choices.append({"dry_run": True, "__version__": 0} if row.name == "CreateInstance" else {"dry_run": True})
        for number, choice in enumerate(choices):
            yield pytest.param(row, {**base, **choice}, id=f"{row.name}-{number}")


# --- what the table says ---------------------------------------------------------------------------------------------


def _Defaults(row: Row, arguments: dict[str, Any]) -> dict[str, Any]:
    signature = inspect.signature(getattr(GanetiRapiClient, row.name))
    defaults = {name: p.default for name, p in signature.parameters.items() if p.default is not p.empty}
    return {**defaults, **arguments}


def _ExpectedQuery(row: Row, arguments: dict[str, Any]) -> list[tuple[str, str]]:
    given = _Defaults(row, arguments)
    expected: list[tuple[str, str]] = []
    for item in row.query:
        if item == "tag={t} per tag":
            expected += [("tag", tag) for tag in given["tags"]]
            continue
        name, _, value = item.strip("[]").partition("=")
        # The argument is named by the braces, else as in the query.
        source = value.strip("{}") if value.startswith("{") else {"reason": "reason"}.get(name, name.replace("-", "_"))
        argument = given.get(source)
        if value == "1":
            expected += [(name, "1")] if argument else []
        elif argument is not None or not item.startswith("["):
            text = {"0 or 1": lambda v: str(int(v)), "i,j,..": lambda v: ",".join(map(str, v))}.get(value, str)(
                argument
            )
            expected.append((name, text))
    if row.name == "QueryFields" and given["fields"] is not None:
        expected.append(("fields", ",".join(given["fields"])))
    return expected


def _ExpectedBody(row: Row, arguments: dict[str, Any]) -> Any:
    given = _Defaults(row, arguments)
    required, optional, _ = _Parameters(row)
    keywords = {k: v for k, v in arguments.items() if k not in (*required, *optional, "dry_run")}
    if row.body == "–":
        return ...
    special = {
        "SetNodeRole": lambda: given["role"],
        "AddNodeTags": lambda: given["tags"],
        "CreateGroup": lambda: {"name": given["name"], "alloc_policy": given["alloc_policy"]},
        "ReinstallInstance": lambda: {"start": not given["no_startup"], **_Present(given, "os", "osparams")},
        "ConnectNetwork": lambda: {
            "group_name": given["group_name"], "network_mode": given["mode"], "network_link": given["link"],
            "network_vlan": given["vlan"],
        },
        "WaitForJobChange": lambda: {
            "fields": given["fields"], "previous_job_info": given["prev_job_info"],
            "previous_log_serial": given["prev_log_serial"],
        },
        "Query": lambda: {
            "fields": given["fields"],
            **({} if given["qfilter"] is None else {"qfilter": given["qfilter"], "filter": given["qfilter"]}),
        },
        "CreateNetwork": lambda: {
            **{name: given[name] for name in ("network_name", "network", "gateway", "network6", "gateway6", "mac_prefix")},
            **{name: given[name] and given[name].split(",") for name in ("add_reserved_ips", "tags")},
        },
    }  # fmt: skip
    if row.name in special:
        return special[row.name]()
    expected: dict[str, Any] = {}
    for item in filter(None, row.body.strip("{}").split(", ")):
        name = item.strip("[]")
        if name == "kwargs":
            expected.update(keywords)
        elif name == "__version__=1":
            expected["__version__"] = 1
        elif item == "reason (reason_trail + own entry)":
            expected["reason"] = [*(given["reason_trail"] or []), ["gnt:client", "", ...]]
        elif not item.startswith("[") or given[name] is not None:
            expected[name] = given[name]
    return {**expected, **({"__version__": 1} if "__version__" in expected else {})}


def _Present(given: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: given[name] for name in names if given[name] is not None}


def _ExpectedPath(text: str, row: Row, arguments: dict[str, Any]) -> tuple[str, str]:
    method, path = text.split(" ")
    return method, re.sub(r"\{(\w+)\}", lambda found: str(arguments[found[1]]), path)


# --- requests --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorder]:
    lease = allocator.Lease()
    with Recorder(lease.Address(), lease.Port(), str(tmp_path_factory.mktemp("recorder"))) as recorder:
        yield recorder
    lease.Release()


@pytest.fixture
def recorder(server: Recorder) -> Recorder:
    server.Take()
    server.replies = {"/2/features": Reply(FEATURES)}
    return server


def _Client(recorder: Recorder, **more: Any) -> GanetiRapiClient:
    return GanetiRapiClient(recorder.address, recorder.port, **more)


def test_methods_and_arguments_are_those_of_the_table() -> None:
    public = {n for n, v in vars(GanetiRapiClient).items() if callable(v) or isinstance(v, staticmethod)}
    assert {name for name in public if not name.startswith("_")} - ADDITIONS == {row.name for row in ROWS}
    for row in ROWS:
        shown = []
        for name, parameter in inspect.signature(getattr(GanetiRapiClient, row.name)).parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                shown.append(f"**{name}")
            elif name != "self":
                shown.append(name if parameter.default is parameter.empty else f"{name}={parameter.default!r}")
        assert (", ".join(shown) or "–") == row.arguments, row
    assert len(ROWS) == 82


@pytest.mark.parametrize(("row", "arguments"), list(_Cases()))
def test_requests_are_those_of_the_table(recorder: Recorder, row: Row, arguments: dict[str, Any]) -> None:
    if row.name in LISTS:
        recorder.replies["/2/" + row.name.removeprefix("Get").lower()] = Reply([])
    recorder.replies["/2/jobs/17"] = Reply({"status": "success"})
    getattr(_Client(recorder), row.name)(**arguments)
    requests = recorder.Take()
    if row.requests == ["none"]:
        assert requests == []
        return
    assert [(r.method, r.path) for r in requests] == [_ExpectedPath(text, row, arguments) for text in row.requests]
    last = requests[-1]
    assert last.query == _ExpectedQuery(row, arguments)
    _CheckBody(last, _ExpectedBody(row, arguments))
    for request in requests:
        assert request.headers["accept"] == request.headers["content-type"] == "application/json"
        assert request.headers["user-agent"] == "Ganeti RAPI Client"
        assert request.headers["content-length"] == str(len(request.body))
        assert not request.headers.keys() & {
            "authorization",
            "if-match",
            "if-none-match",
            "transfer-encoding",
            "expect",
        }


def _CheckBody(request: Request, expected: Any) -> None:
    found = request.value
    if isinstance(expected, dict) and isinstance(expected.get("reason"), list):
        assert found["reason"][-1][2] > 1_700_000_000 * 10**9
        found["reason"][-1][2] = ...
    assert found == expected
    if request.body:
        assert request.body == json.dumps(json.loads(request.body), sort_keys=True).encode("ascii")


def test_the_table_bites(recorder: Recorder) -> None:
    """What the table's notation leads to, for some rows written out by hand."""
    client = _Client(recorder)
    client.AddInstanceTags("i", ["a b", "c&d"], dry_run=True, reason="x")
    assert recorder.Take()[0].query == [("tag", "a b"), ("tag", "c&d"), ("dry-run", "1"), ("reason", "x")]
    client.CreateInstance("create", "i", "plain", [], [], dry_run=True, os="mini", __version__=7)
    create = recorder.Take()[1]
    assert create.query == [("dry-run", "1")]
    assert create.value == {
        "__version__": 1, "mode": "create", "name": "i", "disk_template": "plain", "disks": [], "nics": [], "os": "mini",
    }  # fmt: skip
    client.AddFilter(1, [], "PAUSE")
    assert recorder.Take()[0].value["reason"][0][:2] == ["gnt:client", ""]
    client.MigrateInstance("i")
    assert recorder.Take()[0].body == b"{}"
    client.GetJobStatus(4)
    assert recorder.Take()[0].body == b""
    client.AddClusterTags("web")
    assert recorder.Take()[0].query == [("tag", "web")]


def test_an_allocation_is_a_body_without_a_request() -> None:
    made = GanetiRapiClient.InstanceAllocation("create", "i", "file", [{"size": 1}], [], os="mini", dry_run=True)
    assert made == {
        "mode": "create", "name": "i", "disk_template": "file", "disks": [{"size": 1}], "nics": [], "os": "mini",
    }  # fmt: skip


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
SCALARS = st.one_of(TEXTS, st.integers(), st.booleans(), st.none())


@given(st.lists(st.tuples(st.text("abc-_", min_size=1), SCALARS), max_size=5))
def test_arguments_survive_their_encoding(pairs: list[tuple[str, Any]]) -> None:
    text = rapi._EncodeQuery(pairs)
    assert text.isascii() and not set(text) & set(" \r\n#?")
    expected = [
        (name, "" if value is None else str(int(value)) if isinstance(value, bool) else str(value))
        for name, value in pairs
    ]
    assert urllib.parse.parse_qsl(text, keep_blank_values=True) == expected


@given(st.lists(TEXTS.filter(bool), min_size=1, max_size=4))
def test_a_name_is_one_segment_of_the_path(names: list[str]) -> None:
    path = rapi._Path(*names)
    assert re.fullmatch(r"/2(/[A-Za-z0-9_.~%-]+)+", path)
    assert [urllib.parse.unquote(part) for part in path.split("/")[2:]] == names


def test_a_name_of_dots_stays_a_name(recorder: Recorder) -> None:
    _Client(recorder).GetInstance("..")
    assert recorder.Take()[0].path == "/2/instances/.."


@pytest.mark.parametrize("value", [[], (1,), {"a": 1}])
def test_an_argument_must_be_a_single_value(recorder: Recorder, value: Any) -> None:
    with pytest.raises(ValueError, match="'reason'"):
        _Client(recorder).GetInfo(reason=value)
    assert recorder.Take() == []


BODIES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=8)


@given(BODIES)
def test_bodies_survive_their_encoding(value: Any) -> None:
    assert json.loads(rapi._EncodeBody(value).encode("ascii")) == value


# --- answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LISTS)
def test_lists_are_names_or_objects(recorder: Recorder, name: str) -> None:
    path = "/2/" + name.removeprefix("Get").lower()
    key, value = {"GetJobs": ("id", 5), "GetFilters": ("uuid", "u"), "GetGroups": ("name", "g"),
                  "GetNetworks": ("name", "g")}.get(name, ("id", "n"))  # fmt: skip
    recorder.replies[path] = Reply([{key: value, "uri": "x"}])
    assert getattr(_Client(recorder), name)() == [value]
    assert getattr(_Client(recorder), name)(bulk=True) == [{key: value, "uri": "x"}]


def test_values_are_returned_as_they_are(recorder: Recorder) -> None:
    client = _Client(recorder)
    recorder.replies["/version"] = Reply(2)
    recorder.replies["/2/jobs/3"] = Reply([False, "Job 3 not found in queue"])
    recorder.replies["/2/redistribute-config"] = Reply(12)
    recorder.replies["/2/jobs/3/wait"] = Reply(None)
    recorder.replies["/2/info"] = Reply(data=b"")
    assert client.GetVersion() == 2
    assert client.CancelJob(3) == [False, "Job 3 not found in queue"]
    assert client.RedistributeConfig() == 12
    assert client.WaitForJobChange(3, ["status"], None, None) is None
    assert client.GetInfo() is None


def test_a_server_without_features_has_none(recorder: Recorder) -> None:
    recorder.replies["/2/features"] = Reply({"code": 404, "message": "m", "explain": "e"}, 404)
    assert _Client(recorder).GetFeatures() == []
    recorder.replies["/2/features"] = Reply({"code": 500, "message": "m", "explain": "e"}, 500)
    with pytest.raises(GanetiApiError):
        _Client(recorder).GetFeatures()


def test_waiting_ends_with_the_job(recorder: Recorder) -> None:
    client = _Client(recorder)

    def wait(*statuses: str | None, **options: Any) -> tuple[bool, int]:
        recorder.replies["/2/jobs/7"] = [Reply({"status": status}) for status in statuses]
        done = client.WaitForJobCompletion(7, period=0, **options)
        return done, len(recorder.Take())

    assert wait("queued", "running", "success") == (True, 3)
    assert wait("canceling", "canceled") == (False, 2)
    assert wait("error") == (False, 1)
    assert wait("running", "running", "success", retries=2) == (False, 2)
    assert wait(retries=0) == (False, 0)
    with pytest.raises(GanetiApiError, match="job 7") as caught:
        wait(None)
    assert caught.value.code == 404


# --- servers before 2.4 ----------------------------------------------------------------------------------------------


def test_old_servers_get_their_form_or_nothing(recorder: Recorder) -> None:
    recorder.replies["/2/features"] = Reply([])
    client = _Client(recorder)
    client.ReinstallInstance("i", os="o", no_startup=True)
    assert (recorder.Take()[1].query) == [("os", "o"), ("nostartup", "1")]
    client.MigrateNode("n", mode="live", dry_run=True)
    assert (recorder.Take()[1].query) == [("mode", "live"), ("dry-run", "1")]
    client.EvacuateNode("n", accept_old=True)
    assert len(recorder.Take()) == 2
    for call in (
        lambda: client.ReinstallInstance("i", osparams={}),
        lambda: client.MigrateNode("n", target_node="m"),
        lambda: client.EvacuateNode("n"),
        lambda: client.CreateInstance("create", "i", "file", [], []),
    ):
        with pytest.raises(GanetiApiError) as caught:
            call()
        assert caught.value.code is None
        assert [r.path for r in recorder.Take()] == ["/2/features"]


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (Reply({"code": 403, "message": "No", "explain": "Why"}, 403), "403 No: Why"),
        (Reply({"code": 403}, 403), "{'code': 403}"),
        (Reply("words", 500), "words"),
        (Reply(data=b"", status=502), "None"),
        (Reply({"id": 1}, 201), "{'id': 1}"),
    ],
)
def test_other_statuses_are_errors(recorder: Recorder, reply: Reply, text: str) -> None:
    recorder.replies["/2/info"] = reply
    with pytest.raises(GanetiApiError) as caught:
        _Client(recorder).GetInfo()
    assert (str(caught.value), caught.value.code) == (text, reply.status)


@pytest.mark.parametrize("status", [200, 404, 502])
@pytest.mark.parametrize("data", [b"<html>", b"{", b"\xff\xfe\x00", b"[" * 200_000, b"1 2"])
def test_what_is_not_json_is_a_value_error(recorder: Recorder, status: int, data: bytes) -> None:
    recorder.replies["/2/info"] = Reply(data=data, status=status)
    with pytest.raises(ValueError):
        _Client(recorder).GetInfo()


def test_redirects_are_not_followed(recorder: Recorder) -> None:
    recorder.replies["/2/info"] = Reply("moved", 301, headers={"Location": f"https://{recorder.address}:1/"})
    with pytest.raises(GanetiApiError) as caught:
        _Client(recorder).GetInfo()
    assert caught.value.code == 301
    assert len(recorder.Take()) == 1


def test_nobody_listens(addresses: allocator.Lease) -> None:
    with pytest.raises(GanetiApiError, match=r"curl error 7") as caught:
        GanetiRapiClient(addresses.Address(), addresses.Port()).GetInfo()
    assert caught.value.code == 7


def test_no_answer_in_time(recorder: Recorder) -> None:
    recorder.replies["/2/info"] = SILENCE
    with pytest.raises(GanetiApiError, match=r"curl error 28") as caught:
        _Client(recorder, curl_config_fn=GenericCurlConfig(timeout=1)).GetInfo()
    assert caught.value.code == 28


def test_certificates_are_verified_on_request(recorder: Recorder, tmp_path: Any) -> None:
    other = tmp_path / "other.pem"
    other.write_text(x509.MakeRapiPem())
    for config, code in (
        (GenericCurlConfig(use_curl_cabundle=True), 60),
        (GenericCurlConfig(cafile=str(other)), 60),
        (GenericCurlConfig(cafile=str(tmp_path / "missing.pem")), 77),
        (GenericCurlConfig(cafile=recorder.pem, verify_hostname=True), 60),
    ):
        with pytest.raises(rapi.CertificateError, match=f"curl error {code}") as caught:
            _Client(recorder, curl_config_fn=config).GetInfo()
        assert caught.value.code == code
    assert recorder.Take() == []
    _Client(recorder, curl_config_fn=GenericCurlConfig(cafile=recorder.pem)).GetInfo()
    _Client(recorder, curl_config_fn=GenericCurlConfig()).GetInfo()
    assert len(recorder.Take()) == 2


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda: GanetiRapiClient("h", username="u"), rapi.Error),
        (lambda: GanetiRapiClient("h", password="p"), rapi.Error),
        (lambda: GanetiRapiClient("h", username="u", password="p", token="t"), rapi.Error),
        (lambda: GanetiRapiClient("h", token="t\r\nHost: x"), rapi.Error),
        (lambda: GanetiRapiClient("h").Conditional(if_match='"1"\n'), rapi.Error),
        (lambda: GenericCurlConfig(use_curl_cabundle=True, cafile="x"), rapi.Error),
        (lambda: GanetiRapiClient("h").EvacuateNode("n", iallocator="a", remote_node="b"), GanetiApiError),
    ],
)
def test_misuse_is_an_error_before_anything_is_sent(call: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        call()


# --- credentials, handles --------------------------------------------------------------------------------------------


def test_credentials(recorder: Recorder, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    _Client(recorder, username="jack", password="pass:wörd").GetInfo()
    _Client(recorder, token="gnt_abc").GetInfo()
    basic, bearer = recorder.Take()
    assert basic.headers["authorization"] == "Basic amFjazpwYXNzOnfDtnJk"
    assert bearer.headers["authorization"] == "Bearer gnt_abc"
    assert "/2/info" in caplog.text and "pass" not in caplog.text and "gnt_abc" not in caplog.text


def test_addresses_of_ipv6_are_bracketed() -> None:
    handle = _Handle()
    GanetiRapiClient("2001:db8::1", curl_factory=lambda: handle).GetVersion()
    assert "https://[2001:db8::1]:5080/version" in handle.set.values()


class _Handle:
    """Takes what is set and answers nothing."""

    def __init__(self) -> None:
        self.set: dict[int, Any] = {}
        self.performed = self.closed = 0

    def setopt(self, option: int, value: Any) -> None:
        self.set[option] = value

    def perform(self) -> None:
        self.performed += 1

    def getinfo(self, info: int) -> int:
        return 200

    def close(self) -> None:
        self.closed += 1


def test_every_call_has_a_handle_that_the_caller_may_make_and_configure() -> None:
    made: list[_Handle] = []
    configured = []

    def make() -> _Handle:
        made.append(_Handle())
        return made[-1]

    log = object.__new__(type("Log", (), {"debug": lambda *args: None}))
    client = GanetiRapiClient("h", logger=log, curl_factory=make, curl_config_fn=lambda *args: configured.append(args))
    client.GetVersion()
    client.GetInfo()
    assert configured == [(made[0], log), (made[1], log)]
    assert [(handle.performed, handle.closed) for handle in made] == [(1, 1), (1, 1)]


def test_the_decorator_keeps_the_function() -> None:
    @rapi.UsesRapiClient
    def main(first: int, *, second: int) -> int:
        """Words."""
        return first + second

    assert main(1, second=2) == 3
    assert (main.__name__, main.__doc__) == ("main", "Words.")


# --- alone -----------------------------------------------------------------------------------------------------------

_ALONE = """
import builtins, sys
allowed = set(sys.stdlib_module_names) | {"pycurl", "client"}
real = builtins.__import__
def checked(name, names=None, *args, **kwargs):
    if (names or {}).get("__name__") == "client" and name.partition(".")[0] not in allowed:
        raise ImportError(f"{name} is not there")
    return real(name, names, *args, **kwargs)
builtins.__import__ = checked
import client
print(client.GanetiRapiClient("h").InstanceAllocation("create", "n", "file", [], [])["name"])
"""


def test_the_file_works_alone(tmp_path: Any) -> None:
    source = os.path.join(TOP, "lib", "rapi", "client.py")
    with open(source, encoding="utf-8") as stream:
        (tmp_path / "client.py").write_text(stream.read())
    done = subprocess.run([sys.executable, "-c", _ALONE], cwd=tmp_path, capture_output=True, text=True, timeout=50)
    assert (done.stdout, done.stderr) == ("n\n", "")


def test_exported_names() -> None:
    """Values that scripts compare with, from the facts about 3.1's library."""
    named = {
        "GANETI_RAPI_PORT": 5080, "GANETI_RAPI_VERSION": 2, "HTTP_GET": "GET", "HTTP_PUT": "PUT", "HTTP_POST": "POST",
        "HTTP_DELETE": "DELETE", "HTTP_OK": 200, "HTTP_NOT_FOUND": 404, "HTTP_APP_JSON": "application/json",
        "REPLACE_DISK_PRI": "replace_on_primary", "REPLACE_DISK_SECONDARY": "replace_on_secondary",
        "REPLACE_DISK_CHG": "replace_new_secondary", "REPLACE_DISK_AUTO": "replace_auto",
        "NODE_EVAC_PRI": "primary-only", "NODE_EVAC_SEC": "secondary-only", "NODE_EVAC_ALL": "all",
        "NODE_ROLE_DRAINED": "drained", "NODE_ROLE_MASTER_CANDIDATE": "master-candidate", "NODE_ROLE_MASTER": "master",
        "NODE_ROLE_OFFLINE": "offline", "NODE_ROLE_REGULAR": "regular",
        "JOB_STATUS_PENDING": {"queued", "waiting", "canceling"}, "JOB_STATUS_FINALIZED": {"canceled", "success", "error"},
        "JOB_STATUS_ALL": {"queued", "waiting", "canceling", "running", "canceled", "success", "error"},
        "JOB_STATUS_WAITLOCK": "waiting", "_INST_CREATE_REQV1": FEATURES[0], "INST_REINSTALL_REQV1": FEATURES[1],
        "_NODE_MIGRATE_REQV1": FEATURES[2], "NODE_EVAC_RES1": FEATURES[3],
        "ECODE_RESOLVER": "resolver_error", "ECODE_NORES": "insufficient_resources",
        "ECODE_TEMP_NORES": "temp_insufficient_resources", "ECODE_INVAL": "wrong_input", "ECODE_STATE": "wrong_state",
        "ECODE_NOENT": "unknown_entity", "ECODE_EXISTS": "already_exists", "ECODE_NOTUNIQUE": "resource_not_unique",
        "ECODE_FAULT": "internal_error", "ECODE_ENVIRON": "environment_error",
    }  # fmt: skip
    for name, value in named.items():
        assert getattr(rapi, name) == value, name
    codes = {value for name, value in named.items() if name.startswith("ECODE_")}
    assert codes == rapi.ECODE_ALL and len(rapi.ECODE_ALL) == 10
    assert issubclass(rapi.CertificateError, GanetiApiError) and issubclass(GanetiApiError, rapi.Error)
    first, second = rapi.EpochNano(), rapi.EpochNano()
    assert 1_700_000_000 * 10**9 < first <= second
    for plain in ("INST_CREATE_REQV1", "INST_REINSTALL_REQV1", "NODE_MIGRATE_REQV1", "NODE_EVAC_RES1"):
        assert getattr(rapi, plain) == getattr(rapi, "_" + plain)
    assert len(list(itertools.chain(rapi.JOB_STATUS_ALL))) == 7
