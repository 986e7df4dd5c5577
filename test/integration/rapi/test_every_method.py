"""Every resource and method of the REST interface, called over HTTPS against the real daemons."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from support.rapi import Reply
from support.rapicalls import Methods
from support.rapihttp import Rapi
from support.realcluster import RealCluster

from ganeti import opcodes
from ganeti.rapi.resources.common import TJob

OS, NODE, OTHER = "mini", "node1.example.com", "node2.example.com"
UUID = "7a9d3a1e-9f8b-4f0e-8a57-0b3f1f6f2c11"


class Step(NamedTuple):
    """A request; ``ends``: how its job does, ``success`` or the name of its error."""

    verb: str
    target: str
    body: Any = b""
    ends: str = "success"


CREATION = {
    "__version__": 1,
    "name": "web1.example.com",
    "mode": "create",
    "os": f"{OS}+default",
    "disk_template": "file",
    "disks": [{"size": "64m"}],
    "nics": [{"mode": "routed", "link": "main", "ip": "192.0.2.77"}],
    "ignore_ipolicy": True,
    "pnode": NODE,
    "start": False,
}
WEB, GROUP, NET = "/2/instances/web1.example.com", "/2/groups/rack2", "/2/networks/lan"
TAGS = "tags?tag=a&tag=b%3Ac"

STORY = [
    Step("GET", "/"),
    Step("GET", "/2"),
    Step("GET", "/version"),
    Step("GET", "/2/features"),
    Step("GET", "/2/info"),
    Step("GET", "/2/os"),
    Step("PUT", "/2/redistribute-config"),
    Step("PUT", "/2/modify", {"maintain_node_health": False}),
    Step("PUT", f"/2/{TAGS}"),
    Step("GET", "/2/tags"),
    Step("DELETE", f"/2/{TAGS}"),
    Step("GET", "/2/nodes"),
    Step("GET", "/2/nodes?bulk=1"),
    Step("GET", "/2/nodes/node2"),
    Step("PUT", "/2/nodes/node3/role?force=1", "drained"),
    Step("GET", "/2/nodes/node3/role"),
    Step("POST", "/2/nodes/node3/modify", {"drained": False}),
    Step("POST", "/2/nodes/node3/powercycle", None),
    Step("POST", "/2/nodes/node3/evacuate", {"mode": "all", "iallocator": "hail"}),
    Step("POST", "/2/nodes/node3/migrate", {"mode": "live"}),
    Step("GET", "/2/nodes/node3/storage?storage_type=file&output_fields=name,size"),
    Step("PUT", "/2/nodes/node3/storage/modify?storage_type=lvm-pv&name=x&allocatable=0", ends="OpPrereqError"),
    Step("PUT", "/2/nodes/node3/storage/repair?storage_type=lvm-vg&name=x", ends="OpPrereqError"),
    Step("PUT", f"/2/nodes/{NODE}/{TAGS}"),
    Step("GET", f"/2/nodes/{NODE}/tags"),
    Step("DELETE", f"/2/nodes/{NODE}/{TAGS}"),
    Step("POST", "/2/groups", {"name": "rack2"}),
    Step("GET", "/2/groups"),
    Step("GET", "/2/groups?bulk=1"),
    Step("GET", GROUP),
    Step("PUT", f"{GROUP}/modify", {"alloc_policy": "last_resort"}),
    Step("PUT", f"{GROUP}/assign-nodes", {"nodes": ["node3.example.com"]}),
    Step("PUT", "/2/groups/default/assign-nodes", {"nodes": ["node3.example.com"]}),
    Step("PUT", f"{GROUP}/{TAGS}"),
    Step("GET", f"{GROUP}/tags"),
    Step("DELETE", f"{GROUP}/{TAGS}"),
    Step("PUT", f"{GROUP}/rename", {"new_name": "rack3"}),
    Step("DELETE", "/2/groups/rack3"),
    Step("POST", "/2/networks", {"name": "lan", "network": "192.0.2.0/28", "tags": None}),
    Step("GET", "/2/networks"),
    Step("GET", "/2/networks?bulk=1"),
    Step("PUT", f"{NET}/connect", {"group_name": "default", "network_mode": "bridged", "network_link": "br0"}),
    Step("GET", NET),
    Step("PUT", f"{NET}/{TAGS}"),
    Step("GET", f"{NET}/tags"),
    Step("DELETE", f"{NET}/{TAGS}"),
    Step("PUT", f"{NET}/disconnect", {"group_name": "default"}),
    Step("PUT", f"{NET}/modify", {"gateway": "192.0.2.1"}),
    Step("PUT", f"{NET}/rename", {"new_name": "dmz"}),
    Step("DELETE", "/2/networks/dmz", {}),
    Step("POST", "/2/instances", CREATION),
    Step("POST", "/2/instances-multi-alloc", {"instances": []}),
    Step("GET", "/2/instances"),
    Step("PUT", f"{WEB}/startup"),
    Step("GET", "/2/instances?bulk=1"),
    Step("GET", WEB),
    Step("GET", f"{WEB}/info?static=1"),
    Step("GET", f"{WEB}/console"),
    Step("POST", f"{WEB}/reboot?type=hard"),
    Step("PUT", f"{WEB}/migrate", {}, "OpPrereqError"),
    Step("PUT", f"{WEB}/failover", {}, "OpPrereqError"),
    Step("PUT", f"{WEB}/{TAGS}"),
    Step("GET", f"{WEB}/tags"),
    Step("DELETE", f"{WEB}/{TAGS}"),
    Step("PUT", f"{WEB}/modify", {"beparams": {"vcpus": 2}}),
    Step("POST", f"{WEB}/reinstall", {"os": f"{OS}+default", "start": False}),
    Step("PUT", f"{WEB}/activate-disks"),
    Step("PUT", f"{WEB}/deactivate-disks"),
    Step("POST", f"{WEB}/recreate-disks", None, "OpExecError"),
    Step("POST", f"{WEB}/disk/0/grow", {"amount": 16, "ignore_ipolicy": True}),
    Step("POST", f"{WEB}/replace-disks", {"mode": "replace_auto"}, "OpPrereqError"),
    Step("PUT", f"{WEB}/prepare-export?mode=local"),
    Step("PUT", f"{WEB}/export", {"destination": OTHER}),
    Step("PUT", f"{WEB}/startup"),
    Step("PUT", f"{WEB}/shutdown", {"timeout": 1}),
    Step("PUT", f"{WEB}/rename", {"new_name": "web2.example.com"}),
    Step("DELETE", "/2/instances/web2.example.com"),
    Step("GET", "/2/jobs"),
    Step("GET", "/2/jobs?bulk=1"),
    Step("GET", "/2/jobs/1"),
    Step("GET", "/2/jobs/1/wait", {"fields": ["id", "status"], "previous_job_info": None, "previous_log_serial": None}),
    Step("DELETE", "/2/jobs/1"),
    Step("GET", "/2/query/node?fields=name,%20role"),
    Step("PUT", "/2/query/job", {"fields": ["id", "ops"], "qfilter": ["=", "id", 1]}),
    Step("GET", "/2/query/lock/fields?fields=name"),
    Step("POST", "/2/filters", {"predicates": [["opcode", ["=", "OP_ID", "OP_TEST_DUMMY"]]], "action": "REJECT"}),
    Step("PUT", f"/2/filters/{UUID}", {"action": ["RATE_LIMIT", 3]}),
    Step("GET", "/2/filters"),
    Step("GET", "/2/filters?bulk=1"),
    Step("GET", f"/2/filters/{UUID}"),
    Step("DELETE", f"/2/filters/{UUID}", {}),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    with RealCluster(3) as made:
        made.StartWithRapi(name=OS)
        yield made


@pytest.fixture(scope="module")
def answers(cluster: RealCluster) -> list[tuple[Step, Reply, dict[str, Any] | None]]:
    """Every request of the story in order, its answer, and its job when that has ended."""
    found = []
    with Rapi(cluster[0]) as rapi:
        for step in STORY:
            reply = rapi.Ask(step.verb, step.target, step.body)
            _, _, method = _Declared(step)
            is_job = method.answer is TJob and reply.status == 200
            found.append((step, reply, rapi.Follow(reply.value) if is_job else None))
    return found


def _Declared(step: Step) -> tuple[Any, str, Any]:
    path = step.target.partition("?")[0]
    [found] = [(r, verb, m) for r, verb, m in Methods() if verb == step.verb and r.pattern.fullmatch(path)]
    return found


def test_every_method_is_called() -> None:
    called = {(found[0].path, found[1]) for found in map(_Declared, STORY)}
    assert called == {(r.path, verb) for r, verb, method in Methods() if not method.addition}


@pytest.mark.req("D20-RAPI-07")
@pytest.mark.limit(240)
def test_every_method_answers_as_declared(answers: list[tuple[Step, Reply, Any]]) -> None:
    wrong = []
    for step, reply, job in answers:
        _, _, method = _Declared(step)
        where = f"{step.verb} {step.target}"
        if reply.status != 200:
            wrong.append(f"{where}: {reply.status} {reply.body[:300]!r}")
        elif not method.answer(reply.value):
            wrong.append(f"{where}: {method.answer.Problem(reply.value)}")
        elif job is not None:
            ended = job["status"] if job["status"] == "success" else job["opresult"][-1][0]
            if ended != step.ends:
                wrong.append(f"{where}: job ended with {ended}: {job['opresult']}")
    assert "\n".join(wrong) == ""


@pytest.mark.limit(240)
def test_every_answer_ends_with_one_newline_and_is_json(answers: list[tuple[Step, Reply, Any]]) -> None:
    for step, reply, _ in answers:
        assert re.fullmatch(rb"[^\n]+\n", reply.body), step
        assert reply.body.isascii(), step
        assert reply.headers["content-type"] == "application/json", step


def test_jobs_carry_where_they_come_from(answers: list[tuple[Step, Reply, Any]]) -> None:
    for step, _, job in answers:
        if job is not None:
            sources = [entry[0] for entry in job["ops"][0]["reason"]]
            assert sources[:2] == [f"gnt:library:rlib2:{_Declared(step)[0].word}", "gnt:rapi:user"], step
            assert job["ops"][0]["OP_ID"] in opcodes.OP_MAPPING
