"""What an attacker tries against the REST interface: filling the job queue, a victim's browser, the audit."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from support.queues import Bench
from support.rapi import PLAIN, READER, WRITER, Reply, Site
from support.rapicalls import NotingMaster

from ganeti import opcodes
from ganeti.rapi.callers import audit
from ganeti.rapi.declared import Role
from ganeti.rapi.requests.call import Caller

INFO = "/2/instances/web1/info"
REBOOT = "/2/instances/web1/reboot"
TOKENS = {
    "reading": Caller("token:reading", "192.0.2.7:1", role=Role.READ),
    "operating": Caller("token:operating", "192.0.2.7:1", role=Role.OPERATE),
}


class _Master(NotingMaster):
    """Submits jobs to a real queue."""

    def __init__(self, bench: Bench):
        super().__init__(SubmitJob=self._Submit)
        self._bench = bench

    def _Submit(self, ops: list[dict[str, Any]]) -> int:
        job_id: int = self._bench.queue.SubmitJob(ops).Result(20)
        assert self._bench.WaitEnd(job_id) == "success"
        return job_id


async def _Find(token: str, address: str) -> Caller | None:
    return TOKENS.get(token)


def _Bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}"}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(str(tmp_path / "users"), NotingMaster(), tokens=_Find)


# --- the queue --------------------------------------------------------------------------------------------------------


def _Flood(site: Site, headers: dict[str, str]) -> tuple[int, Reply]:
    """Have jobs made until one is rejected; return how many, and the answer to the last request."""
    for count in range(200):
        reply = site.Ask("GET", INFO, headers=headers)
        if reply.status != 200:
            return count, reply
    pytest.fail("the flood has no end")


def test_readers_cannot_fill_the_queue(tmp_path: Path):
    bench = Bench(str(tmp_path / "store"), max_live_jobs=100)
    try:
        site = Site(str(tmp_path / "users"), _Master(bench), tokens=_Find)
        count, reply = _Flood(site, {})
        assert (count, reply.status) == (2, 503)
        assert "2 jobs of clients that have not logged in, 2 are allowed" in reply.value["message"]
        assert "kept for clients that log in" in reply.value["message"]
        for headers, name in ((_Bearer("reading"), "token:reading"), (PLAIN, "plain")):
            count, reply = _Flood(site, headers)
            assert count == 10 - 2 * (name == "plain"), "all readers together have 20"
            assert reply.status == 503
        assert site.Ask("GET", INFO, headers=WRITER).status == 200
        assert site.Ask("POST", REBOOT, headers=_Bearer("operating")).status == 200
        assert bench.Submit("x")
    finally:
        bench.Close()


@pytest.mark.parametrize("headers", [{}, PLAIN, READER, _Bearer("reading")])
@pytest.mark.parametrize(
    "body",
    [
        {"priority": -10},
        {"depends": [[1, ["success"]]]},
        {"comment": "x" * 60000},
        {"debug_level": 1},
        {"dry_run": True},
    ],
)
def test_readers_cannot_set_parameters_of_jobs(site: Site, headers: dict[str, str], body: dict[str, Any]):
    reply = site.Ask("GET", INFO, body, headers)
    assert reply.status == 403
    [name] = body
    assert f"leave them out: &#x27;{name}&#x27;" in reply.value["message"]
    assert site.master.calls == []


@pytest.mark.parametrize("headers", [{}, PLAIN, _Bearer("reading")])
def test_readers_get_their_job_as_before(site: Site, headers: dict[str, str]):
    assert site.Ask("GET", INFO + "?static=1", {"anything": 1}, headers).value == 4711
    [op] = site.master.ops
    assert op["priority"] == opcodes.OpInstanceQueryData.OP_PARAMS["priority"].default
    assert [entry[0] for entry in op["reason"]][:2] == ["gnt:library:rlib2:instances_name_info", "gnt:rapi:reader"]


@pytest.mark.parametrize("headers", [WRITER, _Bearer("operating")])
def test_who_may_operate_can_set_them(site: Site, headers: dict[str, str]):
    assert site.Ask("GET", INFO, {"priority": -10, "comment": "soon"}, headers).status == 200
    [op] = site.master.ops
    assert (op["priority"], op["comment"]) == (-10, "soon")
    assert "gnt:rapi:reader" not in [entry[0] for entry in op["reason"]]


def test_a_job_that_a_reader_had_made_is_in_the_audit(site: Site, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    site.Ask("GET", INFO)
    site.Ask("GET", "/2/features")
    [line] = [text.removeprefix("audit ") for text in caplog.messages if text.startswith("audit ")]
    shown = json.loads(line)
    assert (shown["who"], shown["path"], shown["job"]) == (None, INFO, 4711)


@pytest.mark.parametrize(("blanks", "read"), [(0, True), (1 << 20, False)])
def test_a_large_answer_is_not_read_again_for_the_audit(caplog: pytest.LogCaptureFixture, blanks: int, read: bool):
    """All clients would wait meanwhile; what the audit shows are numbers of jobs and errors."""
    caplog.set_level(logging.INFO)
    audit.Note("PUT", "/2/query/node", "192.0.2.7:1", None, 200, b"7" + b" " * blanks)
    [line] = caplog.messages
    assert ('"job":7' in line) == read


# --- pages of other sites in a victim's browser -----------------------------------------------------------------------

CROSS = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Origin": "https://evil.example"}
HOST = {"Host": "cluster.example.com:5080"}


@pytest.mark.parametrize(
    "sent",
    [
        CROSS,
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "nonsense"},
        {"Origin": "https://evil.example"},
        {"Origin": "https://cluster.example.com"},
        {"Origin": "https://cluster.example.com:5080.evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
    ],
)
@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("POST", "/2/instances/web1/reinstall?os=mini&nostartup=1"),
        ("POST", REBOOT),
        ("PUT", "/2/tags?tag=x"),
        ("DELETE", "/2/instances/web1"),
        ("GET", INFO),
    ],
)
def test_another_site_has_a_browser_send_a_request(site: Site, verb: str, path: str, sent: dict[str, str]):
    reply = site.Ask(verb, path, headers={**WRITER, **HOST, **sent})
    assert reply.status == 403
    assert "for a page of another site" in reply.value["message"] and "Bearer" in reply.value["message"]
    assert site.master.calls == []


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://cluster.example.com:5080"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://behind-a-proxy.example.com"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "https://Cluster.example.com:5080"},
    ],
)
def test_own_pages_and_programs_go_on_working(site: Site, sent: dict[str, str]):
    assert site.Ask("POST", REBOOT, headers={**WRITER, **HOST, **sent}).status == 200


def test_the_usual_port_is_left_out_by_browsers(site: Site):
    sent = {"Origin": "https://cluster.example.com"}
    for host in ("cluster.example.com", "cluster.example.com:443"):
        assert site.Ask("POST", REBOOT, headers={**WRITER, "Host": host, **sent}).status == 200


def test_a_token_is_not_sent_by_a_browser_itself(site: Site):
    assert site.Ask("POST", REBOOT, headers={**_Bearer("operating"), **HOST, **CROSS}).status == 200


def test_reading_is_open_to_other_sites_as_before(site: Site):
    assert site.Ask("GET", "/2/features", headers={**WRITER, **HOST, **CROSS}).status == 200
