"""What the known users of RAPI send, with their peculiarities, against the real daemons (doc/reference/rapi.md 10).

Those that use most of the interface have ``test_known_programs``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from support.rapihttp import WRITER, Rapi
from support.realcluster import RealCluster

OS, NODE = "mini+default", "node1.example.com"
# The bundled library sends these with every request, and a body of no bytes.
LIBRARY = {"Accept": "application/json", "Content-type": "application/json", "Content-Length": "0"}
WEB = "/2/instances/web1.example.com"
NIC = {"mode": "routed", "link": "main", "ip": "192.0.2.77"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    with RealCluster(1) as made:
        made.StartWithRapi()
        yield made


@pytest.fixture
def rapi(cluster: RealCluster) -> Iterator[Rapi]:
    with Rapi(cluster[0]) as client:
        yield client


@pytest.fixture(scope="module", autouse=True)
def web1(cluster: RealCluster) -> None:
    """The Terraform provider: sizes as texts, and the answer without its newline is part of the next path."""
    body = {
        "__version__": 1,
        "instance_name": "web1.example.com",
        "mode": "create",
        "os_type": OS,
        "disk_template": "file",
        "disks": [{"size": "64m"}],
        "nics": [NIC],
        "beparams": {"memory": "128m", "vcpus": 1},
        "pnode": NODE,
        "ignore_ipolicy": True,
    }
    with Rapi(cluster[0]) as client:
        answer = client.Ask("POST", "/2/instances", body)
        assert re.fullmatch(rb"[0-9]+\n", answer.body)
        client.Follow(int(answer.body))
        job = client.Get(f"/2/jobs/{answer.body.decode().removesuffix(chr(10))}")
        assert job["status"] == "success", job["opresult"]


def test_watcher_looks_without_credentials(cluster: RealCluster) -> None:
    with Rapi(cluster[0], headers={}) as stranger:
        answer = stranger.Ask("GET", "/version", headers=LIBRARY)
    assert (answer.status, answer.body) == (200, b"2\n")


def test_htools(rapi: Rapi) -> None:
    groups, nodes, instances = (rapi.Get(f"/2/{kind}?bulk=1") for kind in ("groups", "nodes", "instances"))
    info = rapi.Get("/2/info")
    for group in groups:
        assert group.keys() >= {"name", "uuid", "alloc_policy", "ipolicy", "tags"}
    for node in nodes:
        assert all(isinstance(node[key], int) for key in ("mtotal", "mnode", "mfree", "ctotal", "dtotal", "dfree"))
        assert node["group.uuid"] in [group["uuid"] for group in groups]
        assert node["ndparams"].keys() >= {"exclusive_storage", "spindle_count"}
        assert all(isinstance(node[key], bool) for key in ("offline", "drained", "vm_capable"))
    for instance in instances:
        assert instance["beparams"]["memory"] == instance["beparams"]["maxmem"] == 128
        assert instance["beparams"].keys() >= {"vcpus", "auto_balance", "spindle_use"}
        assert (instance["disk.sizes"], instance["disk.spindles"]) == ([64], [None])
        assert instance["status"] == "running"
        assert isinstance(instance["disk_usage"], int)
        assert (instance["pnode"], instance["snodes"]) == (NODE, [])
    assert (info["master"], info["default_hypervisor"]) == (NODE, "fake")


def test_bundled_library(rapi: Rapi) -> None:
    for path in ("/2/instances/nosuch", "/2/nodes/nosuch", "/2/groups/nosuch", "/2/networks/nosuch", "/2/jobs/999999"):
        answer = rapi.Ask("GET", path, headers=LIBRARY)
        assert answer.status == 404, path
        assert answer.value.keys() == {"code", "message", "explain"}
    assert rapi.Do("GET", f"{WEB}/info?static=1")["opresult"][0]["web1.example.com"]["run_state"] is None
    assert rapi.Ask("GET", "/2/jobs/1", headers=LIBRARY).status == 200


def test_ganetimgr(rapi: Rapi) -> None:
    asked = {"fields": ["name", "oper_state", "nosuch"], "qfilter": ["=", "name", "web1.example.com"]}
    answer = rapi.Ask("PUT", "/2/query/instance", asked)
    assert answer.value["data"] == [[[0, "web1.example.com"], [0, True], [1, None]]]
    assert rapi.Ask("PUT", "/2/query/node", {"fields": ["name"], "filter": ["?", "offline"]}).value["data"] == []


def test_gnt_cc_and_its_strict_types(rapi: Rapi) -> None:
    for path in (f"{WEB}/startup", f"{WEB}/shutdown?timeout=1"):
        rapi.Do("PUT", path, b"null")
    rapi.Do("PUT", f"{WEB}/startup", b"null")
    rapi.Do("POST", f"{WEB}/reboot?type=hard", b"null")
    for path in ("/2/nodes?bulk=1", "/2/groups?bulk=1", "/2/jobs?bulk=1", WEB, f"/2/nodes/{NODE}", "/2/info"):
        body = rapi.Ask("GET", path).body
        assert not re.search(rb"[:,\[][0-9]+\.0[,}\]]", body), path
    rows = rapi.Get("/2/query/instance?fields=name,pnode,beparams")["data"]
    assert rows[0][0] == [0, "web1.example.com"]


def test_perl_logs_in_after_it_was_asked_to(cluster: RealCluster) -> None:
    with Rapi(cluster[0], headers={}) as stranger:
        answer = stranger.Ask("PUT", f"{WEB}/startup")
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == 'Basic realm="Ganeti Remote API"'
        assert stranger.Ask("PUT", f"{WEB}/startup", headers=WRITER).status == 200


def test_ruby_says_what_it_does_not_want(rapi: Rapi) -> None:
    assert rapi.Get("/2/instances?bulk=0") == [{"id": "web1.example.com", "uri": WEB}]
    rapi.Do("PUT", f"{WEB}/startup?force=0&dry-run=0")
    job = rapi.Follow(rapi.Ask("POST", f"{WEB}/replace-disks?mode=replace_auto&iallocator=&disks=0").value)
    assert "iallocator" not in job["ops"][0]
    assert job["ops"][0]["disks"] == [0]
