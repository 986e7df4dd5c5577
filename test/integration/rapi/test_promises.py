"""What the remote interface promises, seen from outside: objects are read and changed, jobs are followed by number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.rapihttp import Rapi
from support.realcluster import RealCluster

WEB = "/2/instances/web1.example.com"
NODE = "node1.example.com"


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    with RealCluster(1) as made:
        made.StartWithRapi()
        yield made


@pytest.fixture
def rapi(cluster: RealCluster) -> Iterator[Rapi]:
    with Rapi(cluster[0]) as client:
        yield client


def _Creation(name: str = "web1.example.com", **more: Any) -> dict[str, Any]:
    body = {"__version__": 1, "name": name, "mode": "create", "disk_template": "diskless", "disks": [], "nics": []}
    return {**body, "no_install": True, "os": "mini+default", "pnode": NODE, "ignore_ipolicy": True, **more}


@pytest.fixture
def web1(cluster: RealCluster) -> Iterator[dict[str, Any]]:
    with Rapi(cluster[0]) as client:
        client.Do("POST", "/2/instances", _Creation())
        yield client.Get(WEB)
    with Rapi(cluster[0]) as client:
        client.Do("DELETE", WEB)


@pytest.mark.req("D20-RAPI-01", "D20-RAPI-05")
def test_an_object_is_made_changed_and_removed(rapi: Rapi) -> None:
    answer = rapi.Ask("POST", "/2/instances", _Creation())
    assert isinstance(answer.value, int)
    assert rapi.Follow(answer.value)["summary"] == ["INSTANCE_CREATE(web1.example.com)"]
    assert rapi.Get(WEB)["beparams"]["vcpus"] == 1
    job = rapi.Do("PUT", f"{WEB}/modify", {"beparams": {"vcpus": 2}})
    assert job["opresult"] == [[["be/vcpus", 2]]]
    assert rapi.Get(WEB)["beparams"]["vcpus"] == 2
    rapi.Do("DELETE", WEB)
    assert rapi.Ask("GET", WEB).status == 404


@pytest.mark.req("D20-RAPI-05")
def test_a_job_that_cannot_begin_has_a_number_too(rapi: Rapi) -> None:
    rule = {"predicates": [["opcode", ["=", "OP_ID", "OP_TAGS_SET"]]], "action": "PAUSE"}
    uuid = rapi.Ask("POST", "/2/filters", rule).value
    number = rapi.Ask("PUT", "/2/tags?tag=later").value
    assert rapi.Get(f"/2/jobs/{number}")["status"] == "queued"
    assert rapi.Ask("DELETE", f"/2/filters/{uuid}").status == 200
    assert rapi.Follow(number)["status"] == "success"
    assert "later" in rapi.Get("/2/tags")


def test_the_case_of_letters_does_not_count(rapi: Rapi, web1: dict[str, Any]) -> None:
    for name in ("WEB1", "Web1.Example.Com"):
        assert rapi.Get(f"/2/instances/{name}")["name"] == web1["name"]
        rapi.Do("PUT", f"/2/instances/{name}/tags?tag=web")
    assert rapi.Get("/2/nodes/NODE1")["name"] == NODE
    assert rapi.Ask("GET", "/2/instances/WEB").status == 404


@pytest.mark.req("D20-RAPI-04")
def test_questions_are_answered_at_once_and_not_by_jobs(rapi: Rapi, web1: dict[str, Any]) -> None:
    before = rapi.Get("/2/jobs")
    assert [node["name"] for node in rapi.Get("/2/nodes?bulk=1")] == [NODE]
    assert rapi.Get("/2/instances") == [{"id": "web1.example.com", "uri": WEB}]
    assert rapi.Get("/2/info")["master"] == NODE
    assert rapi.Get("/2/os") == ["mini+default"]
    assert rapi.Get("/2/query/group?fields=name")["data"] == [[[0, "default"]]]
    assert web1["status"] == "ADMIN_down"
    assert rapi.Get("/2/jobs") == before


@pytest.mark.req("D20-RAPI-12")
def test_a_request_needs_none_before_it(cluster: RealCluster, web1: dict[str, Any]) -> None:
    with Rapi(cluster[0]) as one:
        job = one.Ask("PUT", f"{WEB}/tags?tag=kept").value
    cluster[0].Stop("ganeti-rapi")
    cluster[0].StartRapi()
    with Rapi(cluster[0]) as other:
        assert other.Follow(job)["status"] == "success"
        assert other.Get(f"{WEB}/tags") == ["kept"]
        version = other.Ask("GET", "/2/instances").headers["etag"]
        assert other.Ask("GET", "/2/instances", headers={"If-None-Match": version}).status == 304


@pytest.mark.req("D21-UUID-03", "D21-UUID-07")
def test_objects_are_found_by_name_and_by_uuid(rapi: Rapi, web1: dict[str, Any]) -> None:
    found = rapi.Get(f"/2/instances/{web1['uuid']}")
    assert found["name"] == "web1.example.com"
    assert rapi.Get("/2/instances/web1")["uuid"] == web1["uuid"]
    assert rapi.Get(f"/2/nodes/{rapi.Get('/2/nodes/node1')['uuid']}")["name"] == NODE
    assert rapi.Get(f"/2/groups/{rapi.Get('/2/groups/default')['uuid']}")["name"] == "default"
    assert rapi.Get("/2/info")["uuid"]
    rapi.Do("PUT", f"/2/instances/{web1['uuid']}/tags?tag=byuuid")
    assert rapi.Get(f"/2/instances/{web1['uuid']}/tags") == ["byuuid"]


@pytest.mark.req("RM-ISPEC-05")
def test_policy_is_ignored_only_on_request(rapi: Rapi) -> None:
    refused = rapi.Follow(rapi.Ask("POST", "/2/instances", _Creation(ignore_ipolicy=False)).value)
    assert refused["status"] == "error"
    assert "policy" in str(refused["opresult"])
    rapi.Do("POST", "/2/instances", _Creation())
    rapi.Do("DELETE", WEB)


def test_dry_run_of_a_change_changes_nothing(rapi: Rapi, web1: dict[str, Any]) -> None:
    rapi.Do("PUT", f"{WEB}/modify?dry-run=1", {"beparams": {"vcpus": 3}})
    assert rapi.Get(WEB)["beparams"] == web1["beparams"]


def test_plain_list_follows_the_configuration(rapi: Rapi, web1: dict[str, Any]) -> None:
    first = rapi.Ask("GET", "/2/instances")
    rapi.Do("PUT", f"{WEB}/shutdown", {"timeout": 1})
    rapi.Do("PUT", f"{WEB}/rename", {"new_name": "web2.example.com"})
    second = rapi.Ask("GET", "/2/instances", headers={"If-None-Match": first.headers["etag"]})
    assert second.status == 200
    assert second.value == [{"id": "web2.example.com", "uri": "/2/instances/web2.example.com"}]
    rapi.Do("PUT", "/2/instances/web2/rename", {"new_name": "web1.example.com"})


def test_change_of_another_version_is_not_made(rapi: Rapi, web1: dict[str, Any]) -> None:
    tag = rapi.Ask("GET", WEB).headers["etag"]
    rapi.Do("PUT", f"{WEB}/modify", {"beparams": {"vcpus": 2}})
    late = rapi.Ask("PUT", f"{WEB}/modify", {"beparams": {"vcpus": 4}}, headers={"If-Match": tag})
    assert late.status == 412
    current = rapi.Ask("GET", WEB).headers["etag"]
    right = rapi.Ask("PUT", f"{WEB}/modify", {"beparams": {"vcpus": 4}}, headers={"If-Match": current})
    job = rapi.Follow(right.value)
    assert job["status"] == "success"
    assert job["ops"][0]["if_match"] == current.strip('"')


def test_filter_of_another_version_is_not_replaced(rapi: Rapi) -> None:
    added = rapi.Ask("POST", "/2/filters", {"priority": 3, "predicates": [["opcode", ["=", "comment", "x"]]]})
    path = f"/2/filters/{added.value}"
    first = rapi.Ask("GET", path).headers["etag"]
    assert rapi.Ask("PUT", path, {"priority": 4}, headers={"If-Match": first}).status == 200
    assert rapi.Ask("PUT", path, {"priority": 5}, headers={"If-Match": first}).status == 412
    assert rapi.Ask("DELETE", path, headers={"If-Match": first}).status == 412
    assert rapi.Get(path)["priority"] == 4
    second = rapi.Ask("GET", path).headers["etag"]
    assert rapi.Ask("DELETE", path, headers={"If-Match": second}).status == 200
    assert rapi.Ask("PUT", path, {"priority": 5}, headers={"If-Match": "*"}).status == 404
