"""Every method of the client library against a real cluster: daemons, jobs and files are real, only guests are not."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.realcluster import RealCluster
from support.virtualnode import TOP

from ganeti import errors
from ganeti.cli.jobs import Feedback
from ganeti.rapi import client_utils
from ganeti.rapi.client import (
    EVENT_MISSED,
    NODE_ROLE_OFFLINE,
    Event,
    GanetiApiError,
    GanetiRapiClient,
    GenericCurlConfig,
)

COVERED: dict[str, str] = {}
"""Method -> the story that must call it."""


class Noting:
    """A client that notes the methods that are called; jobs are waited for by ``Done`` and ``Fails``."""

    def __init__(self, client: GanetiRapiClient):
        self.client = client
        self.called: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.called.add(name)
        return getattr(self.client, name)

    def Done(self, job: int) -> Any:
        """Wait for a job; returns the result of its last opcode."""
        assert isinstance(job, int)
        self.called.add("WaitForJobChange")
        return client_utils.PollJob(self.client, job, _Quiet())[-1]

    def Fails(self, job: int, text: str, kind: type[Exception] = errors.OpPrereqError) -> None:
        with pytest.raises(kind, match=text):
            self.Done(job)


class _Quiet(Feedback):
    def Log(self, timestamp: Any, kind: str, message: Any) -> None:
        pass

    def Waiting(self, job_id: int, status: str) -> None:
        pass


def covers(*methods: str) -> Callable[[Any], Any]:
    """Declare the methods that a story calls, and check that it did."""

    def note(story: Any) -> Any:
        COVERED.update(dict.fromkeys(methods, story.__name__))

        @functools.wraps(story)
        def checked(client: Noting, **fixtures: Any) -> None:
            story(client, **fixtures)
            assert set(methods) <= client.called

        return checked

    return note


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    with RealCluster(3) as made:
        made.StartWithRapi("--require-authentication")
        yield made


def Connect(cluster: RealCluster, user: str = "writer") -> GanetiRapiClient:
    master = cluster[0]
    config = GenericCurlConfig(cafile=master.Path("/var/lib/ganeti/rapi.pem"), connect_timeout=20, timeout=60)
    return GanetiRapiClient(master.address, username=user, password=f"secret-of-{user}", curl_config_fn=config)


@pytest.fixture
def client(cluster: RealCluster) -> Noting:
    return Noting(Connect(cluster))


def Create(client: Noting, cluster: RealCluster, name: str, template: str = "diskless", **more: Any) -> str:
    disks = [] if template == "diskless" else [{"size": 1024}]
    values = {
        "os": "mini+default",
        "pnode": cluster[0].name,
        "hypervisor": "fake",
        "start": False,
        "ignore_ipolicy": True,
        **more,
    }
    client.Done(client.CreateInstance("create", name, template, disks, [], **values))
    return name


def test_every_method_has_its_story() -> None:
    with open(os.path.join(TOP, "test", "data", "rapi", "client-methods.md"), encoding="utf-8") as stream:
        methods = set(re.findall(r"^\| `(\w+)", stream.read(), re.MULTILINE))
    assert methods == COVERED.keys()


@covers("GetVersion", "GetFeatures", "GetInfo", "GetOperatingSystems", "RedistributeConfig", "ModifyCluster")
@covers("GetClusterTags", "AddClusterTags", "DeleteClusterTags")
def test_the_cluster(client: Noting, cluster: RealCluster) -> None:
    assert client.GetVersion() == 2
    assert {"instance-create-reqv1", "node-evac-res1"} <= set(client.GetFeatures())
    info = client.GetInfo(reason="test")
    assert info["name"] == "cluster.example.com" and info["master"] == cluster[0].name
    assert client.GetOperatingSystems() == ["mini+default"]
    client.Done(client.RedistributeConfig())
    client.Done(client.ModifyCluster(candidate_pool_size=9, reason="test"))
    assert client.GetInfo()["candidate_pool_size"] == 9
    before = client.GetClusterTags()
    client.Done(client.AddClusterTags(["one", "two:2"], dry_run=True))
    assert client.GetClusterTags() == before
    client.Done(client.AddClusterTags(["one", "two:2"]))
    client.Done(client.DeleteClusterTags(["one"]))
    assert client.GetClusterTags() == sorted([*before, "two:2"])


@covers("GetInstances", "GetInstance", "GetInstanceInfo", "CreateInstance", "DeleteInstance", "ModifyInstance")
@covers("StartupInstance", "RebootInstance", "ShutdownInstance", "GetInstanceConsole", "RenameInstance")
@covers("GetInstanceTags", "AddInstanceTags", "DeleteInstanceTags")
def test_the_life_of_an_instance(client: Noting, cluster: RealCluster) -> None:
    name = Create(client, cluster, "life.example.com", beparams={"maxmem": 64, "minmem": 64})
    assert name in client.GetInstances()
    assert [i["admin_state"] for i in client.GetInstances(bulk=True) if i["name"] == name] == ["down"]
    with pytest.raises(GanetiApiError) as caught:
        client.GetInstanceConsole(name)
    assert caught.value.code == 503
    client.Done(client.StartupInstance(name))
    shown = client.GetInstance(name)
    assert (shown["status"], shown["beparams"]["memory"]) == ("running", 64)
    assert client.GetInstanceConsole(name)["instance"] == name
    client.Done(client.RebootInstance(name, reboot_type="hard", ignore_secondaries=False, shutdown_timeout=1))
    assert client.Done(client.ModifyInstance(name, beparams={"vcpus": 2}, hotplug=False)) == [["be/vcpus", 2]]
    details = client.Done(client.GetInstanceInfo(name, static=True))
    assert details[name]["be_instance"]["vcpus"] == 2
    client.Done(client.AddInstanceTags(name, ["a", "b"]))
    client.Done(client.DeleteInstanceTags(name, ["a"]))
    assert client.GetInstanceTags(name) == ["b"]
    client.Done(client.ShutdownInstance(name, timeout=1, no_remember=True))
    client.Done(client.ShutdownInstance(name, timeout=1))
    assert client.GetInstance(name)["status"] == "ADMIN_down"
    client.Done(client.RenameInstance(name, "renamed.example.com", ip_check=False, name_check=False))
    client.Done(client.DeleteInstance("renamed.example.com", dry_run=True))
    client.Done(client.DeleteInstance("renamed.example.com", shutdown_timeout=1))
    with pytest.raises(GanetiApiError) as caught:
        client.GetInstance(name)
    assert caught.value.code == 404


@covers("ActivateInstanceDisks", "DeactivateInstanceDisks", "RecreateInstanceDisks", "GrowInstanceDisk")
@covers("ReinstallInstance", "ReplaceInstanceDisks", "PrepareExport", "ExportInstance")
def test_disks(client: Noting, cluster: RealCluster) -> None:
    name = Create(client, cluster, "disks.example.com", "file")
    client.Done(client.ActivateInstanceDisks(name, ignore_size=True))
    client.Done(client.DeactivateInstanceDisks(name, force=True))
    client.Done(client.GrowInstanceDisk(name, 0, 16, wait_for_sync=False))
    assert client.GetInstance(name)["disk.sizes"] == [1040]
    for path, _, files in os.walk(cluster.files):
        for file in files:
            os.unlink(os.path.join(path, file))
    client.Done(client.RecreateInstanceDisks(name, disks=[0]))
    client.Done(client.ReinstallInstance(name, os="mini+default", no_startup=True))
    client.Fails(client.ReplaceInstanceDisks(name, disks=[0], mode="replace_on_primary"), "no second copy")
    client.Done(client.PrepareExport(name, "local"))
    client.Done(client.ExportInstance(name, "local", cluster[1].name, shutdown=False))
    client.Done(client.DeleteInstance(name))


def test_a_wrong_reinstallation_is_rejected_while_the_guest_runs(client: Noting, cluster: RealCluster) -> None:
    """What it would install is checked before it stops anything."""
    name = Create(client, cluster, "kept.example.com", "file")
    client.Done(client.StartupInstance(name))
    client.Fails(client.ReinstallInstance(name, os="mini+nonsense"), "mini")
    client.Fails(client.ReinstallInstance(name, osparams={"nonsense": "1"}), "nonsense")
    assert client.GetInstance(name)["status"] == "running"
    client.Done(client.ReinstallInstance(name))
    assert client.GetInstance(name)["status"] == "running"
    client.Done(client.DeleteInstance(name, shutdown_timeout=1))


@covers(
    "MigrateInstance", "FailoverInstance", "MigrateNode", "EvacuateNode", "InstancesMultiAlloc", "InstanceAllocation"
)
def test_moving(client: Noting, cluster: RealCluster) -> None:
    shared = os.path.join(cluster.files, "shared")
    os.makedirs(shared, exist_ok=True)
    templates = ["diskless", "file", "sharedfile"]
    client.Done(
        client.ModifyCluster(
            enabled_disk_templates=templates, shared_file_storage_dir=shared, ipolicy={"disk-templates": templates}
        )
    )
    name = Create(client, cluster, "moving.example.com", "sharedfile", start=True)
    client.Done(client.MigrateInstance(name, mode="live", target_node=cluster[1].name))
    assert client.GetInstance(name)["pnode"] == cluster[1].name
    client.Done(client.FailoverInstance(name, ignore_consistency=True, target_node=cluster[0].name))
    assert client.GetInstance(name)["pnode"] == cluster[0].name
    result = client.Done(client.MigrateNode(cluster[0].name, mode="live", target_node=cluster[2].name))
    _Finish(client, result)
    assert client.GetInstance(name)["pnode"] == cluster[2].name
    result = client.Done(client.EvacuateNode(cluster[2].name, mode="primary-only", iallocator="hail"))
    assert len(result["jobs"]) == 1
    _Finish(client, result)
    assert client.GetNode(cluster[2].name)["pinst_cnt"] == 0
    entry = client.InstanceAllocation(
        "create", "many.example.com", "diskless", [], [], os="mini+default", pnode=cluster[0].name, ignore_ipolicy=True
    )
    result = client.Done(client.InstancesMultiAlloc([entry]))
    assert (result["allocatable"], result["failed"]) == (["many.example.com"], [])
    _Finish(client, result)
    client.Done(client.DeleteInstance("many.example.com", shutdown_timeout=1))
    client.Done(client.DeleteInstance(name, shutdown_timeout=1))


def _Finish(client: Noting, result: Any) -> None:
    """The jobs that a job submitted end well."""
    for accepted, job in result["jobs"]:
        assert accepted
        client.Done(job)


@covers("GetJobs", "GetJobStatus", "WaitForJobCompletion", "WaitForJobChange", "CancelJob")
def test_jobs(client: Noting, cluster: RealCluster) -> None:
    job = client.AddClusterTags(["jobs"])
    assert client.WaitForJobCompletion(job, period=0.1)
    assert job in client.GetJobs()
    assert [j["status"] for j in client.GetJobs(bulk=True) if j["id"] == job] == ["success"]
    shown = client.GetJobStatus(job)
    assert (shown["status"], shown["ops"][0]["OP_ID"], shown["opresult"]) == ("success", "OP_TAGS_SET", [None])
    change = client.WaitForJobChange(job, ["status"], None, None)
    assert change["job_info"] == ["success"]
    assert client.CancelJob(job)[0] is False
    assert not client.WaitForJobCompletion(client.DeleteClusterTags(["never-there"]), period=0.1)
    # A job that depends on one that does not end is queued as long as we like.
    held = client.ModifyCluster(candidate_pool_size=8, depends=[[Held(client), ["success"]]])
    assert client.GetJobStatus(held)["status"] in ("queued", "waiting")
    assert client.CancelJob(held)[0] is True
    assert not client.WaitForJobCompletion(held, period=0.1)
    with pytest.raises(GanetiApiError) as caught:
        client.WaitForJobCompletion(10**6)
    assert caught.value.code == 404


def Held(client: Noting) -> int:
    """A job that a filter keeps in the queue until the filter goes."""
    client.AddFilter(1, [["opcode", ["=", "comment", "hold me"]]], "PAUSE")
    return client.ModifyCluster(candidate_pool_size=8, comment="hold me")


@covers("GetNodes", "GetNode", "GetNodeRole", "SetNodeRole", "PowercycleNode", "ModifyNode", "GetNodeStorageUnits")
@covers("ModifyNodeStorageUnits", "RepairNodeStorageUnits", "GetNodeTags", "AddNodeTags", "DeleteNodeTags")
def test_nodes(client: Noting, cluster: RealCluster) -> None:
    names = [node.name for node in cluster.nodes]
    assert client.GetNodes() == names
    assert [node["name"] for node in client.GetNodes(bulk=True)] == names
    node = names[2]
    assert client.GetNode(node)["pip"] == cluster[2].address
    assert client.GetNodeRole(names[0]) == "master"
    client.Done(client.SetNodeRole(node, NODE_ROLE_OFFLINE, force=True))
    assert client.GetNodeRole(node) == "offline"
    client.Done(client.SetNodeRole(node, "regular", auto_promote=False))
    client.Done(client.SetNodeRole(node, "master-candidate"))
    client.Done(client.ModifyNode(node, ndparams={"spindle_count": 2}))
    assert client.GetNode(node)["ndparams"]["spindle_count"] == 2
    rows = client.Done(client.GetNodeStorageUnits(node, "file", "name,free"))
    assert rows[0][0] == cluster.files
    client.Fails(
        client.ModifyNodeStorageUnits(node, "lvm-pv", "/dev/none", allocatable=True), "lvm", errors.GenericError
    )
    client.Fails(client.RepairNodeStorageUnits(node, "lvm-vg", "none"), "none", errors.GenericError)
    assert "Reboot scheduled" in client.Done(client.PowercycleNode(node, force=True))
    client.Done(client.AddNodeTags(node, ["a", "b"]))
    client.Done(client.DeleteNodeTags(node, ["a"]))
    assert "b" in client.GetNodeTags(node) and "a" not in client.GetNodeTags(node)


@covers("GetGroups", "GetGroup", "CreateGroup", "ModifyGroup", "DeleteGroup", "RenameGroup", "AssignGroupNodes")
@covers("GetGroupTags", "AddGroupTags", "DeleteGroupTags")
def test_groups(client: Noting, cluster: RealCluster) -> None:
    [first] = client.GetGroups()
    client.Done(client.CreateGroup("second", alloc_policy="last_resort"))
    client.Done(client.ModifyGroup("second", alloc_policy="unallocable"))
    client.Done(client.RenameGroup("second", "other"))
    client.Done(client.AssignGroupNodes("other", [cluster[2].name], force=True))
    assert client.GetGroup("other")["node_list"] == [cluster[2].name]
    client.Done(client.AssignGroupNodes(first, [cluster[2].name]))
    assert [group["alloc_policy"] for group in client.GetGroups(bulk=True) if group["name"] == "other"] == [
        "unallocable"
    ]
    client.Done(client.AddGroupTags("other", ["a"]))
    assert client.GetGroupTags("other") == ["a"]
    client.Done(client.DeleteGroupTags("other", ["a"]))
    client.Done(client.DeleteGroup("other"))
    assert client.GetGroups() == [first]


@covers("GetNetworks", "GetNetwork", "CreateNetwork", "ConnectNetwork", "DisconnectNetwork", "ModifyNetwork")
@covers("DeleteNetwork", "RenameNetwork", "GetNetworkTags", "AddNetworkTags", "DeleteNetworkTags")
def test_networks(client: Noting, cluster: RealCluster) -> None:
    [group] = client.GetGroups()
    client.Done(client.CreateNetwork("lan", "192.0.2.0/24", gateway="192.0.2.1"))
    client.Done(client.CreateNetwork("dmz", "198.51.100.0/24", add_reserved_ips="198.51.100.9", tags="x,y"))
    assert client.GetNetworks() == ["dmz", "lan"]
    assert client.GetNetworkTags("dmz") == ["x", "y"]
    client.Done(client.ConnectNetwork("lan", group, "bridged", "br0"))
    assert client.GetNetwork("lan")["group_list"][0][:3] == [group, "bridged", "br0"]
    client.Done(client.DisconnectNetwork("lan", group))
    client.Done(client.ModifyNetwork("lan", mac_prefix="aa:bb:cc"))
    client.Done(client.RenameNetwork("lan", "wan"))
    assert [n["mac_prefix"] for n in client.GetNetworks(bulk=True)] == [None, "aa:bb:cc"]
    client.Done(client.AddNetworkTags("wan", ["a", "b"]))
    client.Done(client.DeleteNetworkTags("wan", ["b"]))
    for name in ("dmz", "wan"):
        client.Done(client.DeleteNetwork(name))
    assert client.GetNetworks() == []


@covers("Query", "QueryFields")
def test_queries(client: Noting, cluster: RealCluster) -> None:
    answer = client.Query("node", ["name", "nonsense"], ["=", "name", cluster[1].name])
    assert answer["data"] == [[[0, cluster[1].name], [1, None]]]
    assert [field["name"] for field in answer["fields"]] == ["name", "nonsense"]
    assert [f["name"] for f in client.QueryFields("job", ["status", "id"])["fields"]] == ["status", "id"]
    assert len(client.QueryFields("instance")["fields"]) > 50


@covers("GetFilters", "GetFilter", "AddFilter", "ReplaceFilter", "DeleteFilter")
def test_filters(client: Noting) -> None:
    before = client.GetFilters()
    uuid = client.AddFilter(3, [["jobid", [">", "id", "watermark"]]], "ACCEPT", [["me", "because", 1]])
    shown = client.GetFilter(uuid)
    assert [entry[0] for entry in shown["reason_trail"]] == ["me", "gnt:client", "gnt:rapi:user", "luxid"]
    assert client.ReplaceFilter(uuid, 4, shown["predicates"], "CONTINUE") == uuid
    assert [f["priority"] for f in client.GetFilters(bulk=True) if f["uuid"] == uuid] == [4]
    assert client.DeleteFilter(uuid) is None
    assert client.GetFilters() == before
    with pytest.raises(GanetiApiError) as caught:
        client.GetFilter(uuid)
    assert caught.value.code == 404


def test_who_may_not_write_is_told_so(cluster: RealCluster) -> None:
    with pytest.raises(GanetiApiError) as caught:
        Connect(cluster, "reader").AddClusterTags(["x"])
    assert caught.value.code == 403
    stranger = GanetiRapiClient(cluster[0].address, username="writer", password="wrong")
    with pytest.raises(GanetiApiError) as caught:
        stranger.GetInfo()
    assert caught.value.code == 401


def test_a_change_of_something_that_has_changed_is_refused(client: Noting) -> None:
    [group] = client.GetGroups()
    client.GetGroup(group)
    careful = client.Conditional(if_match=client.client.etag)
    assert client.client.etag
    client.Done(careful.ModifyGroup(group, alloc_policy="last_resort"))
    with pytest.raises(GanetiApiError) as caught:
        careful.ModifyGroup(group, alloc_policy="unallocable")
    assert caught.value.code == 412
    assert client.GetGroup(group)["alloc_policy"] == "last_resort"
    client.Done(client.ModifyGroup(group, alloc_policy="preferred"))


def test_events_are_followed_while_things_change(client: Noting) -> None:
    """The stream is open before the change is asked for; another one resumes after an event of the first."""
    [group] = client.GetGroups()
    events = client.Events(kind="job,group", patience=20)
    opened = next(events)
    assert opened.kind == "open" and opened.id
    job = client.AddGroupTags(group, ["seen"])
    seen = list(_Until(events, job))
    assert [e.data["name"] for e in seen if e.kind == "group"] == [group]
    assert {e.kind for e in seen} == {"group", "job"}
    again = client.Events(opened.id, name=str(job), patience=20)
    assert next(again).kind == "open"
    assert [e.data["job"] for e in _Until(again, job)][-1] == job


def test_a_stream_outlives_the_daemons(client: Noting, cluster: RealCluster) -> None:
    """A new REST daemon is found again and resumes; after a new master daemon the client is told to read again."""
    [group] = client.GetGroups()
    events = client.Events(kind="group", patience=40)
    assert next(events).kind == "open"
    cluster[0].Stop("ganeti-rapi")
    cluster[0].StartRapi("--require-authentication")
    client.Done(client.AddGroupTags(group, ["while-away"]))
    assert next(events).data["name"] == group
    cluster[0].Stop("ganeti-masterd")
    cluster[0].StartMaster()
    client.Done(client.DeleteGroupTags(group, ["while-away"]))
    # What changed before the new connection is part of what is read again; no event of its own must follow.
    assert any(event.kind == EVENT_MISSED for event in events)


def _Until(events: Iterator[Event], job: int) -> Iterator[Event]:
    """The events up to the success of a job."""
    for event in events:
        yield event
        if event.kind == "job" and (event.data["job"], event.data["status"]) == (job, "success"):
            return


def test_metrics_are_in_the_openmetrics_format(client: Noting) -> None:
    text = client.GetMetrics()
    assert text.startswith("# ") and text.endswith("# EOF\n")
    assert "ganeti_" in text
