"""Roles, capabilities and parameters of nodes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from support.configs import WEB
from support.master import Master

from ganeti import errors, objects, opcodes, pathutils, runtime
from ganeti.cmdlib.node import modify as node_modify
from ganeti.cmdlib.node.modify import FLAGS, NewRole, RoleOf
from ganeti.server.ssconfpush import SsconfPusher


def _Node(master: Master, number: int) -> objects.Node:
    return master.snapshot.nodes[master.nodes[number]]


def _Voters(master: Master) -> set[str]:
    return set(master.store.Voters().by_uuid)


def _Modify(master: Master, number: int, **changes: Any) -> Any:
    return master.Run(opcodes.OpNodeSetParams(node_name=_Node(master, number).name, **changes))


def _Refused(master: Master, number: int, match: str, ecode: str, **changes: Any) -> errors.OpPrereqError:
    before = master.snapshot
    with pytest.raises(errors.OpPrereqError, match=match) as caught:
        _Modify(master, number, **changes)
    assert caught.value.args[1] == ecode
    assert master.snapshot is before
    return caught.value


def _Pool(master: Master, size: int) -> None:
    master.cfg.Update(master.cfg.Snapshot().cluster.Replace(candidate_pool_size=size))


@pytest.fixture
def trio(make: Callable[..., Master]) -> Master:
    """Three nodes; the first two are all the candidates that are wanted, the instance lives on them."""
    return make(3, candidates=2, prepare=lambda master: master.DistributeSsconf())


# --- roles --------------------------------------------------------------------------------------------------------------


@pytest.mark.req("D20-FLAG-24")
def test_a_node_has_one_role_whatever_is_asked_for() -> None:
    roles = (*FLAGS, node_modify.REGULAR)
    for old, *asked in itertools.product(roles, *[(None, True, False)] * 3):
        if asked.count(True) > 1:
            continue
        new = NewRole(old, dict(zip(FLAGS, asked, strict=True)))
        if True in asked:
            assert new == FLAGS[asked.index(True)]
        else:
            assert new == (node_modify.REGULAR if False in asked else old)


@pytest.mark.req("D20-FLAG-24")
def test_a_node_goes_through_every_role(trio: Master) -> None:
    told: list[Any] = []
    trio.cfg.Update(trio.cfg.Snapshot().cluster.Replace(candidate_pool_size=1))
    for change in (
        {"drained": True},
        {"offline": True},
        {"drained": True},
        {"drained": False},
        {"master_candidate": True},
        {"drained": True},
        {"master_candidate": True},
        {"master_candidate": False},
        {"offline": True},
        {"offline": False},
    ):
        result = _Modify(trio, 2, **change)
        node = _Node(trio, 2)
        assert [getattr(node, flag) for flag in FLAGS].count(True) <= 1
        assert (node.uuid in _Voters(trio)) == node.master_candidate
        told.append((RoleOf(node), result))
    assert told == [
        ("drained", [["drained", "True"]]),
        ("offline", [["drained", "False"], ["offline", "True"]]),
        ("drained", [["drained", "True"], ["offline", "False"]]),
        ("regular", [["drained", "False"]]),
        ("master_candidate", [["master_candidate", "True"]]),
        ("drained", [["master_candidate", "False"], ["drained", "True"]]),
        ("master_candidate", [["master_candidate", "True"], ["drained", "False"]]),
        ("regular", [["master_candidate", "False"]]),
        ("offline", [["offline", "True"]]),
        ("regular", [["offline", "False"]]),
    ]


@pytest.mark.parametrize(
    "digest",
    [
        "AB:CD",
        "x",
        "",
        ":".join(["ab"] * 20),
        ":".join(["AB"] * 20) + "\n",
        ":".join(["AB"] * 20) + f"\nuuid={':'.join(['CD'] * 20)}",
        ":".join(["AB"] * 200_000),
        5,
        None,
        ["AB"],
    ],
)
def test_a_rogue_node_puts_nothing_else_into_the_list_of_candidates(trio: Master, digest: Any) -> None:
    """Its line lets callers in everywhere: a second line in it, or a size that nobody reads, would be the node's choice."""
    _Pool(trio, 1)
    before = trio.snapshot.cluster.candidate_certs
    trio[2].answers["node_crypto_tokens"] = [["ssl", digest]]
    with pytest.raises(
        errors.OpExecError,
        match=rf"{trio[2].name} (did not send a valid digest|.* invalid answer to node_crypto_tokens)",
    ):
        _Modify(trio, 2, master_candidate=True)
    assert trio.snapshot.cluster.candidate_certs == before
    assert not _Node(trio, 2).master_candidate


def test_a_node_that_keeps_the_old_list_is_named(trio: Master) -> None:
    _Pool(trio, 1)
    _Modify(trio, 2, master_candidate=True)
    # Something on the second node holds its list up.
    trio[1].ssconf_stuck = True
    _Modify(trio, 2, master_candidate=False)
    (warning,) = [text for text in trio.last.messages if "no longer accept calls" in text]
    assert f"calls from node {trio[2].name}: {trio[1].name}" in warning


def test_a_rogue_node_cannot_keep_another_s_certificate_accepted(trio: Master) -> None:
    _Pool(trio, 1)
    _Modify(trio, 1, master_candidate=False)
    _Modify(trio, 1, master_candidate=True)
    trio[2].answers["node_crypto_tokens"] = [["ssl", trio[1].Digest()]]
    with pytest.raises(errors.OpExecError, match="sent the digest of the certificate of node"):
        _Modify(trio, 2, master_candidate=True)
    assert not _Node(trio, 2).master_candidate


@pytest.mark.req("D21-REDIST-08")
def test_what_a_candidate_gets_and_gives_back(trio: Master) -> None:
    _Pool(trio, 1)
    trio[0].Write("/etc/hosts", "192.0.2.99 another\n")
    _Modify(trio, 2, master_candidate=True)
    uuid = trio.nodes[2]
    assert trio.snapshot.cluster.candidate_certs[uuid] == trio[2].Digest()
    assert trio[2].Read("/etc/hosts") == trio[0].Read("/etc/hosts"), "files that candidates need"
    assert trio[0].arguments["node_ssh_key_add"][3:] == (True, False, False)
    assert "node_demote_from_mc" not in trio[2].calls
    _Modify(trio, 2, master_candidate=False)
    assert uuid not in trio.snapshot.cluster.candidate_certs
    assert "node_demote_from_mc" in trio[2].calls
    assert trio[0].arguments["node_ssh_key_remove"][4:] == (True, False, False, False, False)


def test_a_former_candidate_gets_the_list_as_soon_as_it_takes_it(trio: Master) -> None:
    """It refuses files until its copy of the store is gone, and may not have written its own from that before."""
    path = pathutils.SsconfFile("master_candidates_certs")
    _Pool(trio, 1)
    _Modify(trio, 2, master_candidate=True)
    before = trio.snapshot
    pusher = SsconfPusher(trio.store, trio.cfg.Snapshot, trio.rpc)
    pusher.Start()
    trio[2].faults["write_ssconf_files"] = "The store owns this file"
    _Modify(trio, 2, master_candidate=False)
    trio[2].WriteSsconf(before)
    runtime.Sleep(2)
    assert trio[2].Digest().encode() in trio[2].Read(path)
    del trio[2].faults["write_ssconf_files"]
    runtime.Sleep(5)
    assert trio[2].Digest().encode() not in trio[2].Read(path)
    pusher.Stop()


def test_a_node_that_takes_no_files_is_tried_ever_more_rarely(trio: Master) -> None:
    pusher = SsconfPusher(trio.store, trio.cfg.Snapshot, trio.rpc)
    trio[2].faults["write_ssconf_files"] = "Read-only file system"
    assert [pusher.Turn() for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    _Pool(trio, 1)
    trio[1].faults["write_ssconf_files"] = "The store owns this file"
    _Modify(trio, 1, master_candidate=False)
    assert [pusher.Turn() for _ in range(3)] == [1, 2, 4], "another one does not wait for that"
    trio[1].faults.clear()
    trio[2].faults.clear()
    assert pusher.Turn() is None
    trio[2].faults["write_ssconf_files"] = "Read-only file system"
    assert pusher.Turn() is None, "it has everything"
    trio.cfg.Update(trio.cfg.Snapshot().cluster.Replace(tags=["new"]))
    assert pusher.Turn() == 1


@pytest.mark.req("D20-FLAG-12")
def test_the_role_of_the_master_is_not_changed(trio: Master) -> None:
    for change in ({"offline": True}, {"drained": True}, {"master_candidate": False}, {"master_capable": False}):
        error = _Refused(trio, 0, "is the master", errors.ECODE_INVAL, auto_promote=True, **change)
        assert "master-failover" in str(error.hint)


def test_flags_that_are_unset_already_are_dropped(trio: Master) -> None:
    serial = _Node(trio, 2).serial_no
    assert _Modify(trio, 2, master_candidate=False) == []
    assert any("Ignoring request to unset flag master_candidate" in text for text in trio.last.messages)
    assert _Node(trio, 2).serial_no == serial


# --- the pool -----------------------------------------------------------------------------------------------------------


@pytest.mark.req("D20-FLAG-03", "D20-FLAG-14")
@pytest.mark.parametrize("change", [{"offline": True}, {"drained": True}, {"master_candidate": False}])
def test_a_candidate_is_replaced_before_it_goes(trio: Master, change: dict[str, bool]) -> None:
    error = _Refused(trio, 1, "Not enough master candidates", errors.ECODE_STATE, **change)
    assert "--auto-promote" in str(error.hint)
    counts: list[int] = []
    trio.store.Listen(lambda position, rows: counts.append(len(trio.store.Voters().by_uuid)))
    result = _Modify(trio, 1, auto_promote=True, **change)
    assert result[0] == ["master_candidate", "False"]
    assert _Voters(trio) == {trio.nodes[0], trio.nodes[2]}
    assert _Node(trio, 2).master_candidate and trio.nodes[2] in trio.snapshot.cluster.candidate_certs
    assert min(counts) == 2, "there were never fewer copies than wanted"


def test_a_dead_candidate_is_marked_offline(trio: Master) -> None:
    trio[1].machine.PowerOff()
    began = trio.world.now
    result = _Modify(trio, 1, offline=True, auto_promote=True)
    assert result == [["master_candidate", "False"], ["offline", "True"]]
    assert _Voters(trio) == {trio.nodes[0], trio.nodes[2]}
    assert trio.world.now - began < 5, "its instances wait for this command"
    assert any("does not answer, its hooks are left out" in text for text in trio.last.messages)


def test_who_cannot_be_promoted_does_not_stop_it(trio: Master) -> None:
    trio[2].faults["node_crypto_tokens"] = "no certificate"
    _Modify(trio, 1, offline=True, auto_promote=True)
    assert _Voters(trio) == {trio.nodes[0]}
    assert any("could not be made a master candidate" in text for text in trio.last.messages)
    assert any("1 master candidates, 2 are wanted" in text for text in trio.last.messages)


def test_all_nodes_are_locked_only_where_others_may_be_promoted(trio: Master) -> None:
    held: list[Any] = []
    trio[0].before = lambda name, args: held.append(
        sorted(row.name for row in trio.glm.QueryLocks() if row.owner and row.mode == "exclusive")
    )
    _Modify(trio, 1, offline=True, auto_promote=True)
    nodes = sorted(trio.nodes)
    assert set(held[0]) >= {"node-alloc/NAL", *(f"{level}/{n}" for level in ("node", "node-res") for n in nodes)}
    held.clear()
    _Modify(trio, 2, vm_capable=False)
    assert held[0] == [f"node-res/{trio.nodes[2]}", f"node/{trio.nodes[2]}"]


# --- offline ------------------------------------------------------------------------------------------------------------


def test_the_answer_names_the_instances_and_the_next_command(trio: Master) -> None:
    root = trio.snapshot
    web = root.instances[WEB]
    trio.cfg.SetInstancePrimaryNode(WEB, trio.nodes[1])
    _Modify(trio, 1, offline=True, auto_promote=True)
    messages = "\n".join(trio.last.messages)
    assert f"is the primary node of 1 instance(s): {web.name}" in messages
    assert f"gnt-node failover {_Node(trio, 1).name}" in messages and "has been behind" not in messages
    assert _Node(trio, 1).offline


def test_the_answer_names_what_only_the_node_has(trio: Master) -> None:
    trio.cfg.SetInstancePrimaryNode(WEB, trio.nodes[1])
    trio.cfg.SetDisksBehind(trio.snapshot.instances[WEB].disks, trio.nodes[0])
    _Modify(trio, 1, offline=True, auto_promote=True)
    messages = "\n".join(trio.last.messages)
    assert f"the copy of disk/0 on node {_Node(trio, 0).name} has been behind since" in messages
    assert f"gnt-instance failover --ignore-consistency {trio.snapshot.instances[WEB].name}" in messages


def test_secondaries_are_named_too(trio: Master) -> None:
    _Modify(trio, 1, offline=True, auto_promote=True)
    messages = "\n".join(trio.last.messages)
    assert "second copy of 1 instance(s): web.example.org" in messages
    assert "gnt-instance replace-disks -n NODE INSTANCE" in messages


def test_a_node_comes_back(trio: Master) -> None:
    _Modify(trio, 1, offline=True, auto_promote=True)
    trio[1].faults["version"] = "not up yet"
    error = _Refused(trio, 1, "not up yet", errors.ECODE_STATE, offline=False)
    # It may have been away while certificates were renewed.
    assert f"node-cleanup --yes-do-it' there, then 'gnt-node add --readd {trio[1].name}' here" in str(error.hint)
    trio[1].faults.clear()
    trio[1].Write("/etc/hosts", "")
    assert _Modify(trio, 1, offline=False) == [["offline", "False"]]
    assert any("re-add" in text for text in trio.last.messages)
    assert trio[1].Read("/etc/hosts") == trio[0].Read("/etc/hosts") != b""
    assert not _Node(trio, 1).master_candidate, "the pool is full"


def test_who_comes_back_fills_the_pool(trio: Master) -> None:
    _Modify(trio, 1, offline=True, auto_promote=True)
    _Pool(trio, 3)
    assert _Modify(trio, 1, offline=False) == [["master_candidate", "True"], ["offline", "False"]]
    assert trio.nodes[1] in _Voters(trio)


def test_a_promotion_that_follows_may_fail_one_asked_for_may_not(trio: Master) -> None:
    _Pool(trio, 3)
    _Modify(trio, 2, drained=True)
    trio[2].faults["node_crypto_tokens"] = "no certificate"
    assert _Modify(trio, 2, drained=False) == [["drained", "False"]]
    assert any("could not be made a master candidate" in text for text in trio.last.messages)
    with pytest.raises(errors.OpExecError, match="no certificate"):
        _Modify(trio, 2, master_candidate=True)
    assert not _Node(trio, 2).master_candidate


def test_who_does_not_know_the_master_gets_no_files(trio: Master) -> None:
    _Modify(trio, 2, offline=True)
    trio[2].faults["store_promise"] = "it cannot be read"
    assert _Modify(trio, 2, offline=False) == [["offline", "False"]]
    assert any("redist-conf" in text for text in trio.last.messages)
    assert "upload_file" not in trio[2].calls


# --- capabilities and values --------------------------------------------------------------------------------------------


def test_capabilities(trio: Master) -> None:
    _Pool(trio, 3)
    _Refused(trio, 1, "hosts instances \\(web.example.org\\)", errors.ECODE_STATE, vm_capable=False)
    assert _Modify(trio, 2, master_capable=False) == [["master_capable", "False"]]
    _Refused(trio, 2, "not master capable", errors.ECODE_STATE, master_candidate=True)
    assert _Modify(trio, 2, drained=True) and _Modify(trio, 2, drained=False) == [["drained", "False"]]
    gained = _Modify(trio, 2, master_capable=True)
    assert gained == [["master_capable", "True"], ["master_candidate", "True"]]
    assert _Modify(trio, 2, master_capable=False) == [["master_capable", "False"], ["master_candidate", "False"]]
    assert _Modify(trio, 2, vm_capable=False) == [["vm_capable", "False"]]
    _Modify(trio, 2, offline=True)
    assert _Modify(trio, 2, master_capable=True) == [["master_capable", "True"]], "an offline node is not promoted"


def test_arguments(trio: Master) -> None:
    _Refused(trio, 2, "at least one modification", errors.ECODE_INVAL)
    _Refused(trio, 2, "at least one modification", errors.ECODE_INVAL, powered=True)
    _Refused(trio, 2, "more than one state", errors.ECODE_INVAL, offline=True, drained=True)
    _Refused(trio, 2, "more than one state", errors.ECODE_INVAL, master_capable=True, vm_capable=True)
    _Refused(trio, 2, "cannot contain: exclusive_storage", errors.ECODE_INVAL, ndparams={"exclusive_storage": True})
    _Refused(trio, 2, "Unknown hypervisor", errors.ECODE_INVAL, hv_state={"vmware": {}})
    with pytest.raises(errors.OpPrereqError, match="not known"):
        trio.Run(opcodes.OpNodeSetParams(node_name="nobody", drained=True))


@pytest.mark.req("RM-SOR-02", "RM-SOR-04")
def test_parameters_and_states(trio: Master) -> None:
    changes = {
        "ndparams": {"oob_program": "/bin/oob", "spindle_count": 4},
        "hv_state": {"kvm": {"cpu_total": 8, "cpu_node": 2}},
        "disk_state": {"plain": {"xenvg": {"disk_total": 1000, "disk_overhead": 20}}},
    }
    assert _Modify(trio, 2, **changes) == []
    node = _Node(trio, 2)
    assert dict(node.ndparams) == changes["ndparams"]
    cpus, volumes = node.hv_state_static["kvm"], node.disk_state_static["plain"]["xenvg"]
    assert (cpus["cpu_total"], cpus["cpu_node"]) == (8, 2)
    assert (volumes["disk_total"], volumes["disk_overhead"]) == (1000, 20)
    _Modify(trio, 2, ndparams={"spindle_count": "default"}, hv_state={"kvm": {"mem_node": 5}})
    node = _Node(trio, 2)
    assert dict(node.ndparams) == {"oob_program": "/bin/oob"}
    assert node.hv_state_static["kvm"]["cpu_total"] == 8 and node.hv_state_static["kvm"]["mem_node"] == 5


def test_power_state(trio: Master) -> None:
    _Refused(trio, 2, "does not support out-of-band", errors.ECODE_STATE, powered=False, offline=True)
    _Modify(trio, 2, ndparams={"oob_program": "/bin/oob"})
    assert _Modify(trio, 2, offline=True, powered=False) == [["powered", "False"], ["offline", "True"]]
    _Refused(trio, 2, "needs to be turned on", errors.ECODE_STATE, offline=False)
    assert _Modify(trio, 2, offline=False, powered=True) == [["powered", "True"], ["offline", "False"]]


def test_hooks(trio: Master) -> None:
    _Modify(trio, 2, drained=True)
    runs = [(run[0], run[1]) for run in trio[2].hook_runs]
    assert runs == [("node-modify", "pre"), ("node-modify", "post")] and trio[1].hook_runs == []
    env = trio[2].hook_runs[0][2]
    assert (env["GANETI_OP_TARGET"], env["GANETI_DRAINED"], env["GANETI_OFFLINE"]) == (trio[2].name, "True", "None")
    assert (env["GANETI_MASTER_CANDIDATE"], env["GANETI_MASTER_CAPABLE"], env["GANETI_VM_CAPABLE"]) == ("None",) * 3


# --- secondary address --------------------------------------------------------------------------------------------------

NEW = "198.51.100.77"


def test_a_new_secondary_address(trio: Master) -> None:
    _Refused(trio, 2, "claims it doesn't have", errors.ECODE_ENVIRON, secondary_ip=NEW)
    trio[2].machine.addresses[NEW] = None
    trio.network.Cut(trio[0].name, trio[2].name)
    _Refused(trio, 2, "does not reach|timed out", errors.ECODE_ENVIRON, secondary_ip=NEW)
    trio.network.MendAll()
    assert _Modify(trio, 2, secondary_ip=NEW) == [["secondary_ip", NEW]]
    assert _Node(trio, 2).secondary_ip == NEW
    _Refused(trio, 2, "conflicts with existing node node1", errors.ECODE_NOTUNIQUE, secondary_ip="198.51.100.1")
    _Refused(trio, 2, "valid IPv4", errors.ECODE_INVAL, secondary_ip="web")
    _Refused(trio, 2, "single-homed in a multi-homed", errors.ECODE_INVAL, secondary_ip="192.0.2.13")


def test_mirrors_must_not_run_meanwhile(trio: Master) -> None:
    trio[1].machine.addresses[NEW] = None
    _Refused(trio, 1, "marked to be up", errors.ECODE_STATE, secondary_ip=NEW)
    trio.cfg.MarkInstanceDown(WEB)
    _Refused(trio, 1, "is running on", errors.ECODE_STATE, secondary_ip=NEW)
    trio[0].KillGuest("web.example.org")
    locks: list[str] = []
    trio[1].before = lambda name, args: locks.extend(
        f"{row.name} {row.mode}" for row in trio.glm.QueryLocks() if row.owner and row.name.startswith("instance/")
    )
    assert _Modify(trio, 1, secondary_ip=NEW)
    assert "instance/web.example.org shared" in locks
    trio.cfg.Update(_Node(trio, 1).Replace(offline=True, master_candidate=False))
    _Refused(trio, 1, "offline node node2", errors.ECODE_STATE, secondary_ip="198.51.100.78")


def test_from_two_networks_to_one(trio: Master) -> None:
    trio.cfg.MarkInstanceDown(WEB)
    trio[0].KillGuest("web.example.org")
    _Refused(trio, 0, "--force|single-homed", errors.ECODE_INVAL, secondary_ip="192.0.2.11")
    _Modify(trio, 0, secondary_ip="192.0.2.11", force=True)
    assert any("Transitioning from multi-homed to single-homed" in text for text in trio.last.messages)
    _Modify(trio, 1, secondary_ip="192.0.2.12")
    assert _Node(trio, 1).secondary_ip == "192.0.2.12"


@pytest.mark.parametrize(
    "changes", [{"disk_state": {"plain": 5}}, {"disk_state": {"plain": {"x": [1]}}}, {"disk_state": {"plain": None}}]
)
def test_a_state_that_is_not_an_object_is_the_request_s_fault(trio: Master, changes: dict[str, Any]) -> None:
    with pytest.raises(errors.OpPrereqError, match="not an object"):
        _Modify(trio, 1, **changes)


# --- drained ------------------------------------------------------------------------------------------------------------


@pytest.mark.req("D20-FLAG-23")
def test_everything_but_placing_works_on_a_drained_node(trio: Master) -> None:
    _Modify(trio, 1, drained=True, auto_promote=True)
    trio.cfg.Update(_Node(trio, 0).Replace(drained=True))
    trio.Run(opcodes.OpInstanceShutdown(instance_name="web"))
    trio.Run(opcodes.OpInstanceStartup(instance_name="web"))
    trio.Run(opcodes.OpInstanceReboot(instance_name="web", reboot_type="hard"))
    assert "web.example.org" in trio[0].guests
    rows = trio.context.query.QueryNow("node", ["name", "drained", "pinst_cnt"], None)["data"]
    assert [[value for _, value in row] for row in rows] == [
        ["node1.example.org", True, 1],
        ["node2.example.org", True, 0],
        ["node3.example.org", False, 0],
    ]


@pytest.mark.req("D20-FLAG-26")
def test_each_flag_is_a_field_of_the_list(trio: Master) -> None:
    _Modify(trio, 1, offline=True, auto_promote=True)
    _Modify(trio, 2, vm_capable=False)
    trio.cfg.Update(_Node(trio, 0).Replace(drained=True))
    fields = ["master_candidate", "drained", "offline", "master_capable", "vm_capable", "role"]
    rows = trio.context.query.QueryNow("node", fields, None)["data"]
    assert [[value for _, value in row] for row in rows] == [
        [True, True, False, True, True, "M"],
        [False, False, True, True, True, "O"],
        [True, False, False, True, False, "C"],
    ]
