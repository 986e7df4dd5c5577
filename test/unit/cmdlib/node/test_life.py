"""Nodes come and go, and are reset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.actors import Until
from support.master import Master
from support.writers import configs

from ganeti import errors, locking, objects, opcodes, pathutils, ssconf
from ganeti.cmdlib.lvmchecks import PvProblems

SECOND = "198.51.100.3"


def _Voters(master: Master) -> set[str]:
    return set(master.store.Voters().by_uuid)


def _MoveWeb(draft: Any, uuid: str) -> None:
    draft.Touch(draft.Get("instance", configs.WEB).Replace(primary_node=uuid))


def _Pool(master: Master, size: int) -> None:
    master.cfg.Update(master.cfg.Snapshot().cluster.Replace(candidate_pool_size=size))


def _Add(master: Master, **options: Any) -> objects.Node:
    """Adds the first spare machine, or takes it back."""
    address = master.Spare().name
    assert master.Run(opcodes.OpNodeAdd(node_name=address, **{"secondary_ip": SECOND, **options})) is None
    node = master.snapshot.NodeByName(address)
    assert node is not None
    return node


def _Refused(master: Master, match: str, ecode: str, **options: Any) -> errors.OpPrereqError:
    before = master.snapshot
    with pytest.raises(errors.OpPrereqError, match=match) as caught:
        master.Run(opcodes.OpNodeAdd(**{"node_name": master.Spare().name, "secondary_ip": SECOND, **options}))
    assert caught.value.args[1] == ecode
    assert master.snapshot is before
    return caught.value


def _WithoutLvm(master: Master) -> None:
    # What a node says of its volume groups comes with their driver.
    cluster = master.cfg.Snapshot().cluster
    master.cfg.Update(cluster.Replace(candidate_pool_size=2, volume_group_name=None))


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    """Two nodes, one of them a candidate, and a spare machine."""
    return make(2, spare=1, prepare=_WithoutLvm)


# --- adding -------------------------------------------------------------------------------------------------------------


@pytest.mark.req("D21-REDIST-07")
def test_a_new_node_gets_the_files_of_all_though_it_is_no_candidate(three: Master) -> None:
    _Pool(three, 1)
    machine = three.Spare()
    three[0].Write(pathutils.EXTRA_FILES_LIST, "/etc/ours\n")
    three[0].Write("/etc/ours", "ours\n")
    assert _Add(three).master_candidate is False
    assert machine.Read(pathutils.EXTRA_FILES_LIST) == b"/etc/ours\n" and machine.Read("/etc/ours") == b"ours\n"


@pytest.mark.req("D21-UUID-02")
def test_a_new_node_enters_as_regular_and_is_promoted(three: Master) -> None:
    machine = three.Spare()
    address = machine.name
    roles: list[bool] = []
    machine.before = lambda name, args: (
        roles.append(three.snapshot.NodeByName(address).master_candidate) if name == "node_crypto_tokens" else None
    )
    node = _Add(three)
    assert roles == [False], "it was a regular node before it had a copy"
    assert (node.primary_ip, node.secondary_ip, node.powered) == ("192.0.2.13", SECOND, True)
    assert node.master_candidate and node.uuid in _Voters(three)
    assert three.snapshot.cluster.candidate_certs[node.uuid] == machine.Digest()
    rows = {(row.kind, row.id) for row in three[2].Rows()}
    assert ("node", node.uuid) in rows, "it holds the configuration"
    assert any(node.uuid in message for message in three.last.messages), "the log tells the uuid"
    for level in (locking.LEVEL_NODE, locking.LEVEL_NODE_RES):
        assert node.uuid in three.glm.Names(level)
    # The hosts file went to everybody, the other files to the new node.
    assert f"192.0.2.13 {address}".split() in [
        line.split()[:2] for line in three[0].Read("/etc/hosts").decode().splitlines()
    ]
    assert machine.Read("/etc/hosts") == three[1].Read("/etc/hosts") == three[0].Read("/etc/hosts")
    assert machine.arguments["write_ssconf_files"][0].keys() == ssconf.Values(three.snapshot).keys()
    assert address in machine.arguments["write_ssconf_files"][0]["node_list"]


@pytest.mark.req("D20-FLAG-01")
def test_with_a_full_pool_it_stays_regular(three: Master) -> None:
    _Pool(three, 1)
    node = _Add(three, group="default", ndparams={"oob_program": "/bin/oob"}, vm_capable=False)
    assert not node.master_candidate and node.uuid not in _Voters(three)
    assert three[2].Rows() == [], "it holds neither configuration nor jobs"
    assert node.uuid not in three.snapshot.cluster.candidate_certs
    assert dict(node.ndparams) == {"oob_program": "/bin/oob"}
    assert not node.vm_capable and node.master_capable


def test_one_that_is_not_master_capable_is_never_promoted(three: Master) -> None:
    node = _Add(three, master_capable=False)
    assert not node.master_candidate and not node.master_capable


def test_without_ssh_nothing_asks_for_ssh(three: Master) -> None:
    three[0].ssh_names[three.Spare().name] = "another"
    node = _Add(three, node_setup=False)
    assert node.master_candidate
    assert [name for name in three[0].calls if name.startswith("node_ssh") or name == "node_verify"] == []


def test_with_ssh_the_master_must_reach_it(three: Master) -> None:
    three[0].ssh_names[three.Spare().name] = "another"
    before = three.snapshot
    with pytest.raises(errors.OpExecError, match="ssh/hostname verification failed") as caught:
        _Add(three, node_setup=True, ndparams={"ssh_port": 2222})
    assert "-oPort=2222" in str(caught.value.hint), "the command that was tried, with all that matters"
    assert f"HostKeyAlias={before.cluster.cluster_name}" in str(caught.value.hint)
    assert three.snapshot is before
    three[0].ssh_names.clear()
    node = _Add(three, node_setup=True)
    uuid, name, potential, *flags = three[0].arguments["node_ssh_key_add"]
    assert (uuid, name, flags) == (node.uuid, node.name, [True, True, True])
    assert three[0].calls.count("node_ssh_key_add") == 1
    assert name in potential


def test_hooks_are_told_before_and_after(three: Master) -> None:
    node = _Add(three)
    (phase, env), (post_phase, post_env) = [(run[1], run[2]) for run in three[1].hook_runs]
    assert (phase, post_phase) == ("pre", "post")
    assert env["GANETI_NODE_NAME"] == node.name and env["GANETI_NODE_PIP"] == node.primary_ip
    assert env["GANETI_NODE_SIP"] == SECOND
    assert (env["GANETI_MASTER_CAPABLE"], env["GANETI_VM_CAPABLE"]) == ("True", "True")
    assert env["GANETI_OBJECT_TYPE"] == "NODE" and post_env["GANETI_POST_NODE_NAME"] == node.name
    assert [run[1] for run in three.Spare().hook_runs] == ["post"]


def test_a_node_that_gets_no_copy_is_added_all_the_same(three: Master) -> None:
    three.Spare().faults["node_crypto_tokens"] = "no certificate"
    node = _Add(three)
    assert not node.master_candidate
    assert any(
        "could not be made a master candidate" in text and "no certificate" in text for text in three.last.messages
    )


def test_what_stands_against_adding(three: Master) -> None:
    machine = three.Spare()
    address = machine.name
    _Refused(three, "valid IPv4", errors.ECODE_INVAL, secondary_ip="fe80::1")
    _Refused(three, "doesn't have one", errors.ECODE_INVAL, secondary_ip=None)
    _Refused(three, "conflicts with existing node node2", errors.ECODE_NOTUNIQUE, secondary_ip="198.51.100.2")
    _Refused(three, "cannot contain: exclusive_storage", errors.ECODE_INVAL, ndparams={"exclusive_storage": True})
    _Refused(three, "not in the configuration", errors.ECODE_NOENT, readd=True)
    _Refused(three, "node group", errors.ECODE_INVAL, readd=True, group="default")
    _Refused(three, "'nowhere' not known", errors.ECODE_NOENT, group="nowhere")
    machine.answers["version"] = 1
    _Refused(three, "protocol", errors.ECODE_ENVIRON)
    machine.faults["version"] = "broken"
    _Refused(three, "broken", errors.ECODE_ENVIRON)
    machine.faults.clear()
    machine.answers.clear()
    del machine.machine.addresses[SECOND]
    _Refused(three, "secondary interface", errors.ECODE_ENVIRON)
    machine.machine.addresses[SECOND] = None
    machine.answers["node_verify_light"] = {"node-net-test": {three[0].name: "failure using the primary interface(s)"}}
    _Refused(three, f"Node {address} does not reach the node daemon of {three[0].name}", errors.ECODE_ENVIRON)
    assert address.encode() not in three[0].Read("/etc/hosts") and not machine.Exists(pathutils.SSH_KNOWN_HOSTS_FILE)


def test_the_networks_are_looked_at_from_both_sides(three: Master) -> None:
    _Add(three)
    rows, testers = three[0].arguments["node_verify_light"][0]["node-net-test"]
    assert rows[1] == [three.Spare().name, "192.0.2.13", SECOND] and rows[0][0] == three[0].name
    assert testers == [three[0].name, three.Spare().name]


def test_physical_volumes() -> None:
    def pv(name: str, size: float) -> dict[str, Any]:
        return {"name": name, "vg_name": "xenvg", "size": size}

    fine = [pv("/dev/sda", 1000.0), pv("/dev/sdb", 1010.0)]
    assert PvProblems({"pvlist": fine}, False) == PvProblems({"pvlist": fine}, True) == []
    assert "':' in PV '/dev/a:b'" in PvProblems({"pvlist": [pv("/dev/a:b", 1.0)]}, False)[0]
    different = {"pvlist": [*fine, pv("/dev/sdc", 2000.0)]}
    assert PvProblems(different, False) == []
    assert "different sizes" in PvProblems(different, True)[0]
    assert (
        "shared by unrelated LVs (a, b)"
        in PvProblems({"pvlist": fine, "exclusive-pvs": [["/dev/sda", ["a", "b"]]]}, True)[0]
    )


def test_an_open_vswitch_is_set_up_where_it_is_wanted(three: Master) -> None:
    machine = three.Spare()
    _Add(three, ndparams={"ovs": True, "ovs_name": "sw", "ovs_link": "eth1"})
    assert machine.arguments["node_configure_ovs"] == ("sw", "eth1")


def test_a_failed_set_up_says_what_to_do(three: Master) -> None:
    machine = three.Spare()
    machine.faults["node_configure_ovs"] = "no ovs-vsctl"
    with pytest.raises(errors.OpExecError, match=r"is added, but its Open vSwitch.*--readd.*no ovs-vsctl"):
        _Add(three, ndparams={"ovs": True})
    machine.faults.clear()
    machine.arguments.clear()
    node = _Add(three, readd=True)
    assert node.master_candidate
    assert machine.arguments["node_configure_ovs"] == ("switch1", None), "the command that was advised does the rest"


@pytest.mark.parametrize(
    ("name", "options", "match", "ecode"),
    [
        ("192.0.2.12", {}, "Address 192.0.2.12 conflicts with existing node node2", errors.ECODE_NOTUNIQUE),
        ("192.0.2.11", {}, "Address 192.0.2.11 conflicts with existing node node1", errors.ECODE_NOTUNIQUE),
        ("198.51.100.2", {}, "Address 198.51.100.2 conflicts with existing node node2", errors.ECODE_NOTUNIQUE),
        ("cluster.example.org", {}, "is that of the cluster, cluster.example.org", errors.ECODE_NOTUNIQUE),
        ("203.0.113.7", {}, "which is one of this machine, the master node1", errors.ECODE_NOTUNIQUE),
        ("localhost", {}, "which is one of this machine, the master node1", errors.ECODE_NOTUNIQUE),
        (None, {"secondary_ip": None}, "doesn't have one", errors.ECODE_INVAL),
        (None, {"secondary_ip": "198.51.100.2"}, "conflicts with existing node node2", errors.ECODE_NOTUNIQUE),
        (None, {"group": "nowhere"}, "'nowhere' not known", errors.ECODE_NOENT),
        (None, {"readd": True}, "not in the configuration", errors.ECODE_NOENT),
    ],
)
def test_a_dry_run_finds_what_can_be_found_without_the_machine(
    three: Master, name: str | None, options: dict[str, Any], match: str, ecode: str
) -> None:
    """gnt-node add asks for it before a machine gets new keys: another name of a node, or of the master, is no machine to add."""
    three[0].machine.addresses["203.0.113.7"] = None
    cluster = three.snapshot.cluster
    assert cluster.cluster_name == "cluster.example.org"
    three.world.AddMachine(cluster.cluster_name, cluster.master_ip)
    _Refused(three, match, ecode, node_name=name or three.Spare().name, dry_run=True, **options)
    assert three.Spare().calls == []


def test_a_dry_run_does_not_ask_a_machine_that_is_not_set_up(three: Master) -> None:
    machine = three.Spare()
    machine.faults["version"] = "no node daemon"
    before = three.snapshot
    options = {"node_name": machine.name, "secondary_ip": SECOND, "ndparams": {"ssh_port": 2222}, "group": "default"}
    assert three.Run(opcodes.OpNodeAdd(dry_run=True, **options)) is None
    assert three.snapshot is before and machine.calls == []


def test_a_node_that_is_refused_leaves_no_locks(three: Master) -> None:
    address = three.Spare().name
    free = "192.0.2.99"
    twin = three.snapshot.nodes[three.nodes[1]].Replace(
        name=address, uuid=configs.Uuid(9), master_candidate=False, primary_ip=free, secondary_ip=free
    )
    three[0].before = lambda name, args: three.cfg.AddNode(twin) if name == "etc_hosts_modify" else None
    before = three.glm.Names(locking.LEVEL_NODE)
    with pytest.raises(errors.ConfigurationError, match="this name already"):
        _Add(three)
    assert three.glm.Names(locking.LEVEL_NODE) == three.glm.Names(locking.LEVEL_NODE_RES) == before


def test_a_node_that_does_not_know_this_master_is_not_touched(three: Master) -> None:
    machine = three.Spare()
    machine.faults["store_promise"] = "it cannot be read"
    with pytest.raises(errors.OpExecError, match="is in the configuration now, but it is not set up") as caught:
        _Add(three)
    assert "--readd" in str(caught.value.hint)
    assert "upload_file" not in machine.calls and "write_ssconf_files" not in machine.calls
    machine.faults.clear()
    assert _Add(three, readd=True).master_candidate


# --- taking back --------------------------------------------------------------------------------------------------------


def test_a_repaired_node_is_taken_back(three: Master) -> None:
    node = _Add(three)
    three.cfg.Update(node.Replace(offline=True, master_candidate=False, powered=False))
    assert node.uuid not in _Voters(three) and node.uuid not in three.snapshot.cluster.candidate_certs
    back = _Add(three, readd=True, secondary_ip=None)
    assert (back.uuid, back.offline, back.master_candidate, back.powered) == (node.uuid, False, True, True)
    assert back.uuid in _Voters(three) and back.uuid in three.snapshot.cluster.candidate_certs
    assert back.ctime == node.ctime


def test_a_node_that_comes_back_keeps_its_own_parameters(three: Master) -> None:
    own = {"ssh_port": 2222, "oob_program": "/bin/oob", "spindle_count": 3}
    _Add(three, ndparams=own, node_setup=True)
    back = _Add(three, readd=True, node_setup=True)
    assert dict(back.ndparams) == own
    assert three[0].arguments["node_verify"][0]["nodelist"][3] == {back.name: 2222}
    changed = _Add(three, readd=True, ndparams={"spindle_count": 4, "oob_program": "default"})
    assert dict(changed.ndparams) == {"ssh_port": 2222, "spindle_count": 4}


def test_what_a_lost_machine_had_is_no_longer_accepted_when_another_takes_its_place(three: Master) -> None:
    node = _Add(three, node_setup=True)
    three[0].calls.clear()
    _Add(three, readd=True, node_setup=True)
    assert [name for name in three[0].calls if name.startswith("node_ssh_key_")] == [
        "node_ssh_key_remove",
        "node_ssh_key_add",
    ]
    uuid, name, *_, readd = three[0].arguments["node_ssh_key_remove"]
    assert (uuid, name, readd) == (node.uuid, node.name, True)


def test_a_candidate_with_an_empty_disk_is_copied_anew(three: Master) -> None:
    node = _Add(three)
    Until(three.store.IsSettled)
    three[2].LoseStore()
    back = _Add(three, readd=True)
    assert back.master_candidate and back.uuid in _Voters(three)
    assert ("node", node.uuid) in {(row.kind, row.id) for row in three[2].Rows()}


def test_one_taken_back_as_regular_gives_up_what_candidates_have(three: Master) -> None:
    node = _Add(three)
    back = _Add(three, readd=True, master_capable=False)
    assert not back.master_candidate and back.uuid not in _Voters(three)
    assert node.uuid not in three.snapshot.cluster.candidate_certs
    assert "node_demote_from_mc" in three.Spare().calls


def test_what_stands_against_taking_back(three: Master) -> None:
    _Add(three)
    error = _Refused(three, "already in the configuration", errors.ECODE_EXISTS)
    assert "--readd" in str(error.hint)
    _Refused(three, "same secondary IP", errors.ECODE_INVAL, readd=True, secondary_ip="198.51.100.77")
    node = three.snapshot.NodeByName(three.Spare().name)
    three.cfg.Transact(lambda draft: _MoveWeb(draft, node.uuid))
    _Refused(three, "vm_capable set to false has instances", errors.ECODE_STATE, readd=True, vm_capable=False)


def test_the_master_itself_is_not_taken_back(three: Master) -> None:
    with pytest.raises(errors.OpPrereqError, match="readd the master"):
        three.Run(opcodes.OpNodeAdd(node_name=three[0].name, readd=True))


# --- removing -----------------------------------------------------------------------------------------------------------


def test_a_node_leaves(three: Master) -> None:
    node = _Add(three)
    machine = three.Spare()
    address = machine.name
    machine.hook_runs.clear()
    assert three.Run(opcodes.OpNodeRemove(node_name=address)) is None
    assert node.uuid not in three.snapshot.nodes and node.uuid not in three.snapshot.cluster.candidate_certs
    assert "node_leave_cluster" in machine.calls and not machine.Exists(pathutils.STORE_FILE)
    assert [run[:2] for run in machine.hook_runs] == [("node-remove", "post")]
    assert [run[:2] for run in three[1].hook_runs][-2:] == [("node-remove", "pre"), ("node-remove", "post")]
    for level in (locking.LEVEL_NODE, locking.LEVEL_NODE_RES):
        assert node.uuid not in three.glm.Names(level)
    assert address.encode() not in three[0].Read("/etc/hosts")
    assert f"Removed {address} from {pathutils.ETC_HOSTS} on all nodes" in "\n".join(three.last.messages)
    assert "node_ssh_key_remove" in three[0].calls
    # Another one took its place among the candidates before it went.
    assert three.snapshot.nodes[three.nodes[1]].master_candidate
    assert _Voters(three) == set(three.nodes)


def test_a_dead_node_leaves_too(three: Master) -> None:
    node = _Add(three)
    three[2].machine.PowerOff()
    three.Run(opcodes.OpNodeRemove(node_name=node.name))
    assert node.uuid not in three.snapshot.nodes
    assert any("leaving the cluster" in text for text in three.last.messages)
    assert any("node-cleanup" in text for text in three.last.messages), "and what to do about it"


def test_what_stands_against_removing(three: Master) -> None:
    for name, match, ecode in (
        (three[0].name, "is the master", errors.ECODE_INVAL),
        (three[1].name, "web.example.org", errors.ECODE_INVAL),
        ("nobody", "not known", errors.ECODE_NOENT),
    ):
        before = three.snapshot
        with pytest.raises(errors.OpPrereqError, match=match) as caught:
            three.Run(opcodes.OpNodeRemove(node_name=name))
        assert caught.value.args[1] == ecode and three.snapshot is before


# --- resetting ----------------------------------------------------------------------------------------------------------


def test_a_node_is_reset_without_any_lock(three: Master) -> None:
    waiting: list[Any] = []
    three[1].before = lambda name, args: waiting.extend(row for row in three.glm.QueryLocks() if row.owner)
    answer = three.Run(opcodes.OpNodePowercycle(node_name="node2"))
    assert [row.name for row in waiting] == ["cluster/BGL"] and waiting[0].mode == "shared"
    assert answer.startswith("Reboot")
    assert three[1].arguments["node_powercycle"][0] == three.snapshot.cluster.enabled_hypervisors[0]
    # Also one that is marked offline.
    three.cfg.Update(three.snapshot.nodes[three.nodes[1]].Replace(offline=True))
    assert three.Run(opcodes.OpNodePowercycle(node_name="node2")) == answer
    three[1].faults["node_powercycle"] = "no"
    with pytest.raises(errors.OpExecError, match=r"Failed to schedule the reboot of node node2.*no"):
        three.Run(opcodes.OpNodePowercycle(node_name="node2"))


def test_the_master_is_reset_by_force_only(three: Master) -> None:
    with pytest.raises(errors.OpPrereqError, match="force") as caught:
        three.Run(opcodes.OpNodePowercycle(node_name="node1"))
    assert caught.value.args[1] == errors.ECODE_INVAL and "node_powercycle" not in three[0].calls
    assert three.Run(opcodes.OpNodePowercycle(node_name="node1", force=True))
