"""Programs that use most of RAPI, each with all the requests it is known for (doc/reference/rapi.md 10).

Programs that carry a copy of the Python library send what ``Library`` does; those that use the bundled one use ours.
"""

from __future__ import annotations

import http.client
import os
import re
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import pytest
from support.rapihttp import WRITER, Basic, Rapi
from support.rapilibrary import Library
from support.realcluster import RealCluster

from ganeti import constants, errors, x509
from ganeti.cli.jobs import Feedback
from ganeti.rapi import client_utils
from ganeti.rapi.client import GanetiApiError, GanetiRapiClient, GenericCurlConfig

OS, NODE, OTHER, NAME = "mini+default", "node1.example.com", "node2.example.com", "cluster.example.com"
NIC = {"mode": "routed", "link": "main", "ip": "192.0.2.77"}
UNKNOWN = "/2/instances/nosuch.example.com"


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    """Two nodes, storage that both reach, and a certificate with the cluster's name."""
    with RealCluster(2) as made:
        made[0].Write("/var/lib/ganeti/rapi.pem", "".join(x509.MakeSelfSigned(NAME)), 0o640)
        made.StartWithRapi()
        shared = os.path.join(made.files, "shared")
        os.makedirs(shared)
        templates = ["diskless", "file", "sharedfile"]
        settings = {"enabled_disk_templates": templates, "shared_file_storage_dir": shared}
        with Rapi(made[0]) as rapi:
            rapi.Do("PUT", "/2/modify", {**settings, "ipolicy": {"disk-templates": templates}})
        yield made


@pytest.fixture
def rapi(cluster: RealCluster) -> Iterator[Rapi]:
    with Rapi(cluster[0]) as client:
        yield client


@pytest.fixture(autouse=True)
def _nothing_is_left(cluster: RealCluster) -> Iterator[None]:
    """A story that fails leaves its instances to none of the others."""
    yield
    with Rapi(cluster[0]) as client:
        for item in client.Get("/2/instances"):
            client.Do("DELETE", item["uri"])


@pytest.fixture
def library(cluster: RealCluster) -> Iterator[Library]:
    with Library(cluster[0]) as client:
        yield client


def _Body(name: str, template: str = "sharedfile", **more: Any) -> dict[str, Any]:
    """What each program says of a new instance, in its own words where they matter."""
    disks = [] if template == "diskless" else [{"size": 1024}]
    body = {"name": name, "mode": "create", "disk_template": template, "disks": disks, "nics": [NIC], "os": OS}
    return {**body, "pnode": NODE, "hypervisor": "fake", "ignore_ipolicy": True, **more}


def _Error(job: dict[str, Any]) -> tuple[str, str]:
    assert job["status"] == "error", job
    kind, details = job["opresult"][-1]
    return kind, str(details)


# --- programs with a copy of the library ------------------------------------------------------------------------------


def test_synnefo(library: Library) -> None:
    vm = "/2/instances/snf-1.example.com"
    assert library.Get("/2/info")["name"] == NAME
    first = library.Do("PUT", "/2/modify", {})  # a test whether it may write
    tagged = library.Do("PUT", "/2/tags?tag=synnefo&dry-run=1")
    assert "synnefo" not in library.Get("/2/tags")
    wait = f"/2/jobs/{tagged['id']}/wait"
    seen = library.Ask(
        "GET", wait, {"fields": ["status"], "previous_job_info": None, "previous_log_serial": None}
    ).value
    again = {"fields": ["status"], "previous_job_info": [seen], "previous_log_serial": None}
    assert library.Ask("GET", wait, again).value["job_info"] == ["success"]

    network = {"network_name": "snf-net-1", "network": "198.51.100.0/28", "gateway": None, "network6": None}
    network |= {"gateway6": None, "mac_prefix": None, "add_reserved_ips": None, "conflicts_check": False, "tags": None}
    made = library.Do("POST", "/2/networks", network)
    [group] = [item["name"] for item in library.Get("/2/groups")]
    connection = {"group_name": group, "network_mode": "bridged", "network_link": "br0", "conflicts_check": False}
    connection |= {"network_vlan": "", "depends": [[made["id"], ["success"]]]}
    library.Do("PUT", "/2/networks/snf-net-1/connect", connection)
    assert [item["name"] for item in library.Get("/2/networks")] == ["snf-net-1"]
    assert library.Get("/2/networks/snf-net-1")["group_list"][0][:3] == [group, "bridged", "br0"]

    body = _Body("snf-1.example.com", tags=["synnefo"], osparams={}, wait_for_sync=False)
    body |= {"ip_check": False, "name_check": False, "depends": [[made["id"], ["success"]]]}
    created = library.Create({**body, "beparams": {"minmem": 128, "maxmem": 128, "vcpus": 1, "auto_balance": False}})
    change = {"nics": [["add", "-1", {**NIC, "ip": "192.0.2.78"}]], "depends": [[created["id"], ["success"]]]}
    library.Do("PUT", f"{vm}/modify", {**change, "ignore_ipolicy": True})
    shown = library.Get(vm)
    assert shown["nic.ips"] == ["192.0.2.77", "192.0.2.78"]
    library.Do("PUT", f"{vm}/modify", {"nics": [["remove", shown["nic.uuids"][1], {}]]})
    library.Do("PUT", f"{vm}/modify", {"nics": [["modify", shown["nic.uuids"][0], {"name": "eth0"}]]})
    library.Do("PUT", f"{vm}/modify", {"disks": [["add", "-1", {"size": 1024}]], "ignore_ipolicy": True})
    sizes = {"beparams": {"minmem": 160, "maxmem": 160}, "hvparams": {}, "os_name": OS, "ignore_ipolicy": True}
    library.Do("PUT", f"{vm}/modify", sizes)
    assert library.Get(vm)["nic.names"] == ["eth0"]
    assert (library.Get(vm)["disk.sizes"], library.Get(vm)["beparams"]["maxmem"]) == ([1024, 1024], 160)
    refused = library.Ask("PUT", f"{vm}/modify", {"hotplug_if_possible": True})
    assert (refused.status, b"hotplug_if_possible" in refused.body) == (400, True)

    library.Do("PUT", f"{vm}/tags?tag=snf%3Aadmin&tag=x&dry-run=0")
    library.Do("DELETE", f"{vm}/tags?tag=x")
    assert library.Get(f"{vm}/tags") == ["snf:admin", "synnefo"]
    library.Do("POST", f"{vm}/reboot?type=hard&ignore_secondaries=0&dry-run=0", {"shutdown_timeout": 1})
    library.Do("PUT", f"{vm}/shutdown?dry-run=0", {"timeout": 1})
    started = library.Do("PUT", f"{vm}/startup?dry-run=0", {"depends": [[first["id"], ["success"]]]})
    assert started["ops"][0]["depends"] == [[first["id"], ["success"]]]
    library.Do("PUT", f"{vm}/shutdown", {"timeout": 1})
    library.Do("PUT", f"{vm}/rename", {"new_name": "snf-2.example.com", "ip_check": False, "name_check": False})
    assert {job["id"] for job in library.Get("/2/jobs?bulk=1")} >= {first["id"], created["id"]}
    assert [i["name"] for i in library.Get("/2/instances?bulk=1")] == ["snf-2.example.com"]
    assert all(node["group.uuid"] for node in library.Get("/2/nodes?bulk=1"))
    library.Do("DELETE", "/2/instances/snf-2.example.com?dry-run=0", {"shutdown_timeout": 1})
    library.Do("PUT", "/2/networks/snf-net-1/disconnect", {"group_name": group})
    library.Do("DELETE", "/2/networks/snf-net-1", {"depends": [[made["id"], ["success"]]]})


def test_ganeti_web_manager(library: Library) -> None:
    vm = "/2/instances/gwm.example.com"
    assert library.Get("/2/info")["default_hypervisor"] == "fake"
    assert OS in library.Get("/2/os")
    body = _Body("gwm.example.com", beparams={"memory": 128, "vcpus": 1}, ip_check=False, name_check=False)
    library.Create({**body, "start": True}, "?dry-run=0")
    [listed] = library.Get("/2/instances?bulk=1")
    shown = library.Get(vm)
    assert shown["beparams"]["memory"] == listed["beparams"]["memory"] == 128
    assert isinstance(shown["mtime"], (int, float)) and shown.keys() >= {"network_port"}
    console = library.Get(f"{vm}/console")
    assert (console["kind"], console["instance"]) == ("msg", "gwm.example.com")  # of the driver that has no guests
    library.Do("PUT", f"{vm}/tags?tag=GANETI_WEB_MANAGER%3AOWNER%3A1")
    library.Do("DELETE", f"{vm}/tags?tag=GANETI_WEB_MANAGER%3AOWNER%3A1")
    assert library.Get(f"{vm}/tags") == []
    library.Do("PUT", f"{vm}/modify", {"beparams": {"memory": 144}, "hvparams": {}, "ignore_ipolicy": True})
    library.Do("PUT", f"{vm}/migrate", {"mode": "live", "cleanup": False})
    assert library.Get(vm)["pnode"] == OTHER
    library.Do("POST", f"{vm}/reboot?type=hard&dry-run=0", {})
    library.Do("PUT", f"{vm}/shutdown?dry-run=0", {"timeout": 1})
    library.Do("POST", f"{vm}/reinstall", {"os": OS, "start": False})
    library.Do("PUT", f"{vm}/startup?dry-run=0")
    replaced = library.Follow(library.Ask("POST", f"{vm}/replace-disks?mode=replace_auto&disks=0").value)
    assert _Error(replaced)[0] == "OpPrereqError"  # these disks have no mirror
    library.Do("PUT", f"{vm}/shutdown?dry-run=0", {"timeout": 1})
    library.Do("PUT", f"{vm}/rename", {"new_name": "gwm2.example.com", "ip_check": False, "name_check": False})
    library.Do("DELETE", "/2/instances/gwm2.example.com?dry-run=0", {})

    node = library.Get(f"/2/nodes/{NODE}")
    assert (node["role"], node["secondary_ip"]) == ("M", node["sip"])
    assert isinstance(node["mtime"], (int, float))
    assert [item["id"] for item in library.Get("/2/nodes")] == [NODE, OTHER]
    library.Do("PUT", "/2/redistribute-config")
    assert b"mode" in library.Ask("POST", f"/2/nodes/{NODE}/evacuate?dry-run=0", {"remote_node": OTHER}).body
    library.Do("POST", f"/2/nodes/{OTHER}/migrate?dry-run=0", {"mode": "live"})
    for role in ("drained", "master-candidate"):
        library.Do("PUT", f"/2/nodes/{OTHER}/role?force=1&auto-promote=0", role)
        assert library.Get(f"/2/nodes/{OTHER}/role") == role
    assert b"role" in library.Ask("PUT", f"/2/nodes/{NODE}/role?force=0", "master").body


def test_ansible_modules_of_sipgate(library: Library) -> None:
    vm = "/2/instances/ansible.example.com"
    assert library.Ask("GET", vm).status == 404
    [group] = [library.Get(f"/2/groups/{item['name']}") for item in library.Get("/2/groups")]
    assert group["node_list"] == [NODE, OTHER]
    nobody = dict.fromkeys(("pnode", "snode", "iallocator", "group_name"))
    sizes = {"memory": 128, "minmem": 128, "maxmem": 128, "vcpus": 1}
    body = {**_Body("ansible.example.com", beparams=sizes, conflicts_check=False), **nobody, "__version__": 1}
    chosen = library.Do("POST", "/2/instances", body)["opresult"][0]  # by the cluster's allocator
    shown = library.Get(vm)
    assert [shown["pnode"]] == chosen
    assert (shown["disk.sizes"], shown["nic.ips"], shown["beparams"]["maxmem"]) == ([1024], ["192.0.2.77"], 128)
    assert all(len(shown[name]) == 1 for name in shown if name.startswith(("disk.", "nic.")))
    nics = [["modify", 0, {"ip": "192.0.2.79"}], ["add", -1, {**NIC, "ip": "192.0.2.80"}]]
    library.Do("PUT", f"{vm}/modify", {"nics": nics, "beparams": {"vcpus": 2}, "ignore_ipolicy": True})
    assert library.Get(vm)["nic.ips"] == ["192.0.2.79", "192.0.2.80"]
    library.Do("POST", f"{vm}/disk/0/grow", {"amount": 16, "wait_for_sync": True})
    assert library.Get(vm)["disk.sizes"] == [1040]
    library.Do("PUT", f"{vm}/tags?tag=ansible")
    library.Do("DELETE", f"{vm}/tags?tag=ansible")
    library.Do("POST", f"{vm}/reboot?type=hard&ignore_secondaries=0", {})
    library.Do("PUT", f"{vm}/migrate", {"mode": "live", "cleanup": False})
    assert library.Get(vm)["pnode"] not in chosen
    library.Do("PUT", f"{vm}/shutdown", {})
    library.Do("PUT", f"{vm}/startup")
    library.Do("PUT", f"{vm}/shutdown?no_remember=1", {})
    library.Do("PUT", f"{vm}/shutdown", {})
    library.Do("PUT", f"{vm}/rename", {"new_name": "ansible2.example.com"})
    library.Do("DELETE", "/2/instances/ansible2.example.com", {})
    assert library.Ask("GET", "/2/instances/ansible2.example.com").status == 404


# --- programs with HTTP code of their own -----------------------------------------------------------------------------


def test_control_center(rapi: Rapi) -> None:
    vm = "/2/instances/gcc.example.com"
    rapi.Do("POST", "/2/instances", {"__version__": 1, **_Body("gcc.example.com")})
    entry = {**_Body("gcc2.example.com", "diskless", nics=[]), "no_install": True}
    del entry["pnode"]
    allocated = rapi.Do("POST", "/2/instances-multi-alloc", {"instances": [entry], "iallocator": "hail"})["opresult"][0]
    for accepted, job in allocated["jobs"]:
        assert accepted and rapi.Follow(job)["status"] == "success"
    assert (allocated["allocatable"], allocated["failed"]) == (["gcc2.example.com"], [])

    assert rapi.Get("/2/info")["master"] == NODE
    for kind, names in (("nodes", [NODE, OTHER]), ("instances", ["gcc.example.com", "gcc2.example.com"])):
        assert [item["id"] for item in rapi.Get(f"/2/{kind}")] == names
        assert sorted(item["name"] for item in rapi.Get(f"/2/{kind}?bulk=1")) == names
        assert [rapi.Get(f"/2/{kind}/{name}")["name"] for name in names] == names
    assert [item["name"] for item in rapi.Get("/2/groups")] == [item["name"] for item in rapi.Get("/2/groups?bulk=1")]
    assert {job["id"] for job in rapi.Get("/2/jobs")} == {job["id"] for job in rapi.Get("/2/jobs?bulk=1")}
    assert rapi.Get(f"{vm}/console")["instance"] == "gcc.example.com"

    rapi.Do("POST", f"{vm}/disk/0/grow", {"amount": 16})
    rapi.Do("PUT", f"{vm}/migrate", {"mode": "live"})
    rapi.Do("PUT", f"{vm}/failover", {"ignore_consistency": True})
    assert rapi.Get(vm)["pnode"] == NODE
    rapi.Do("PUT", f"{vm}/shutdown")
    rapi.Do("PUT", f"{vm}/modify", {"beparams": {"vcpus": 2}, "ignore_ipolicy": True})
    rapi.Do("PUT", f"{vm}/startup")
    rapi.Do("PUT", f"{vm}/tags?tag=one&tag=two")
    assert rapi.Get(vm)["tags"] == ["one", "two"]
    rapi.Do("PUT", "/2/modify", {"maintain_node_health": False})
    for name in ("gcc", "gcc2"):
        rapi.Do("DELETE", f"/2/instances/{name}.example.com")


def test_client_and_collection_of_codefritzel(cluster: RealCluster) -> None:
    """``requests`` with an object as body of every PUT and POST, and the content type on every call."""
    vm = "/2/instances/cf.example.com"
    with Rapi(cluster[0], {**WRITER, "Content-Type": "application/json", "Accept": "*/*"}) as rapi:
        body = {"__version__": 1, **_Body("cf.example.com")}
        number = rapi.Ask("POST", "/2/instances", body).value
        assert isinstance(number, int)
        assert rapi.Follow(number)["status"] == "success"
        assert rapi.Get(f"/2/jobs/{number}")["id"] == number
        assert number in [job["id"] for job in rapi.Get("/2/jobs")]
        assert rapi.Get("/2/instances") == [{"id": "cf.example.com", "uri": vm}]
        assert rapi.Get(vm)["name"] == "cf.example.com"
        assert rapi.Get(f"/2/nodes/{NODE}")["name"] == NODE
        assert rapi.Get("/2/networks") == []
        assert rapi.Ask("GET", "/2/networks/nosuch").status == 404
        for static, state in (("0", "up"), ("1", None)):
            shown = rapi.Do("GET", f"{vm}/info?static={static}")["opresult"][0]["cf.example.com"]
            assert shown["run_state"] == state
        rapi.Do("PUT", f"{vm}/modify", {"beparams": {"vcpus": 2}, "ignore_ipolicy": True})
        rapi.Do("PUT", f"{vm}/migrate", {})
        rapi.Do("PUT", f"{vm}/failover", {"ignore_consistency": True})
        rapi.Do("POST", f"{vm}/reboot", {})
        rapi.Do("POST", f"{vm}/disk/0/grow", {"amount": 16})
        rapi.Do("PUT", f"{vm}/shutdown", {})
        rapi.Do("PUT", f"{vm}/startup", {})
        ended = rapi.Ask("DELETE", f"/2/jobs/{number}")
        assert (ended.status, ended.value[0]) == (200, False)
        rapi.Do("DELETE", vm)
        mapped = {400: ("POST", "/2/instances", {}), 404: ("GET", vm, b"")}
        for status, (verb, path, sent) in mapped.items():
            answer = rapi.Ask(verb, path, sent)
            assert (answer.status, answer.value["code"]) == (status, status)
        assert rapi.Ask("GET", vm, headers=Basic("writer", "wrong")).status == 401
        assert rapi.Ask("PUT", f"{vm}/startup", {}, headers=Basic("reader", "secret-of-reader")).status == 403
        charset = {"Content-Type": "application/json; charset=utf-8"}
        assert rapi.Ask("PUT", f"{vm}/startup", {}, headers=charset).status == 415


def test_exporter_of_prometheus(rapi: Rapi) -> None:
    rapi.Do("POST", "/2/instances", {"__version__": 1, **_Body("prom.example.com")})
    assert rapi.Get("/2/info")["name"] == NAME
    assert len(rapi.Get("/2/groups")) == 1
    nodes = {node["name"]: node for node in rapi.Get("/2/nodes?bulk=1")}
    for node in nodes.values():
        numbers = ("ctotal", "dtotal", "dfree", "mtotal", "mfree", "pinst_cnt", "sinst_cnt")
        assert all(isinstance(node[name], int) for name in numbers)
        assert node["offline"] is False
    assert (nodes[NODE]["pinst_cnt"], nodes[OTHER]["pinst_cnt"]) == (1, 0)
    [instance] = rapi.Get("/2/instances?bulk=1")
    assert (instance["oper_state"], instance["oper_ram"], instance["oper_vcpus"]) == (True, 128, 1)
    assert (instance["pnode"], instance["snodes"]) == (NODE, [])
    jobs = rapi.Get("/2/jobs?bulk=1")
    assert jobs
    for job in jobs:
        assert (isinstance(job["id"], int) and job["status"] == "success") or job["end_ts"] is not None
        assert re.fullmatch(r"OP_[A-Z_]+", job["ops"][0]["OP_ID"])
        for name in ("received_ts", "start_ts", "end_ts"):
            assert job[name] is None or [type(part) for part in job[name]] == [int, int]
    rapi.Do("DELETE", "/2/instances/prom.example.com")


def test_spicerack(cluster: RealCluster, rapi: Rapi) -> None:
    """It checks the certificate, against an authority of its own, for the name that it connects to."""
    rapi.Do("POST", "/2/instances", {"__version__": 1, **_Body("spice.example.com")})
    authority = ssl.create_default_context(cafile=cluster[0].Path("/var/lib/ganeti/rapi.pem"))
    port = constants.DEFAULT_RAPI_PORT
    where = (cluster[0].address, port)
    with authority.wrap_socket(socket.create_connection(where, 20), server_hostname=NAME) as secured:
        connection = http.client.HTTPSConnection(NAME, port, context=authority)
        connection.sock = secured
        found: dict[str, Any] = {}
        for path in ("/2/info", "/2/instances/spice.example.com", "/2/nodes", "/2/nodes?bulk=1", "/2/groups?bulk=1"):
            connection.request("GET", path, headers=WRITER)
            answer = connection.getresponse()
            assert answer.status == 200
            found[path] = answer.read()
    [mac] = rapi.Get("/2/instances/spice.example.com")["nic.macs"]
    assert re.fullmatch(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", mac)
    assert mac.encode() in found["/2/instances/spice.example.com"]
    assert rapi.Get("/2/info")["master"] == NODE
    assert [group["name"] for group in rapi.Get("/2/groups")] == ["default"]
    with socket.create_connection(where, 20) as sock, pytest.raises(ssl.SSLCertVerificationError):
        authority.wrap_socket(sock, server_hostname="elsewhere.example.com")
    rapi.Do("DELETE", "/2/instances/spice.example.com")


# --- programs that use the bundled library ----------------------------------------------------------------------------


@pytest.fixture
def bundled(cluster: RealCluster) -> GanetiRapiClient:
    config = GenericCurlConfig(connect_timeout=20, timeout=60)
    return GanetiRapiClient(cluster[0].address, username="writer", password="secret-of-writer", curl_config_fn=config)


class _Quiet(Feedback):
    def Log(self, timestamp: Any, kind: str, message: Any) -> None:
        pass

    def Waiting(self, job_id: int, status: str) -> None:
        pass


def _NewInstance(bundled: GanetiRapiClient, name: str, **more: Any) -> int:
    values = {"os": OS, "pnode": NODE, "hypervisor": "fake", "ignore_ipolicy": True, **more}
    return bundled.CreateInstance("create", name, "sharedfile", [{"size": 64}], [NIC], **values)


def test_cluster_testing(bundled: GanetiRapiClient) -> None:
    name = "testvm.example.com"
    job = _NewInstance(bundled, name, tags=["testing"], wait_for_sync=False)
    assert bundled.WaitForJobCompletion(job, period=0.2, retries=100)
    assert bundled.GetJobStatus(job)["status"] == "success"
    assert bundled.GetInstance(name)["status"] == "running"
    rows = bundled.Query("instance", ["name", "tags"])["data"]
    assert rows == [[[0, name], [0, ["testing"]]]]
    assert bundled.WaitForJobCompletion(bundled.ShutdownInstance(name), period=0.2)
    assert bundled.GetInstance(name)["oper_state"] is False
    assert bundled.WaitForJobCompletion(bundled.DeleteInstance(name), period=0.2)
    with pytest.raises(GanetiApiError) as caught:
        bundled.GetInstance(name)
    assert caught.value.code == 404
    failing = bundled.ShutdownInstance(name)
    assert not bundled.WaitForJobCompletion(failing, period=0.2)
    assert bundled.GetJobStatus(failing)["opresult"][0][1][1] == errors.ECODE_NOENT


def _Poll(bundled: GanetiRapiClient, job: int) -> Any:
    return client_utils.PollJob(bundled, job, _Quiet())[-1]


def test_move_instance(bundled: GanetiRapiClient) -> None:
    """What a move between clusters asks of one of them; addresses and handshakes that nobody has signed are refused."""
    name = "moving.example.com"
    assert bundled.GetVersion() == 2
    assert bundled.GetInfo()["default_iallocator"] == "hail"
    with pytest.raises(GanetiApiError) as caught:
        bundled.GetInstance(name)
    assert caught.value.code == 404
    _Poll(bundled, _NewInstance(bundled, name))
    details = _Poll(bundled, bundled.GetInstanceInfo(name, static=True))[name]
    assert (details["config_state"], details["run_state"]) == ("up", None)
    assert [disk["size"] for disk in details["disks"]] == [64]
    assert bundled.GetInstance(name)["tags"] == []

    prepared = _Poll(bundled, bundled.PrepareExport(name, "remote"))
    assert sorted(prepared) == ["handshake", "x509_ca", "x509_key_name"]
    handshake = {
        "source_handshake": [0, "0" * 40, "0" * 16],
        "source_x509_ca": prepared["x509_ca"],
        "source_instance_name": name,
    }
    imported = bundled.CreateInstance(
        "remote-import", "moved.example.com", "sharedfile", [{"size": 64, "mode": "rw"}], [NIC],
        os=OS, pnode=NODE, hypervisor="fake", start=True, wait_for_sync=False, source_shutdown_timeout=120,
        compress="none", **handshake,
    )  # fmt: skip
    with pytest.raises(errors.OpPrereqError, match="the clusters have different domain secrets"):
        _Poll(bundled, imported)
    exported = bundled.ExportInstance(
        name, "remote", [["127.0.0.1", 1, "magic", "hmac", "salt"]], shutdown=True, remove_instance=True,
        x509_key_name=prepared["x509_key_name"], destination_x509_ca=prepared["x509_ca"], compress="none",
    )  # fmt: skip
    with pytest.raises(errors.OpPrereqError, match="The address for disk 0 does not match its HMAC"):
        _Poll(bundled, exported)
    assert bundled.CancelJob(exported)[0] is False
    assert bundled.GetInstance(name)["status"] == "running", "nothing was done to the instance"
    with pytest.raises(GanetiApiError, match="404"):
        bundled.GetInstance("moved.example.com")
    _Poll(bundled, bundled.DeleteInstance(name, shutdown_timeout=1))
