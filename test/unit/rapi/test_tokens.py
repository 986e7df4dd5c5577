"""Tokens: who is let in, what a role allows, and what a token for some instances reaches."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from support.rapi import WRITER, Reply, Site
from support.rapicalls import NotingMaster
from support.timing import Compared

from ganeti import constants, errors, runtime
from ganeti.rapi import resources
from ganeti.rapi.callers import tokens as rapi_tokens
from ganeti.rapi.declared import Method, Resource, Role, Scope
from ganeti.rapi.requests.call import Call
from ganeti.utils import tokens

WEB, DB = "web1.example.com", "db1.example.com"
# When tokens are created, in nanoseconds.
CREATED = 10**18
INSTANCES = {WEB: ["web", "prod"], DB: ["prod"], "twin.a.example.com": ["prod"], "twin.b.example.com": ["prod"]}


class Master(NotingMaster):
    """Knows tokens, two instances, and which jobs were submitted by whom."""

    def __init__(self) -> None:
        super().__init__(
            QueryRapiTokens=lambda names: [{"name": n, **self.stored[n]} for n in names if n in self.stored],
            Query=self._Query,
            QueryInstances=lambda names, fields, lock: [
                [{"name": name, "uuid": f"uuid of {name}", "tags": tags}[field] for field in fields]
                for name, tags in INSTANCES.items()
            ],
            QueryJobs=self._QueryJobs,
            CancelJob=[True, "canceled"],
        )
        self.stored: dict[str, dict[str, Any]] = {}
        self.jobs: dict[int, list[Any]] = {}

    def _Query(self, kind: str, fields: list[str], qfilter: Any) -> dict[str, Any]:
        assert kind == "instance"
        asked = qfilter[2]
        found = [name for name in INSTANCES if asked in (name, f"uuid of {name}") or name.startswith(f"{asked}.")]
        # The real one does the same (query.engine).
        if not found:
            raise errors.OpPrereqError(f"Instance name {asked} not found", errors.ECODE_NOENT)
        if len(found) > 1:
            raise errors.OpPrereqError(f"instance name '{asked}' is ambiguous: {', '.join(found)}", errors.ECODE_INVAL)
        known = [{"name": name, "uuid": f"uuid of {name}", "tags": INSTANCES[name]} for name in found]
        return {"data": [[[0, instance[field]] for field in fields] for instance in known]}

    def _QueryJobs(self, ids: list[int], fields: list[str]) -> list[list[Any]]:
        return [[[{"reason": self.jobs[number]}] if number in self.jobs else None] for number in ids]

    def Add(
        self, name: str, role: str = "admin", tags: tuple[str, ...] = (), expires: float | None = None
    ) -> dict[str, str]:
        token = tokens.Make(name, os.urandom(32))
        self.stored[name] = {
            "sha256": tokens.Digest(token), "role": role, "tags": list(tags), "created": CREATED / 10**9,
            "expires": expires,
        }  # fmt: skip
        return {"Authorization": f"Bearer {token}"}


class _Place:
    def __init__(self, folder: Path):
        self.master = Master()
        self.site = Site(str(folder / "users"), self.master, tokens=rapi_tokens.Finder(self.master))

    def Ask(self, verb: str, target: str, headers: dict[str, str], **more: Any) -> Reply:
        return self.site.Ask(verb, target, headers=headers, **more)


@pytest.fixture
def place(tmp_path: Path) -> _Place:
    return _Place(tmp_path)


def test_a_token_is_let_in_until_it_is_revoked(place: _Place) -> None:
    header = place.master.Add("robot")
    assert place.Ask("PUT", f"/2/instances/{WEB}/startup", header).status == 200
    del place.master.stored["robot"]
    reply = place.Ask("PUT", f"/2/instances/{WEB}/startup", header)
    assert (reply.status, reply.headers["www-authenticate"][:5]) == (401, "Basic")


def test_an_expired_or_forged_token_is_nobody(place: _Place) -> None:
    now = runtime.Time()
    assert place.Ask("GET", "/2", place.master.Add("late", expires=now - 1)).status == 401
    assert place.Ask("GET", "/2", place.master.Add("soon", expires=now + 3600)).status == 200
    good = place.master.Add("robot")["Authorization"]
    for wrong in (
        good[:-1] + ("A" if good[-1] != "A" else "B"),
        good.replace("robot", "soon"),
        good.replace("robot", "nobody"),
        "Bearer x",
    ):
        assert place.Ask("GET", "/2", {"Authorization": wrong}).status == 401, wrong


def test_a_forged_token_costs_as_much_as_the_right_one_whoever_it_names(
    place: _Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long an answer takes says neither which tokens there are nor how much of one is right."""
    compared = Compared(monkeypatch)
    header = place.master.Add("robot")["Authorization"]
    for sent in (header, header[:-9] + "A" * 9, header.replace("robot", "nobody")):
        place.Ask("GET", "/2", {"Authorization": sent})
        assert compared.Take() == [64]


@pytest.mark.parametrize("role", constants.RAPI_ROLES)
def test_a_role_allows_what_is_declared_for_it_and_nothing_above(place: _Place, role: str) -> None:
    header = place.master.Add("robot", role)
    granted = {"read": Role.READ, "operate": Role.OPERATE, "admin": Role.ADMIN}[role]
    counted = 0
    for resource in resources.RESOURCES:
        path = resource.path.replace("{name}", "x").replace("{job}", "1").replace("{uuid}", "u").replace("{index}", "0")
        for verb, method in resource.methods.items():
            if method.role > granted:
                counted += 1
                reply = place.Ask(verb, path.replace("{resource}", "node"), header)
                assert reply.status == 403, (verb, path)
                assert f"role {method.role.name.lower()}" in reply.value["message"]
    assert counted or role == "admin"
    assert not [call for call in place.master.calls if call[0] != "QueryRapiTokens"]


def test_a_token_for_tags_sees_and_uses_its_instances_only(place: _Place) -> None:
    header = place.master.Add("robot", "operate", ("web", "test"))
    assert [row["id"] for row in place.Ask("GET", "/2/instances", header).value] == [WEB]
    assert place.Ask("PUT", f"/2/instances/{WEB}/startup", header).status == 200
    answers = set()
    for target in (DB, DB.partition(".")[0], "twin", "nobody", "x" * 200):
        for verb, rest in (("PUT", "/startup"), ("GET", "")):
            reply = place.Ask(verb, f"/2/instances/{target}{rest}", header)
            answers.add((reply.status, reply.body))
            assert reply.status == 403 and "web, test" in reply.value["message"]
    assert len(answers) == 1, "which instances there are shows nowhere"
    assert len([call for call in place.master.calls if call[0] == "SubmitJob"]) == 1


def test_the_job_is_about_the_instance_whose_tags_were_looked_at(place: _Place) -> None:
    header = place.master.Add("robot", "operate", ("web",))
    assert place.Ask("PUT", "/2/instances/web1/startup", header).status == 200
    [[op]] = [call[1] for call in place.master.calls if call[0] == "SubmitJob"]
    assert (op["instance_name"], op["instance_uuid"]) == (WEB, f"uuid of {WEB}")
    assert [entry[:2] for entry in op["reason"]][-1] == ["gnt:rapi:user", "token:robot"]


def test_what_is_shown_is_about_that_instance_too(place: _Place) -> None:
    """By then another one may have its name."""
    header = place.master.Add("robot", "operate", ("web",))
    place.master.answers["QueryTags"] = ["web"]
    place.master.answers["QueryConfigValues"] = [1, 2]
    assert place.Ask("GET", "/2/instances/web1/info?static=1", header).status == 200
    [[op]] = [call[1] for call in place.master.calls if call[0] == "SubmitJob"]
    assert op["instances"] == [f"uuid of {WEB}"]
    assert place.Ask("GET", "/2/instances/web1/tags", header).status == 200
    assert ("QueryTags", "instance", f"uuid of {WEB}") in place.master.calls
    place.master.calls.clear()
    for path in ("", "/console"):
        place.Ask("GET", f"/2/instances/web1{path}", header)
    looked = [args[-1][-1] for method, *args in place.master.calls if method == "Query"]
    assert looked == ["web1", f"uuid of {WEB}"] * 2


def test_a_token_for_tags_sees_its_own_jobs_only(place: _Place) -> None:
    header = place.master.Add("robot", "operate", ("web",))
    place.master.jobs = {
        7: [["gnt:rapi:user", "token:robot", CREATED + 1]],
        8: [["gnt:rapi:user", "robot", CREATED + 1]],
        9: [["gnt:user", "token:robot", CREATED + 1], ["gnt:rapi:user", "jack", CREATED + 1]],
        11: [["gnt:rapi:user", "token:robot", CREATED - 1]],
        12: [["gnt:rapi:user", "token:robot", CREATED]],
        **{number: [["gnt:rapi:user", "token:robot", CREATED + 1]] for number in range(100, 201)},
    }
    start = f"/2/instances/{WEB}/startup"

    def waits(*numbers: int) -> int:
        return place.Ask("PUT", start, header, body={"depends": [[number, ["error"]] for number in numbers]}).status

    assert place.Ask("DELETE", "/2/jobs/7", header).status == 200
    assert waits(7) == waits() == waits(12) == 200
    assert waits(*range(100, 200)) == 200
    for other in ("8", "9", "10", "11", "9" * 30):
        assert place.Ask("DELETE", f"/2/jobs/{other}", header).status == 403, other
    place.master.calls.clear()
    for number in (8, 9, 10, 11, -1):
        assert waits(number) == waits(7, number) == 403, number
    assert waits(*range(100, 201)) == 403, "more than are looked up at a time"
    place.master.answers["QueryJobs"] = lambda numbers, fields: place.master._QueryJobs(numbers[1:], fields)
    assert waits(7) == 403, "nobody has said whose it is"
    place.master.answers["QueryJobs"] = place.master._QueryJobs
    version = "ab3ef36a-0b9c-4a6a-8f0c-8f6a3bd2b3a1-7"
    assert place.Ask("PUT", start, header, body={"if_match": version}).status == 403
    assert place.Ask("PUT", start, header, body={"depends": "x"}).status == 400
    assert "SubmitJob" not in [method for method, *_ in place.master.calls]
    assert place.Ask("PUT", start, WRITER, body={"depends": [[8, ["error"]]]}).status == 200


def test_a_token_for_tags_reaches_only_what_is_declared_open(place: _Place) -> None:
    """All methods with a foreign instance and a foreign job in the path; which are open: ``test_table.REACHED``."""
    header = place.master.Add("robot", "operate", ("web",))
    for resource in resources.RESOURCES:
        for verb, method in resource.methods.items():
            path = resource.path.format(name=DB, job="9", uuid="u", resource="node", index="0")
            needed = "&".join(f"{a.name}=x" for a in method.arguments if a.required)
            body = method.example if method.example is not None else b""
            status = place.Ask(verb, f"{path}?{needed}" if needed else path, header, body=body).status
            assert (status != 403) == (method.scope in (Scope.OPEN, Scope.LIST)), (verb, path, status)
    assert "SubmitJob" not in [method for method, *_ in place.master.calls]


def test_a_path_below_an_instance_is_closed_until_it_is_declared_open(place: _Place, tmp_path: Path) -> None:
    asked = []

    async def show(call: Call) -> Any:
        asked.append(call.names["name"])

    for scope in (Scope.CLOSED, Scope.OPEN, Scope.LIST, Scope.INSTANCE):
        pulse = Resource("/2/instances/{name}/pulse", "", {"GET": Method(show, "", Role.READ, scope=scope)})
        opened = scope is not Scope.CLOSED
        site = Site(str(tmp_path / "others"), place.master, [pulse], tokens=rapi_tokens.Finder(place.master))
        header = place.master.Add("robot", "operate", ("web",))
        reply = site.Ask("GET", f"/2/instances/{WEB}/pulse", headers=header)
        assert (reply.status, asked) == ((200, [WEB]) if opened else (403, [])), scope
        asked.clear()


def test_each_changing_request_leaves_one_line_and_no_secret(place: _Place, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    header = place.master.Add("robot", "operate")
    place.Ask("PUT", f"/2/instances/{WEB}/startup?reason=hunter2", header)
    place.Ask("GET", "/2/features", header)
    place.Ask("PUT", f"/2/instances/{WEB}/rename", header, body={"new_name": "x"})
    place.Ask("PUT", f"/2/instances/{WEB}/startup", {"Authorization": "Bearer forged"})
    place.Ask("PUT", f"/2/instances/{WEB}/shutdown", WRITER)
    lines = [json.loads(r.getMessage()[len("audit ") :]) for r in caplog.records if r.getMessage().startswith("audit ")]
    start = f"/2/instances/{WEB}/startup"
    assert lines[0] == {
        "who": "token:robot", "from": "192.0.2.7:4711", "verb": "PUT", "path": start, "status": 200, "job": 4711,
    }  # fmt: skip
    assert [(line["who"], line["status"], line.get("job")) for line in lines[1:]] == [
        ("token:robot", 403, None),
        (None, 401, None),
        ("writer", 200, 4711),
    ]
    assert "role admin" in lines[1]["error"]
    assert "hunter2" not in str(lines)
    secret = header["Authorization"].partition(".")[2]
    assert secret not in caplog.text
