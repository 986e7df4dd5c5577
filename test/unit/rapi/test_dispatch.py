"""The steps from a request to its answer, the same for every resource."""

import asyncio
import dataclasses

import pytest
from support.rapi import PLAIN, READER, WRITER, Basic, Site
from support.rapicalls import NotingMaster

from ganeti import constants, errors, ht
from ganeti.luxi import protocol
from ganeti.rapi.declared import Argument, ArgumentKind, BodyUse, Etag, Method, Resource, Role
from ganeti.rapi.requests.call import Answer, HttpError
from ganeti.rapi.resources.instances import FIELDS

SEEN = []
THING = "11111111-2222-4333-8444-555555555555"


async def _Show(call):
    SEEN.append(call)
    return {"names": dict(call.names), "arguments": dict(call.arguments)}


async def _Echo(call):
    SEEN.append(call)
    return call.body if isinstance(call.body, (dict, list, str, int)) or call.body is None else "absent"


async def _Versioned(call):
    return Answer({"serial_no": 7}, (THING, 7))


async def _Tags(call):
    return Answer(["a"], ("tags", "a"))


async def _Live(call):
    return Answer({"serial_no": 7, "memory": 1}, (THING, 7))


async def _Fails(call):
    raise {
        "http": HttpError(503, "not <now> & 'here'"),
        "noent": errors.OpPrereqError("no such thing", errors.ECODE_NOENT),
        "wrong": errors.OpPrereqError("bad", errors.ECODE_INVAL),
        "lost": errors.JobLost("Job 5 lost"),
        "drained": errors.JobQueueDrainError("drained"),
        "generic": errors.GenericError("something", hint="do this"),
        "bug": KeyError("a-secret-key"),
        "rejected": protocol.RequestError("Not a job id"),
        "bug of masterd": protocol.InternalError("QueryMetrics: internal error, the master daemon's log says more"),
    }[call.arguments["how"]]


_ARGUMENTS = (
    Argument("bulk", ArgumentKind.FLAG, "", default=False),
    Argument("live", ArgumentKind.FLAG, ""),
    Argument("mode", ArgumentKind.TEXT, ""),
    Argument("fields", ArgumentKind.FIELDS, ""),
    Argument("tag", ArgumentKind.TEXTS, ""),
)
TABLE = (
    Resource("/2", "", {"GET": Method(_Show, "", Role.READ)}),
    Resource("/2/things", "", {"GET": Method(_Show, "", Role.READ, arguments=_ARGUMENTS)}),
    Resource(
        "/2/needs",
        "",
        {"GET": Method(_Show, "", Role.READ, arguments=(Argument("fields", ArgumentKind.FIELDS, "", required=True),))},
    ),
    Resource(
        "/2/things/{name}",
        "",
        {
            "GET": Method(_Versioned, "", Role.READ, etag=Etag.WHOLE),
            "DELETE": Method(_Echo, "", Role.ADMIN, body=BodyUse.OPTIONAL),
        },
    ),
    Resource("/2/things/{name}/disk/{index}", "", {"GET": Method(_Show, "", Role.READ)}),
    Resource("/2/things/{name}/modify", "", {"PUT": Method(_Echo, "", Role.OPERATE, body=BodyUse.REQUIRED)}),
    Resource(
        "/2/things/{name}/tags",
        "",
        {
            "GET": Method(_Tags, "", Role.READ, etag=Etag.WHOLE),
            "PUT": Method(_Echo, "", Role.OPERATE, body=BodyUse.OPTIONAL),
        },
    ),
    Resource("/2/things/{name}/console", "", {"GET": Method(_Show, "", Role.OPERATE, access=("read", "write"))}),
    Resource("/2/live", "", {"GET": Method(_Live, "", Role.READ, etag=Etag.OBJECT)}),
    Resource("/2/any", "", {"PUT": Method(_Echo, "", Role.ADMIN, body=BodyUse.ANY, body_type=ht.TString)}),
    Resource(
        "/2/fails",
        "",
        {"GET": Method(_Fails, "", Role.READ, arguments=(Argument("how", ArgumentKind.TEXT, ""),))},
    ),
)


@pytest.fixture
def site(tmp_path):
    SEEN.clear()
    return Site(str(tmp_path / "users"), table=TABLE)


@pytest.fixture
def closed(tmp_path):
    SEEN.clear()
    return Site(str(tmp_path / "users"), table=TABLE, required=True)


def _Status(site, verb, target, *args, **kwargs):
    return site.Ask(verb, target, *args, **kwargs).status


# What every client of 3.1 sees


def test_the_first_resources(tmp_path):
    site = Site(str(tmp_path / "users"))
    assert site.Ask("GET", "/").body == b"null\n"
    assert site.Ask("GET", "/2").body == b"null\n"
    answer = site.Ask("GET", "/version")
    assert (answer.status, answer.body, answer.headers["content-type"]) == (200, b"2\n", "application/json")
    assert site.Ask("GET", "/2/features").value == [
        "instance-create-reqv1",
        "instance-reinstall-reqv1",
        "node-migrate-reqv1",
        "node-evac-res1",
        # What there is beyond 3.1.
        "etag",
        "keep-alive",
        "openapi",
        "events",
        "metrics",
        "tokens",
        "audit",
    ]
    assert constants.RAPI_VERSION == 2


@pytest.mark.parametrize(
    "path",
    [
        "/2/",
        "/2/things/",
        "//2",
        "/3/things",
        "/2/things/a%62",
        "/2/things/a b",
        "/2/things/a/disk/x",
        "/nothing",
        "/2/things/é",
    ],
)
def test_paths_are_matched_before_they_are_decoded(site, path):
    answer = site.Ask("GET", path)
    assert answer.status == 404
    assert answer.value == {"code": 404, "message": "Not Found", "explain": "Nothing matches the given URI"}
    assert SEEN == []


def test_names_come_from_the_path(site):
    assert site.Ask("GET", "/2/things/a.b-c_1/disk/07").value["names"] == {"name": "a.b-c_1", "index": "07"}


@pytest.mark.parametrize("verb", ["PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "NONSENSE"])
def test_methods_that_a_resource_lacks_are_501(site, verb):
    assert _Status(site, verb, "/2/things") == 501


def test_a_method_may_be_in_lower_case(site):
    assert _Status(site, "get", "/2") == 200


def test_errors_have_three_keys_and_are_escaped(site):
    answer = site.Ask("GET", "/2/fails?how=http")
    assert answer.status == 503
    assert answer.value == {
        "code": 503,
        "message": "not &lt;now&gt; &amp; &#x27;here&#x27;",
        "explain": "The server cannot process the request due to a high load",
    }
    assert answer.headers["content-type"] == "application/json"
    assert answer.body.endswith(b"}\n")


@pytest.mark.parametrize(
    ("how", "status"),
    [
        ("noent", 404),
        ("wrong", 400),
        ("lost", 404),
        ("drained", 503),
        ("generic", 500),
        ("bug", 500),
        ("rejected", 400),
        ("bug%20of%20masterd", 500),
    ],
)
def test_errors_of_ours_have_their_status(site, how, status):
    answer = site.Ask("GET", f"/2/fails?how={how}")
    assert (answer.status, answer.value["code"]) == (status, status)
    assert b"secret" not in answer.body
    if how == "generic":
        assert answer.value["message"] == "something; do this"


@pytest.mark.req("D20-RAPI-09")
def test_answers_are_ascii(tmp_path):
    async def show(call):
        return "Käse\u2028"

    site = Site(str(tmp_path / "users"), table=[Resource("/2", "", {"GET": Method(show, "", Role.READ)})])
    answer = site.Ask("GET", "/2")
    assert answer.body == b'"K\\u00e4se\\u2028"\n'
    assert answer.headers["content-type"] == site.Ask("GET", "/nothing").headers["content-type"] == "application/json"


# Credentials


@pytest.mark.req("D20-RAPI-13")
def test_who_may_do_what(site):
    modify = ("PUT", "/2/things/a/modify", {})
    assert _Status(site, "GET", "/2/things") == 200, "reading is open"
    assert _Status(site, *modify) == 401
    assert _Status(site, *modify, headers=PLAIN) == 403
    assert _Status(site, *modify, headers=READER) == 403
    assert _Status(site, *modify, headers=WRITER) == 200
    console = ("GET", "/2/things/a/console")
    assert _Status(site, *console) == 401
    assert _Status(site, *console, headers=PLAIN) == 403
    assert _Status(site, *console, headers=READER) == 200
    assert _Status(site, *console, headers=WRITER) == 200


def test_credentials_that_are_sent_must_be_right(site):
    answer = site.Ask("GET", "/2/things", headers=Basic("reader", "wrong"))
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == 'Basic realm="Ganeti Remote API"'
    assert _Status(site, "GET", "/2/things", headers=Basic("nobody", "x")) == 401
    assert SEEN == []


def test_the_order_of_checks(site, closed):
    assert _Status(site, "PUT", "/2/nothing") == 404
    assert _Status(site, "POST", "/2/things/a/modify") == 501
    assert _Status(closed, "GET", "/2/nothing") == 401, "without credentials nobody learns which paths there are"
    assert _Status(closed, "GET", "/2/things") == 401
    assert _Status(closed, "GET", "/2/nothing", headers=PLAIN) == 404
    assert _Status(closed, "GET", "/2/things", headers=PLAIN) == 200
    assert _Status(site, "GET", "/2/things?bulk=x", headers=Basic("reader", "wrong")) == 401
    assert _Status(site, "PUT", "/2/things/a/modify", b"{", headers=READER) == 403


# Arguments


def test_arguments(site):
    shown = site.Ask("GET", "/2/things?bulk=2&live=0&mode=a+b%20c&mode=d&fields=+a,b,,&tag=x&tag=%C3%A4&other=1").value
    assert shown["arguments"] == {"bulk": True, "live": False, "mode": "a b c", "fields": ["a", "b"], "tag": ["x", "ä"]}
    absent = site.Ask("GET", "/2/things?bulk=&live=&mode=&fields=&tag=").value
    assert absent["arguments"] == {"bulk": False, "live": None, "mode": None, "fields": None, "tag": []}


@pytest.mark.parametrize("text", ["true", "1.0", "x", "0x1", "1_0", "%D9%A1", "9" * 101])
def test_a_flag_is_a_number(site, text):
    answer = site.Ask("GET", f"/2/things?bulk={text}")
    assert (answer.status, answer.value["message"]) == (400, "Invalid value for the &#x27;bulk&#x27; parameter")


@pytest.mark.parametrize("query", ["", "?fields=", "?fields=,+,"])
def test_a_required_argument(site, query):
    assert _Status(site, "GET", f"/2/needs{query}") == 400


def test_an_argument_that_is_not_utf8(site):
    assert _Status(site, "GET", "/2/things?mode=%ff") == 400


# Bodies


def _Modify(site, body, **headers):
    return site.Ask("PUT", "/2/things/a/modify", body, headers={**WRITER, **headers})


@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "text/plain", "", "application/json, application/json"]
)
def test_the_content_type_is_json_and_nothing_else(site, kind):
    answer = _Modify(site, {}, **{"Content-Type": kind})
    assert answer.status == 415
    assert _Status(site, "GET", "/2", b"{}", headers={"Content-Type": kind}) == 415, "of bodies that are ignored, too"


def test_the_case_of_the_content_type(site):
    assert _Modify(site, {"a": 1}, **{"Content-Type": "Application/JSON"}).value == {"a": 1}


@pytest.mark.parametrize("text", [b"{", b"\xff", b"[" * 100000, b'"\\ud800"', b"1e999", b"{}x", b"9" * 5000, b" "])
def test_a_body_that_is_not_json(site, text):
    answer = _Modify(site, text)
    assert (answer.status, answer.value["message"]) == (400, "Unable to parse JSON data")


@pytest.mark.parametrize(("body", "kind"), [([], "list"), ("x", "str"), (1, "int"), (None, "NoneType"), (True, "bool")])
def test_a_body_that_is_no_object(site, body, kind):
    answer = _Modify(site, body)
    assert answer.status == 400
    assert answer.value["message"] == f"Body contents: Type is &#x27;{kind}&#x27;, but &#x27;dict&#x27; is expected"


def test_no_body_where_one_is_needed_or_may_be(site):
    assert _Modify(site, b"").status == 400
    for body in (b"", b"null", b"{}"):
        assert _Status(site, "DELETE", "/2/things/a", body, headers=WRITER) == 200


def test_a_body_of_its_own_type(site):
    assert site.Ask("PUT", "/2/any", "x", headers=WRITER).value == "x"
    answer = site.Ask("PUT", "/2/any", 4711, headers=WRITER)
    assert answer.status == 400
    assert "4711" not in answer.value["message"]


def test_a_body_that_is_too_large(site):
    assert _Modify(site, {"a": "x" * (9 << 20)}).status == 413
    assert _Status(site, "GET", "/2", {"a": "x" * (1 << 17)}) == 413, "strangers send nothing large"
    assert _Status(site, "GET", "/2", {"a": "x" * (1 << 17)}, headers=PLAIN) == 200
    headers = {**WRITER, "Transfer-Encoding": "chunked", "Content-Length": "0"}
    assert _Status(site, "PUT", "/2/things/a/modify", {"a": "x" * (9 << 20)}, headers=headers) == 413


def test_headers_that_may_not_be_repeated(site):
    assert _Status(site, "GET", "/2", headers=[*READER.items(), *WRITER.items()]) == 400


# Accept


@pytest.mark.req("D20-RAPI-10")
@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("*/*", 200),
        ("application/json", 200),
        ("text/html, application/*;q=0.1", 200),
        ("", 200),
        ("text/html", 406),
        ("application/json;q=0, text/html", 406),
        (";;,,", 406),
    ],
)
def test_accept(site, accept, status):
    assert _Status(site, "GET", "/2", headers={"Accept": accept}) == status


# Versions


@pytest.mark.parametrize("status", sorted(constants.JOB_STATUS_ALL))
def test_a_job_has_a_version_when_it_changes_no_more(tmp_path, status):
    """Its log grows and its opcodes go on while its status stays."""
    ended = status in constants.JOBS_FINALIZED
    shown = {"id": 17, "status": status, "ops": [{"OP_ID": "OP_TEST_DELAY"}], "summary": ["TEST_DELAY"],
             "opstatus": [status], "received_ts": [1, 0], "start_ts": [2, 0], "end_ts": [3, 0] if ended else None,
             "oplog": [[]], "opresult": [None]}  # fmt: skip
    master = NotingMaster(QueryJobs=lambda _ids, fields: [[shown[field] for field in fields]])
    site = Site(str(tmp_path / "users"), master)
    tag = site.Ask("GET", "/2/jobs/17", headers=READER).headers.get("etag")
    assert (tag is not None) == ended
    shown["oplog"] = [[[1, [2, 0], "message", "half of it is done"]]]
    again = site.Ask("GET", "/2/jobs/17", headers={**READER, "If-None-Match": tag or f'"17-{status}"'})
    assert again.status == (304 if ended else 200)


@pytest.mark.req("D20-RAPI-06")
def test_etag(site):
    answer = site.Ask("GET", "/2/things/a")
    tag = answer.headers["etag"]
    assert tag == f'"{THING}-7"'
    same = site.Ask("GET", "/2/things/a", headers={"If-None-Match": f'"other", W/{tag}'})
    assert (same.status, same.body, same.headers["etag"]) == (304, b"", tag)
    assert _Status(site, "GET", "/2/things/a", headers={"If-None-Match": '"other"'}) == 200
    assert _Status(site, "GET", "/2/things/a", headers={"If-Match": tag}) == 200
    assert _Status(site, "GET", "/2/things/a", headers={"If-Match": '"other"'}) == 412
    assert _Status(site, "GET", "/2/live", headers={"If-None-Match": tag}) == 200, "live values are never hidden"


@pytest.mark.req("D20-RAPI-06")
def test_changes_are_compared_with_what_they_change(site):
    def send(verb, path, body, condition):
        SEEN.clear()
        return _Status(site, verb, path, body, headers={**WRITER, "If-Match": condition})

    tag = f'"{THING}-7"'
    for verb, path in (("PUT", "/2/things/a/modify"), ("DELETE", "/2/things/a")):
        assert send(verb, path, {}, '"other"') == 412
        assert send(verb, path, {}, f"W/{tag}") == 412, "a weak tag promises too little"
        assert SEEN == []
        assert send(verb, path, {}, tag) == 200
        assert SEEN[0].if_match == f"{THING}-7", "the job compares again"
        assert send(verb, path, {}, "*") == 200
        assert SEEN[0].if_match is None
    for condition in (tag, "*"):
        assert send("PUT", "/2/any", "x", condition) == 400, "nothing with a version is there"
    assert SEEN == []
    assert send("PUT", "/2/things/a/modify", {}, "no quotes") == 400


@pytest.mark.req("D20-RAPI-06")
@pytest.mark.parametrize(
    ("shown", "verb", "path", "body"), [("/2/info", "PUT", "/2/modify", {"candidate_pool_size": 5}),
                                        ("/2/tags", "PUT", "/2/tags?tag=x", b""),
                                        ("/2/tags", "DELETE", "/2/tags?tag=x", b"")],
)  # fmt: skip
def test_changes_of_the_cluster_are_bound_to_its_version(tmp_path, shown, verb, path, body):
    values = {"cluster_uuid": THING, "cluster_serial": 7, "config_serial": 40}
    info = {"uuid": THING, "mtime": 1.5, "master": "n1", "software_version": "x"}
    master = NotingMaster(
        QueryClusterInfo={**info, "volume_group_name": None, "drbd_usermode_helper": None},
        QueryConfigValues=lambda names: [values[name] for name in names],
        QueryTags=lambda kind, name: ["a"],
    )
    site = Site(str(tmp_path / "users"), master)
    shown_tag = site.Ask("GET", shown).headers["etag"]

    def send(condition):
        master.calls.clear()
        status = _Status(site, verb, path, body, headers={**WRITER, "If-Match": condition})
        jobs = [args[0] for method, *args in master.calls if method == "SubmitJob"]
        return status, [op.get("if_match") for ops in jobs for op in ops]

    assert send(shown_tag) == (200, [f"{THING}-7"]), "the job compares again"
    assert send(f'"{THING}-7"') == (200, [f"{THING}-7"])
    assert send("*") == (200, [None])
    assert send(f'"{THING}-6"') == (412, [])
    values["config_serial"], master.answers["QueryClusterInfo"]["mtime"] = 41, 2.5
    assert send(shown_tag) == (412, [])


@pytest.mark.req("D20-RAPI-06")
def test_a_part_of_an_object_has_two_tags_and_the_job_is_bound_to_the_object(site):
    part = site.Ask("GET", "/2/things/a/tags").headers["etag"]
    whole = f'"{THING}-7"'
    assert part != whole
    for tag in (part, whole, f'"other", {part}'):
        SEEN.clear()
        assert _Status(site, "PUT", "/2/things/a/tags", {}, headers={**WRITER, "If-Match": tag}) == 200
        assert SEEN[0].if_match == f"{THING}-7"
    assert _Status(site, "PUT", "/2/things/a/tags", {}, headers={**WRITER, "If-Match": '"other"'}) == 412


@pytest.mark.req("D20-RAPI-06")
@pytest.mark.parametrize("kind", ["instances", "groups", "networks", "filters"])
def test_the_version_of_a_list_is_not_compared_with_what_is_created(tmp_path, kind):
    """It would be the version of the whole configuration, which may change before the job runs."""
    rows = {f"Query{kind.capitalize()}": [["a", THING]]}
    master = NotingMaster(QueryConfigValues=[THING, 7], ReplaceFilter=THING, **rows)
    site = Site(str(tmp_path / "users"), master)
    listed = site.Ask("GET", f"/2/{kind}").headers["etag"]
    bodies = {
        "instances": {
            "__version__": 1,
            "name": "w",
            "mode": "create",
            "disk_template": "diskless",
            "disks": [],
            "nics": [],
        },
        "groups": {"group_name": "g"},
        "networks": {"network_name": "n", "network": "192.0.2.0/24"},
        "filters": {},
    }
    for condition in (listed, '"other"'):
        master.calls.clear()
        answer = site.Ask("POST", f"/2/{kind}", bodies[kind], {**WRITER, "If-Match": condition})
        assert (answer.status, "send this request without If-Match" in answer.value["message"]) == (400, True)
        assert {method for method, *_ in master.calls} <= {"QueryConfigValues", *rows}, "nothing was created"
    assert _Status(site, "POST", f"/2/{kind}", bodies[kind], headers={**WRITER, "If-Match": "*"}) == 200


RULE = {
    "uuid": THING, "watermark": 5, "priority": 1, "predicates": [["jobid", [">", "id", 2]]], "action": "PAUSE",
    "reason_trail": [],
}  # fmt: skip


@pytest.mark.req("D20-RAPI-06")
@pytest.mark.parametrize(("verb", "method"), [("PUT", "ReplaceFilter"), ("DELETE", "DeleteFilter")])
def test_the_master_daemon_compares_a_filter_with_what_if_match_found(tmp_path, verb, method):
    def changed(*args):
        raise errors.OpPrereqError("Filter rule 'x' was changed since it was looked at", errors.ECODE_STATE)

    master = NotingMaster(QueryFilters=[list(RULE.values())], ReplaceFilter=THING, DeleteFilter=None)
    site = Site(str(tmp_path / "users"), master)
    path, body = f"/2/filters/{THING}", {"action": "REJECT"} if verb == "PUT" else b""
    tag = site.Ask("GET", path).headers["etag"]

    def send(**condition):
        master.calls.clear()
        status = _Status(site, verb, path, body, headers={**WRITER, **condition})
        return status, [args for name, *args in master.calls if name == method]

    status, [sent] = send(**{"If-Match": tag})
    assert (status, sent[-1]) == (200, RULE)
    assert send(**{"If-Match": "*"})[1][0][-1] == {}, "it must exist, whatever it says"
    assert RULE not in send()[1][0]
    assert send(**{"If-Match": '"other"'}) == (412, [])
    master.answers[method] = changed
    assert send(**{"If-Match": tag})[0] == 412


@pytest.mark.req("D20-RAPI-06")
def test_a_question_that_is_a_job_is_bound_as_well(tmp_path):
    cells = [[0, {"uuid": THING, "beparams": {"maxmem": 5}}.get(field, 7)] for field in FIELDS]
    master = NotingMaster(Query={"data": [cells]}, QueryConfigValues=[THING, 7])
    site = Site(str(tmp_path / "users"), master)

    def send(tag):
        master.calls.clear()
        status = _Status(site, "GET", "/2/instances/web/info", headers={"If-Match": tag})
        return status, [op.get("if_match") for name, *args in master.calls if name == "SubmitJob" for op in args[0]]

    assert send(f'"{THING}-7"') == (200, [f"{THING}-7"])
    assert send(f'"{THING}-6"') == (412, [])


def test_a_token_brings_its_role(tmp_path):
    from ganeti.rapi.requests.call import Caller

    async def find(secret, address):
        role = {"r": Role.READ, "o": Role.OPERATE, "a": Role.ADMIN}.get(secret)
        return None if role is None else Caller("robot", address, role=role)

    site = Site(str(tmp_path / "users"), table=TABLE, tokens=find)

    def status(secret, verb, path, body=b""):
        return _Status(site, verb, path, body, headers={"Authorization": f"Bearer {secret}"})

    assert status("r", "GET", "/2/things") == 200
    assert status("x", "GET", "/2/things") == 401
    assert status("r", "PUT", "/2/things/a/modify", {}) == 403
    assert status("o", "PUT", "/2/things/a/modify", {}) == 200
    assert status("o", "DELETE", "/2/things/a") == 403
    assert status("a", "DELETE", "/2/things/a") == 200
    without = Site(str(tmp_path / "users"), table=TABLE)
    assert _Status(without, "GET", "/2", headers={"Authorization": "Bearer r"}) == 401


def test_the_call_that_an_action_gets(site):
    _Modify(site, {"a": 1})
    call = SEEN[-1]
    assert (call.verb, call.names, call.body) == ("PUT", {"name": "a"}, {"a": 1})
    assert (call.caller.name, call.caller.address) == ("writer", "192.0.2.7:4711")
    assert dataclasses.is_dataclass(call)


# How much one user may have under way


def test_one_name_does_not_take_all_connections(tmp_path):
    """And whoever cannot log in is not remembered, however many names are tried."""
    released = asyncio.Event()

    async def wait(call):
        await released.wait()

    async def quick(call):
        return None

    table = [
        Resource("/2", "", {"GET": Method(wait, "", Role.READ)}),
        Resource("/3", "", {"GET": Method(quick, "", Role.READ)}),
    ]
    site = Site(str(tmp_path / "users"), table=table, most_of_name=2)

    async def story():
        slow = [asyncio.create_task(site.Send("GET", "/2", headers=READER)) for _ in range(2)]
        while not (len(site.application.under_way) and sum(site.application.under_way._counts.values()) == 2):
            await asyncio.sleep(0)
        refused = await site.Send("GET", "/3", headers=READER)
        assert (refused.status, refused.value["message"]) == (
            503,
            "2 requests of this user or token are under way already",
        )
        assert (await site.Send("GET", "/3", headers=WRITER)).status == 200
        assert (await site.Send("GET", "/3")).status == 200
        for number in range(1000):
            assert (await site.Send("GET", "/3", headers=Basic(f"user{number}", "x"))).status == 401
        assert len(site.application.under_way) == 1
        released.set()
        await asyncio.gather(*slow)
        assert len(site.application.under_way) == 0
        assert (await site.Send("GET", "/3", headers=READER)).status == 200

    async def run():
        await asyncio.wait_for(story(), 50)

    asyncio.run(run())
