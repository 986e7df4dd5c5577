"""Failing over and migrating (doc/reference/drivers.md d.3)."""

from __future__ import annotations

from typing import Any

import pytest
from support.configs import WEB_DISK
from support.master import KilledInPause, Master
from support.standinlvm import StandInLvm
from support.writers import InFiles

from ganeti import errors, opcodes, pathutils, runtime
from ganeti.params import runstate

WEB = "web.example.org"
DRBD = f"mirror%{WEB_DISK}"
DEGRADED = {"is_degraded": True}


def _Primary(master: Master, name: str = WEB) -> int:
    return master.nodes.index(master.Instance(name).primary_node)


def _SetNode(master: Master, number: int, **values: Any) -> None:
    master.cfg.Update(master.snapshot.nodes[master.nodes[number]].Replace(**values))


def _Served(master: Master, number: int, *names: str) -> list[str]:
    return [name for name in master[number].calls if name in names]


@pytest.fixture
def shared(make: Any) -> Master:
    """Three nodes; a running instance with a disk that all of them reach."""
    master: Master = make(3, prepare=_MakeShared)
    return master


def _MakeShared(master: Master) -> None:
    cluster = master.snapshot.cluster
    master.cfg.Update(
        cluster.Replace(
            enabled_disk_templates=["drbd", "rbd"], ipolicy={**cluster.ipolicy, "disk-templates": ["drbd", "rbd"]}
        )
    )
    master.Run(
        opcodes.OpInstanceCreate(
            instance_name="far.example.org", mode="create", disk_template="rbd", disks=[{"size": 1024}], nics=[{}],
            os_type="noop", pnode="node1",
        )
    )  # fmt: skip
    (disk,) = master.snapshot.InstanceDisks(master.Instance("far"))
    for node in master.all[1:]:
        node.MakeStorage(disk)


# --- fail-over -----------------------------------------------------------------------------------------------------------


def test_failover_of_a_running_instance(master: Master) -> None:
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert _Primary(master) == 1
    assert WEB in master[1].guests and WEB not in master[0].guests
    assert master[1].devices[DRBD].open and not master[0].devices[DRBD].open
    web = master.Instance(WEB)
    assert (web.admin_state, web.disks_active) == ("up", True)
    assert master.snapshot.SecondaryNodes(web) == (master.nodes[0],)
    # And back again: the mirror's identity never changes.
    identity = master.snapshot.InstanceDisks(web)[0].logical_id
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert _Primary(master) == 0 and master.snapshot.InstanceDisks(web)[0].logical_id == identity


def test_environment_of_a_failover(master: Master) -> None:
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB, shutdown_timeout=30))
    runs = [(phase, env) for path, phase, env in master[0].hook_runs if path == "instance-failover"]
    assert [phase for phase, _ in runs] == ["pre", "post"]
    expected = {
        "GANETI_OLD_PRIMARY": "node1.example.org",
        "GANETI_NEW_PRIMARY": "node2.example.org",
        "GANETI_OLD_SECONDARY": "node2.example.org",
        "GANETI_NEW_SECONDARY": "node1.example.org",
        "GANETI_IGNORE_CONSISTENCY": "False",
        "GANETI_FAILOVER_CLEANUP": "False",
        "GANETI_SHUTDOWN_TIMEOUT": "30",
        "GANETI_INSTANCE_PRIMARY": "node1.example.org",
    }
    for _, env in runs:
        assert {name: env[name] for name in expected} == expected
    assert runs[1][1]["GANETI_POST_INSTANCE_PRIMARY"] == "node2.example.org"
    assert runs[1][1]["GANETI_POST_OLD_PRIMARY"] == "node1.example.org"


def test_failover_of_a_stopped_instance_only_moves_it(master: Master) -> None:
    master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    master[1].SetMemory(1024)
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert _Primary(master) == 1 and master[1].guests == {}
    assert master.Instance(WEB).admin_state == "down"


def test_failover_from_a_dead_node(master: Master) -> None:
    # The first node is the master, so the second one dies.
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert _Primary(master) == 1
    master[1].Stop()
    with pytest.raises(errors.GenericError, match="node2"):
        master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert _Primary(master) == 1
    _SetNode(master, 1, offline=True, master_candidate=False)
    master[0].SetMirrors(DEGRADED)
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert _Primary(master) == 0 and WEB in master[0].guests
    assert any("Ignoring degraded disk disk/0" in text for text in master.last.messages)


def test_degraded_disks_stop_a_failover(master: Master) -> None:
    master[1].SetMirrors(DEGRADED)
    with pytest.raises(errors.OpExecError, match=r"Disk disk/0 is degraded.*node2"):
        master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert _Primary(master) == 0 and WEB in master[0].guests
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB, ignore_consistency=True))
    assert _Primary(master) == 1


def test_what_does_not_stop_stops_a_failover(master: Master) -> None:
    master[0].faults["instance_shutdown"] = "it hangs"
    with pytest.raises(errors.OpExecError, match="could not be shut down") as caught:
        master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert "gnt-node modify --offline yes node1" in (caught.value.hint or "")
    assert _Primary(master) == 0 and WEB not in master[1].guests


@pytest.mark.parametrize("kind", [opcodes.OpInstanceFailover, opcodes.OpInstanceMigrate])
def test_the_target_must_be_fit(master: Master, kind: Any) -> None:
    master[1].SetMemory(1100)
    with pytest.raises(errors.OpPrereqError, match="Not enough memory on node node2"):
        master.Run(kind(instance_name=WEB))
    master[1].SetMemory(32768)
    master[1].Call(runtime.RemoveTree, "/sys/class/net/br0")
    with pytest.raises(errors.OpPrereqError, match="Missing bridges"):
        master.Run(kind(instance_name=WEB))
    master[1].Call(runtime.MakeDirs, "/sys/class/net/br0/bridge")
    _SetNode(master, 1, drained=True)
    with pytest.raises(errors.OpPrereqError, match="drained node node2"):
        master.Run(kind(instance_name=WEB))
    with pytest.raises(errors.OpPrereqError, match=r"Node node1\S* is the primary node of instance \S* already"):
        master.Run(kind(instance_name=WEB, target_node="node1"))
    assert _Primary(master) == 0 and WEB in master[0].guests


@pytest.fixture
def filed(make: Any) -> Master:
    """The instance has its disk in a file of its node."""
    master: Master = make(2, change=InFiles)
    return master


def test_disks_on_one_node_only(filed: Master) -> None:
    for op in (opcodes.OpInstanceFailover(instance_name=WEB), opcodes.OpInstanceMigrate(instance_name=WEB)):
        with pytest.raises(errors.OpPrereqError, match="disks are on one node only"):
            filed.Run(op)


def test_any_node_for_disks_that_all_reach(shared: Master) -> None:
    shared.cfg.Update(shared.snapshot.cluster.Replace(default_iallocator=""))
    with pytest.raises(errors.OpPrereqError, match="no cluster-wide default"):
        shared.Run(opcodes.OpInstanceFailover(instance_name="far"))
    with pytest.raises(errors.OpPrereqError, match="to its primary node"):
        shared.Run(opcodes.OpInstanceFailover(instance_name="far", target_node="node1"))
    shared.Run(opcodes.OpInstanceFailover(instance_name="far", target_node="node3"))
    assert _Primary(shared, "far") == 2 and "far.example.org" in shared[2].guests
    shared.Run(opcodes.OpInstanceMigrate(instance_name="far", target_node="node2"))
    assert _Primary(shared, "far") == 1 and "far.example.org" in shared[1].guests
    env = next(env for path, _, env in shared[1].hook_runs if path == "instance-migrate")
    assert (env["GANETI_NEW_PRIMARY"], env["GANETI_NEW_SECONDARY"]) == ("node2.example.org", "")


@pytest.mark.parametrize("cleanup", [False, True])
def test_a_third_node_that_does_not_answer_keeps_no_migration_from_its_end(shared: Master, cleanup: bool) -> None:
    """Nobody has looked whether the guest runs there, as a warning says; it was not asked to close disks that it never had open."""
    shared.Run(opcodes.OpInstanceMigrate(instance_name="far", cleanup=True))  # every node has confirmed this master
    shared[2].Stop()
    target = {} if cleanup else {"target_node": "node2"}
    shared.Run(opcodes.OpInstanceMigrate(instance_name="far", cleanup=cleanup, **target))
    assert _Primary(shared, "far") == (0 if cleanup else 1)
    assert "Node node3.example.org does not answer" in " ".join(shared.last.messages)


def test_a_node_that_migrates_must_close_its_disks(shared: Master) -> None:
    """Its daemon ends after the guest has arrived: what to do is said, and done again it comes to its end."""
    far = "far.example.org"

    def end(name: str, args: tuple[object, ...]) -> None:
        if name == "blockdev_close":
            shared[0].Stop()

    shared[0].before = end
    with pytest.raises(errors.OpExecError, match="disks on node node1") as caught:
        shared.Run(opcodes.OpInstanceMigrate(instance_name="far", target_node="node2"))
    assert "start the node daemon of node1.example.org, or, if that node is off, use 'gnt-node modify" in str(
        caught.value
    )
    assert str(caught.value).endswith(f"; after that, use 'gnt-instance migrate --cleanup {far}'")
    assert _Primary(shared, "far") == 1
    shared[0].before = lambda name, args: None
    shared[0].Start()
    shared.Run(opcodes.OpInstanceMigrate(instance_name="far", cleanup=True))


def test_a_node_that_answers_is_not_said_to_be_off(shared: Master) -> None:
    shared[0].faults["blockdev_close"] = "the pool is damaged"
    with pytest.raises(
        errors.OpExecError, match=r"the pool is damaged; use 'gnt-instance migrate --cleanup far.example.org'$"
    ):
        shared.Run(opcodes.OpInstanceMigrate(instance_name="far", target_node="node2"))


def test_another_groups_policy(shared: Master) -> None:
    group = next(iter(shared.snapshot.nodegroups.values()))
    strict = shared.cfg.AddNodeGroup(
        group.Replace(name="strict", uuid="00000088-aaaa-4bbb-8ccc-000000000088", ipolicy={"disk-templates": ["drbd"]})
    )
    shared.glm._sets[3].add(strict.uuid)
    shared.cfg.AssignGroupNodes([(shared.nodes[2], strict.uuid)])
    with pytest.raises(errors.OpPrereqError, match="policy of node group strict: Disk template rbd is not allowed"):
        shared.Run(opcodes.OpInstanceFailover(instance_name="far", target_node="node3"))
    shared.Run(opcodes.OpInstanceFailover(instance_name="far", target_node="node3", ignore_ipolicy=True))
    assert _Primary(shared, "far") == 2


# --- migration -----------------------------------------------------------------------------------------------------------


def test_migration(master: Master) -> None:
    for machine in master.machines.values():
        machine.calls.clear()
    master.Run(opcodes.OpInstanceMigrate(instance_name=WEB))
    assert _Primary(master) == 1
    assert WEB in master[1].guests and WEB not in master[0].guests and master[1].incoming == []
    assert master[1].devices[DRBD].open and not master[0].devices[DRBD].open
    names = (
        "drbd_attach_net",
        "accept_instance",
        "instance_migrate",
        "instance_end_sent",
        "blockdev_close",
    )
    assert _Served(master, 0, *names) == [
        "drbd_attach_net",
        "instance_migrate",
        "instance_end_sent",
        "blockdev_close",
        "drbd_attach_net",
    ]
    assert master[0].devices[DRBD].link == master[1].devices[DRBD].link == "connected"
    assert master[0].arguments["instance_migrate"][2:] == ("198.51.100.2", True)


def test_mode_of_a_migration(master: Master) -> None:
    with pytest.raises(errors.OpPrereqError, match="Only one of the 'live' and 'mode'"):
        master.Run(opcodes.OpInstanceMigrate(instance_name=WEB, live=True, mode="live"))
    master.Run(opcodes.OpInstanceMigrate(instance_name=WEB, live=False))
    assert master[0].arguments["instance_migrate"][3] is False
    cluster = master.snapshot.cluster
    master.cfg.Update(
        cluster.Replace(hvparams={**cluster.hvparams, "kvm": {**cluster.hvparams["kvm"], "migration_mode": "non-live"}})
    )
    master.Run(opcodes.OpInstanceMigrate(instance_name=WEB))
    assert master[1].arguments["instance_migrate"][3] is False
    master.Run(opcodes.OpInstanceMigrate(instance_name=WEB, mode="live"))
    assert master[0].arguments["instance_migrate"][3] is True


@pytest.mark.parametrize("where", ["accept_instance", "instance_migrate", "status"])
def test_a_failed_migration_leaves_the_guest_where_it_was(master: Master, where: str) -> None:
    if where == "status":
        master[0].FailMigrations()
    else:
        master[1 if where == "accept_instance" else 0].faults[where] = "no way"
    with pytest.raises(errors.OpExecError, match=r"Could not migrate instance web.*; it stays on node1"):
        master.Run(opcodes.OpInstanceMigrate(instance_name=WEB))
    assert _Primary(master) == 0
    assert WEB in master[0].guests and WEB not in master[1].guests and master[1].incoming == []
    assert master[0].devices[DRBD].open and not master[1].devices[DRBD].open
    assert master[0].devices[DRBD].link == master[1].devices[DRBD].link == "connected"


def test_a_migration_without_end_is_ended_by_a_kill(master: Master) -> None:
    master[0].FailMigrations()
    master[0].answers["instance_get_migration_status"] = {"status": "active"}
    with pytest.raises(errors.OpExecError, match="ended with 'gnt-job cancel --kill'; it stays on node1"):
        master.Run(opcodes.OpInstanceMigrate(instance_name=WEB), KilledInPause())
    assert _Primary(master) == 0 and WEB in master[0].guests and master[1].incoming == []
    assert master[0].devices[DRBD].open and not master[1].devices[DRBD].open


def test_migration_that_ends_half_way_is_finished_by_the_command_that_the_error_names(master: Master) -> None:
    master[0].faults["instance_end_sent"] = "lost it"
    with pytest.raises(
        errors.OpExecError, match=r"node1.*lost it; use 'gnt-instance migrate --cleanup web.example.org'"
    ):
        master.Run(opcodes.OpInstanceMigrate(instance_name=WEB))
    # The guest runs on the second node, and the configuration says so.
    assert _Primary(master) == 1 and WEB in master[1].guests
    assert master[0].devices[DRBD].open
    del master[0].faults["instance_end_sent"]
    master.Run(opcodes.OpInstanceMigrate(instance_name=WEB, cleanup=True))
    assert _Primary(master) == 1 and WEB not in master[0].guests
    assert not master[0].devices[DRBD].open and master[1].devices[DRBD].link == "connected"


def test_guests_shrink_to_fit(master: Master) -> None:
    web = master.Instance(WEB)
    master.cfg.Update(web.Replace(beparams={"minmem": 256, "maxmem": 512}))
    master[1].SetMemory(1024 + 300)
    with pytest.raises(errors.OpExecError, match="have 300 MiB, need 512 MiB"):
        master.Run(opcodes.OpInstanceMigrate(instance_name=WEB, allow_runtime_changes=False))
    master.Run(opcodes.OpInstanceMigrate(instance_name=WEB))
    assert master[1].guests[WEB] == 300


def test_what_does_not_run_can_only_be_failed_over(master: Master) -> None:
    master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    with pytest.raises(errors.OpPrereqError, match="Can't migrate, please use failover"):
        master.Run(opcodes.OpInstanceMigrate(instance_name=WEB))
    master.Run(opcodes.OpInstanceMigrate(instance_name=WEB, allow_failover=True))
    assert _Primary(master) == 1
    assert any("switching to failover" in text for text in master.last.messages)
    master.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    master[1].KillGuest(WEB)
    master.Run(opcodes.OpInstanceMigrate(instance_name=WEB, allow_failover=True))
    assert _Primary(master) == 0 and WEB in master[0].guests


def test_some_instances_are_always_failed_over(master: Master) -> None:
    web = master.Instance(WEB)
    master.cfg.Update(web.Replace(beparams={**web.beparams, "always_failover": True}))
    master.Run(opcodes.OpInstanceMigrate(instance_name=WEB))
    assert _Primary(master) == 1 and "instance_migrate" not in master[0].calls


@pytest.mark.parametrize(("target", "fine"), [("8.2", True), ("9.0", True), ("7.2", False)])
def test_versions_of_hypervisors(master: Master, target: str, fine: bool) -> None:
    master[1].SetHypervisorVersion(target)
    op = opcodes.OpInstanceMigrate(instance_name=WEB)
    if fine:
        master.Run(op)
    else:
        with pytest.raises(errors.OpExecError, match=r"is older \(7.2\)"):
            master.Run(op)
        assert _Primary(master) == 0
        master.Run(opcodes.OpInstanceMigrate(instance_name=WEB, ignore_hvversions=True))
    assert _Primary(master) == 1


# --- clean-up ------------------------------------------------------------------------------------------------------------


def _Sent(master: Master) -> None:
    """The first node has sent the guest, and the second one runs it: nobody has noticed."""
    master[0].StartGuest(WEB, state=runstate.SENT)
    master[1].StartGuest(WEB)


def test_cleanup_finds_the_guest(master: Master) -> None:
    master.Run(opcodes.OpInstanceMigrate(instance_name=WEB, cleanup=True))
    assert _Primary(master) == 0 and master[0].devices[DRBD].link == "connected"
    master[0].KillGuest(WEB)
    with pytest.raises(errors.OpExecError, match=r"it does not run on any node.*gnt-instance startup web.example.org'"):
        master.Run(opcodes.OpInstanceMigrate(instance_name=WEB, cleanup=True))
    master[1].StartGuest(WEB)
    master.Run(opcodes.OpInstanceMigrate(instance_name=WEB, cleanup=True))
    assert _Primary(master) == 1


def test_cleanup_takes_the_copy_that_arrived_not_the_one_that_was_sent(master: Master) -> None:
    _Sent(master)
    master.Run(opcodes.OpInstanceMigrate(instance_name=WEB, cleanup=True))
    assert _Primary(master) == 1 and WEB in master[1].guests and WEB not in master[0].guests
    assert master[1].devices[DRBD].open and not master[0].devices[DRBD].open


def test_cleanup_ends_what_never_arrived(master: Master) -> None:
    master[1].StartGuest(WEB, state=runstate.ARRIVING)
    master.Run(opcodes.OpInstanceMigrate(instance_name=WEB, cleanup=True))
    assert _Primary(master) == 0 and WEB in master[0].guests and not master[1].incoming


def test_two_running_copies_are_left_to_the_administrator(master: Master) -> None:
    master[1].StartGuest(WEB)
    keep = r"'gnt-instance migrate --cleanup --keep node{}.example.org web.example.org'"
    with pytest.raises(errors.OpExecError, match=f"{keep.format(1)}.*{keep.format(2)}") as caught:
        master.Run(opcodes.OpInstanceMigrate(instance_name=WEB, cleanup=True))
    assert "node1.example.org (primary node): running; node2.example.org: running" in str(caught.value)
    assert WEB in master[0].guests and WEB in master[1].guests
    for op in (opcodes.OpInstanceStartup, opcodes.OpInstanceShutdown, opcodes.OpInstanceFailover):
        with pytest.raises(errors.OpPrereqError, match=r"runs on node1.example.org and node2.example.org"):
            master.Run(op(instance_name=WEB))
    master.Run(opcodes.OpInstanceMigrate(instance_name=WEB, cleanup=True, keep_node="node2"))
    assert _Primary(master) == 1 and WEB in master[1].guests and WEB not in master[0].guests


def test_what_can_be_kept(master: Master) -> None:
    with pytest.raises(errors.OpPrereqError, match=r"only be named together with 'cleanup'"):
        master.Run(opcodes.OpInstanceMigrate(instance_name=WEB, keep_node="node1"))
    with pytest.raises(errors.OpPrereqError, match=r"Node node2.example.org has no copy of instance web.example.org"):
        master.Run(opcodes.OpInstanceMigrate(instance_name=WEB, cleanup=True, keep_node="node2"))
    assert WEB in master[0].guests


@pytest.mark.parametrize("kind", [opcodes.OpInstanceStartup, opcodes.OpInstanceShutdown, opcodes.OpInstanceMigrate])
def test_nobody_believes_the_configuration(master: Master, kind: Any) -> None:
    """After a migration that was cut off the guest runs on the other node: a start here would be a second one."""
    for prepare in (_Sent, lambda master: master[0].KillGuest(WEB)):
        prepare(master)
        with pytest.raises(errors.OpPrereqError, match=r"it runs on node2.*use 'gnt-instance migrate --cleanup web"):
            master.Run(kind(instance_name=WEB))
        assert "instance_start" not in master[0].calls and WEB in master[1].guests


def test_failover_to_where_the_guest_is_only_settles_that(master: Master) -> None:
    _Sent(master)
    master.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert _Primary(master) == 1 and WEB in master[1].guests and WEB not in master[0].guests
    assert "instance_shutdown" not in master[1].calls


def test_cleanup_of_a_disk_that_all_reach_needs_no_target(shared: Master) -> None:
    name = "far.example.org"
    shared[0].KillGuest(name)
    shared[2].StartGuest(name)
    shared.Run(opcodes.OpInstanceMigrate(instance_name="far", cleanup=True))
    assert _Primary(shared, "far") == 2


# --- to any node ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def trio(make: Any) -> Master:
    master: Master = make(3)
    for node in master.all:
        node.answers["vg_list"] = {"xenvg": 100_000.0}
        StandInLvm(node.machine).AddPv("/dev/sda", "xenvg", 102_400)
    return master


def _Volumes(master: Master, number: int) -> list[str]:
    return [name for name in master[number].devices if name.startswith("plain%") and "disk0" in name]


class _Filling:
    """A new copy that is being filled until somebody has looked three times how far it is."""

    def __init__(self, master: Master):
        self.seen: list[tuple[str, bool]] = []
        self._looks: int | None = None
        self._master = master
        for node in master.all:
            node.before = self._Before

    def _Before(self, name: str, _args: Any) -> None:
        if name == "drbd_attach_net" and self._looks is None:
            self._looks = 0
            self._Show(sync_percent=12.5, estimated_time=1.0, is_degraded=True)
        elif name == "blockdev_getmirrorstatus" and self.filling:
            self._looks = (self._looks or 0) + 1
            if not self.filling:
                self._Show()
        elif name in ("instance_start", "blockdev_remove"):
            self.seen.append((name, self.filling))

    @property
    def filling(self) -> bool:
        return self._looks is not None and self._looks < 3

    def _Show(self, **state: Any) -> None:
        for node in self._master.all:
            node.SetMirrors(state)


@pytest.mark.req("D20-FOA-04", "D20-FOA-06")
def test_the_guest_does_not_wait_for_its_new_copy_but_the_old_one_does(trio: Master) -> None:
    copy = _Filling(trio)
    trio.Run(opcodes.OpInstanceFailover(instance_name=WEB, target_node="node3"))
    assert copy.seen[0] == ("instance_start", True), "it starts while it is being filled"
    removed = copy.seen[1:]
    assert len(removed) == 2 and set(removed) == {("blockdev_remove", False)}, "nothing goes before it is complete"
    assert WEB in trio[2].guests and _Volumes(trio, 1) == []


def _IsLinked(master: Master, number: int) -> bool:
    """Whether a hypervisor of the node finds the disk."""
    return master[number].machine.disk.Lookup(pathutils.InstanceDiskLink(WEB, 0), follow=False) is not None


@pytest.mark.req("D20-FOA-01")
def test_a_failover_to_a_third_node_starts_while_the_new_copy_is_filled(trio: Master) -> None:
    started: list[tuple[str, list[str]]] = []
    trio[2].before = lambda name, args: started.append((name, _Volumes(trio, 1))) if name == "instance_start" else None
    trio.Run(opcodes.OpInstanceFailover(instance_name=WEB, target_node="node3"))
    web = trio.Instance(WEB)
    assert (web.primary_node, trio.snapshot.SecondaryNodes(web)) == (trio.nodes[2], (trio.nodes[0],))
    assert WEB in trio[2].guests and WEB not in trio[0].guests
    assert trio[2].devices[DRBD].open and not trio[0].devices[DRBD].open
    assert [_IsLinked(trio, number) for number in range(3)] == [False, False, True]
    [(_, left)] = started
    assert len(left) == 2, "the copy that is given up is there until the new one is complete"
    assert _Volumes(trio, 1) == [] and DRBD not in trio[1].devices
    assert trio.snapshot.disks[WEB_DISK].behind is None
    env = next(env for path, phase, env in trio[0].hook_runs if (path, phase) == ("instance-failover", "post"))
    assert (env["GANETI_OLD_SECONDARY"], env["GANETI_NEW_SECONDARY"]) == ("node2.example.org", "node1.example.org")


@pytest.mark.req("D20-FOA-02")
def test_a_failover_from_a_dead_node_to_a_third_one_keeps_the_old_secondary(trio: Master) -> None:
    trio.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    trio[1].Stop()
    _SetNode(trio, 1, offline=True)
    with pytest.raises(errors.OpPrereqError, match="offline"):
        trio.Run(opcodes.OpInstanceMigrate(instance_name=WEB, target_node="node3"))
    trio.Run(opcodes.OpInstanceFailover(instance_name=WEB, target_node="node3"))
    web = trio.Instance(WEB)
    assert (web.primary_node, trio.snapshot.SecondaryNodes(web)) == (trio.nodes[2], (trio.nodes[0],))
    assert WEB in trio[2].guests and trio.snapshot.disks[WEB_DISK].behind is None


@pytest.mark.req("D20-FOA-02")
@pytest.mark.parametrize("op", [opcodes.OpInstanceFailover, opcodes.OpInstanceMigrate])
def test_a_move_to_a_third_node_keeps_the_old_primary_where_the_old_secondary_is_dead(trio: Master, op: Any) -> None:
    trio[1].Stop()
    _SetNode(trio, 1, offline=True)
    trio.Run(op(instance_name=WEB, target_node="node3"))
    web = trio.Instance(WEB)
    assert (web.primary_node, trio.snapshot.SecondaryNodes(web)) == (trio.nodes[2], (trio.nodes[0],))
    assert WEB in trio[2].guests and trio.snapshot.disks[WEB_DISK].behind is None


@pytest.mark.req("D20-FOA-08")
def test_a_migration_to_a_third_node_keeps_the_old_primary(trio: Master) -> None:
    trio.Run(opcodes.OpInstanceMigrate(instance_name=WEB, target_node="node3"))
    web = trio.Instance(WEB)
    assert (web.primary_node, trio.snapshot.SecondaryNodes(web)) == (trio.nodes[2], (trio.nodes[0],))
    assert WEB in trio[2].guests and _Volumes(trio, 1) == []


def test_a_failover_to_a_third_node_that_fails_leaves_the_complete_copy_primary(trio: Master) -> None:
    trio[2].faults["instance_start"] = "no memory"
    with pytest.raises(errors.OpExecError, match="its complete copy is on node1") as caught:
        trio.Run(opcodes.OpInstanceFailover(instance_name=WEB, target_node="node3"))
    assert f"gnt-instance startup {WEB}" in str(caught.value.hint)
    web = trio.Instance(WEB)
    assert (web.primary_node, trio.snapshot.SecondaryNodes(web)) == (trio.nodes[0], (trio.nodes[2],))
    assert not any(_IsLinked(trio, number) for number in range(3))
    trio.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    assert WEB in trio[0].guests


def test_a_copy_that_is_behind_is_not_kept(trio: Master) -> None:
    trio.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    trio.cfg.SetDisksBehind([WEB_DISK], trio.nodes[0])
    _SetNode(trio, 1, offline=True)
    with pytest.raises(
        errors.OpPrereqError, match=r"cannot be moved: the copy of disk/0 on node node1\S* has been behind"
    ):
        trio.Run(opcodes.OpInstanceFailover(instance_name=WEB, target_node="node3", ignore_consistency=True))


@pytest.mark.req("D20-FOA-05")
def test_the_start_on_a_third_node_can_be_put_off_until_the_copy_is_complete(trio: Master) -> None:
    replace = opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode="replace_new_secondary", remote_node="node3")
    copy = _Filling(trio)
    trio.Run(replace)
    assert not copy.filling and WEB in trio[0].guests, (
        "the job ends when the copy is complete, and the guest runs meanwhile"
    )
    trio.Run(opcodes.OpInstanceFailover(instance_name=WEB))
    assert copy.seen == [("blockdev_remove", False)] * 2 + [("instance_start", False)]
    assert WEB in trio[2].guests and _Primary(trio) == 2


def test_a_guest_is_not_stopped_for_a_target_without_room(trio: Master) -> None:
    group = StandInLvm(trio[2].machine)
    for size, match in ((10_240, "Not enough disk space on target node node3"), (0, "did not report the free space")):
        group.pvs.clear()
        if size:
            group.AddPv("/dev/sda", "xenvg", size)
        for op in (opcodes.OpInstanceFailover, opcodes.OpInstanceMigrate):
            with pytest.raises(errors.OpPrereqError, match=match):
                trio.Run(op(instance_name=WEB, target_node="node3"))
    assert WEB in trio[0].guests and "instance_shutdown" not in trio[0].calls
