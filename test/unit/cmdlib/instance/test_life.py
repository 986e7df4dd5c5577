"""Instances are removed, renamed, reinstalled (doc/reference/drivers.md d.2)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.master import Callbacks, Master

from ganeti import constants, errors, locking, opcodes, runtime

WEB = "web.example.org"
BLOG = "blog.example.org"


def _Stop(master: Master) -> None:
    master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))


@pytest.fixture
def stopped(make: Callable[..., Master]) -> Master:
    return make(2, prepare=_Stop)


@pytest.fixture
def filed(make: Callable[..., Master]) -> Master:
    """A stopped instance with a disk in a file."""
    return make(2, prepare=_MakeFiled)


def _MakeFiled(master: Master) -> None:
    cluster = master.snapshot.cluster
    master.cfg.Update(
        cluster.Replace(
            enabled_disk_templates=["drbd", "file"],
            ipolicy={**cluster.ipolicy, "disk-templates": ["drbd", "file"]},
        )
    )
    master.Run(
        opcodes.OpInstanceCreate(
            instance_name="files.example.org", mode="create", disk_template="file", disks=[{"size": 1024}], nics=[{}],
            os_type="noop", pnode="node1", start=False,
        )
    )  # fmt: skip
    master.Run(opcodes.OpInstanceDeactivateDisks(instance_name="files"))


# --- remove --------------------------------------------------------------------------------------------------------------


@pytest.mark.req("D20-LOCK-19")
def test_removal_leaves_nothing(master: Master) -> None:
    master.Run(opcodes.OpInstanceRemove(instance_name="web"))
    assert master.snapshot.instances == {} and master.snapshot.disks == {}
    assert all(machine.devices == {} and machine.guests == {} for machine in master.machines.values())
    assert list(master.snapshot.cluster.tcpudp_port_pool) == [11000, 11001]
    assert WEB not in master.glm.Names(locking.LEVEL_INSTANCE)
    assert [(path, phase) for path, phase, _ in master[1].hook_runs] == [("instance-remove", "post")]
    env = master[1].hook_runs[0][2]
    assert env["GANETI_INSTANCE_NAME"] == env["GANETI_POST_INSTANCE_NAME"] == WEB


def test_removal_of_files(filed: Master) -> None:
    filed.Run(opcodes.OpInstanceRemove(instance_name="files"))
    assert filed[0].Names("/srv/ganeti/file-storage") == []
    assert not any(key.startswith("file%") for key in filed[0].devices)


def test_what_cannot_be_stopped_or_removed_stays(master: Master) -> None:
    master[0].faults["instance_shutdown"] = "it hangs"
    with pytest.raises(errors.OpExecError, match=r"Instance web.* could not be shut down.*it hangs"):
        master.Run(opcodes.OpInstanceRemove(instance_name=WEB))
    assert master.Instance(WEB) is not None
    del master[0].faults["instance_shutdown"]
    master[1].faults["blockdev_remove"] = "in use"
    with pytest.raises(errors.OpExecError, match="Can't remove the disks"):
        master.Run(opcodes.OpInstanceRemove(instance_name=WEB))
    assert WEB in master.glm.Names(locking.LEVEL_INSTANCE)
    master.Run(opcodes.OpInstanceRemove(instance_name=WEB, ignore_failures=True))
    assert master.snapshot.instances == {}


def test_an_offline_secondary_does_not_hold_a_removal_up(master: Master) -> None:
    master.cfg.Update(master.snapshot.nodes[master.nodes[1]].Replace(offline=True))
    master.Run(opcodes.OpInstanceRemove(instance_name=WEB))
    assert master.snapshot.instances == {} and master[0].devices == {}


# --- rename --------------------------------------------------------------------------------------------------------------


def test_another_name(stopped: Master) -> None:
    assert stopped.Run(opcodes.OpInstanceRename(instance_name=WEB, new_name="Blog.example.org")) == BLOG
    assert stopped.Instance("blog").name == BLOG and stopped.snapshot.InstanceByName(WEB) is None
    assert stopped.glm.Names(locking.LEVEL_INSTANCE) == {BLOG}
    assert {device.info for device in stopped[0].devices.values() if device.info.endswith(BLOG)}
    assert not any(device.assembled for device in stopped[0].devices.values())
    assert stopped[0].renamed == [WEB]
    stopped.Run(opcodes.OpInstanceStartup(instance_name=BLOG))
    assert BLOG in stopped[0].guests
    env = next(env for path, phase, env in stopped[0].hook_runs if path == "instance-rename" and phase == "post")
    assert (env["GANETI_INSTANCE_NEW_NAME"], env["GANETI_POST_INSTANCE_NAME"]) == (BLOG, BLOG)


def test_only_both_names_are_locked_meanwhile(stopped: Master) -> None:
    held: list[str] = []

    def look(name: str, _args: object) -> None:
        if name == "instance_run_rename":
            held.extend(f"{row.name} {row.mode}" for row in stopped.glm.QueryLocks() if row.owner)

    stopped[0].before = look
    stopped.Run(opcodes.OpInstanceRename(instance_name=WEB, new_name=BLOG))
    assert sorted(held) == ["cluster/BGL shared", f"instance/{BLOG} exclusive", f"instance/{WEB} exclusive"]


def test_a_name_that_could_not_be_given_leaves_no_lock(stopped: Master) -> None:
    stopped.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    with pytest.raises(errors.OpPrereqError, match="marked to be up"):
        stopped.Run(opcodes.OpInstanceRename(instance_name=WEB, new_name=BLOG))
    assert stopped.glm.Names(locking.LEVEL_INSTANCE) == {WEB}


def test_files_move_with_the_name(filed: Master) -> None:
    filed.Run(opcodes.OpInstanceRename(instance_name="files", new_name="moved.example.org"))
    (disk,) = filed.snapshot.InstanceDisks(filed.Instance("moved"))
    assert disk.logical_id[1].startswith("/srv/ganeti/file-storage/moved.example.org/")
    assert filed[0].Names("/srv/ganeti/file-storage") == ["moved.example.org"]
    filed.Run(opcodes.OpInstanceStartup(instance_name="moved"))


def test_a_directory_that_keeps_its_name_is_found_again_under_the_old_one(filed: Master) -> None:
    """The same helps if the master died before it renamed the directory."""
    name = filed.Instance("files").name
    filed[0].faults["file_storage_dir_rename"] = "read-only file system"
    with pytest.raises(errors.OpExecError, match=r"renamed in Ganeti.*read-only file system") as caught:
        filed.Run(opcodes.OpInstanceRename(instance_name="files", new_name="moved.example.org"))
    assert f"moved.example.org {name}'" in str(caught.value.hint)
    assert filed[0].Names("/srv/ganeti/file-storage") == [name]
    del filed[0].faults["file_storage_dir_rename"]
    filed.Run(opcodes.OpInstanceRename(instance_name="moved", new_name=name))
    filed.Run(opcodes.OpInstanceStartup(instance_name=name))


TOP = "/srv/ganeti/file-storage"


def test_an_empty_directory_of_the_new_name_is_not_in_the_way(filed: Master) -> None:
    """As one that an older release left when it converted or detached the last disk of an instance of this name."""
    filed[0].Call(runtime.MakeDirs, f"{TOP}/moved.example.org")
    filed.Run(opcodes.OpInstanceRename(instance_name="files", new_name="moved.example.org"))
    assert filed[0].Names(TOP) == ["moved.example.org"]
    filed.Run(opcodes.OpInstanceStartup(instance_name="moved"))


def test_nothing_is_renamed_while_files_lie_where_the_disks_are_to_go(filed: Master) -> None:
    name = filed.Instance("files").name
    filed[0].Call(runtime.MakeDirs, f"{TOP}/moved.example.org")
    filed[0].Call(runtime.WriteFile, f"{TOP}/moved.example.org/precious", b"data")
    with pytest.raises(
        errors.OpExecError, match=r"is in the way .* nothing was changed: .*1 entries left \(precious\)"
    ) as caught:
        filed.Run(opcodes.OpInstanceRename(instance_name="files", new_name="moved.example.org"))
    assert f"'ls -l {TOP}/moved.example.org' on node" in caught.value.hint
    filed.Run(opcodes.OpInstanceStartup(instance_name=name))
    assert filed[0].Names(TOP) == [name, "moved.example.org"]


def test_verify_says_of_a_cut_off_renaming_what_a_start_says(filed: Master) -> None:
    old = filed.Instance("files").name
    filed[0].faults["file_storage_dir_rename"] = "the master died"
    with pytest.raises(errors.OpExecError, match="the master died"):
        filed.Run(opcodes.OpInstanceRename(instance_name="files", new_name="moved.example.org"))
    for messages in (
        lambda: filed.Run(opcodes.OpClusterVerifyGroup(group_name="default")),
        lambda: filed[0].Call(runtime.MakeDirs, f"{TOP}/moved.example.org"),
    ):
        messages()
        [text] = [text for text in filed.last.messages if "not found on this node" in text]
        assert f"the file is '{TOP}/{old}/" in text
        assert f"'mv -T {TOP}/{old} {TOP}/moved.example.org' on this node moves it to its place" in text


def test_a_file_that_stayed_under_the_old_name_is_named_with_the_command_that_moves_it(filed: Master) -> None:
    """The master died before it renamed the directory; nobody must be told to make an empty file."""
    top, old = "/srv/ganeti/file-storage", filed.Instance("files").name
    filed[0].faults["file_storage_dir_rename"] = "the master died"
    with pytest.raises(errors.OpExecError, match="the master died"):
        filed.Run(opcodes.OpInstanceRename(instance_name="files", new_name="moved.example.org"))
    with pytest.raises(errors.OpExecError, match="could not be set up"):
        filed.Run(opcodes.OpInstanceStartup(instance_name="moved"))
    [text] = [text for text in filed.last.messages if "could not be opened" in text]
    assert f"the file is '{top}/{old}/" in text and "recreate-disks" not in text
    assert f"'mv -T {top}/{old} {top}/moved.example.org' on this node" in text
    filed[0].Call(runtime.Rename, f"{top}/{old}", f"{top}/moved.example.org")
    filed.Run(opcodes.OpInstanceStartup(instance_name="moved"))
    filed.Run(opcodes.OpInstanceShutdown(instance_name="moved"))
    # A file that is nowhere may be made again.
    filed[0].Call(runtime.RemoveTree, f"{top}/moved.example.org")
    with pytest.raises(errors.OpExecError, match="could not be set up"):
        filed.Run(opcodes.OpInstanceStartup(instance_name="moved"))
    assert any("file does not exist; is its file system mounted?" in text for text in filed.last.messages)


def test_what_is_said_of_a_lost_file_brings_the_instance_back_with_an_empty_disk(filed: Master) -> None:
    name = filed.Instance("files").name
    filed.Run(opcodes.OpInstanceStartup(instance_name="files"))
    filed[0].Call(runtime.RemoveTree, f"{TOP}/{name}")
    filed.Run(opcodes.OpClusterVerifyGroup(group_name="default"))
    [text] = [text for text in filed.last.messages if "not found on this node" in text]
    assert name in text and text.index("copy it from inside first") < text.index("'gnt-instance shutdown INSTANCE'")
    assert "then 'gnt-instance recreate-disks --disk=0 INSTANCE' makes it again, empty; restore the data" in text
    with pytest.raises(errors.OpPrereqError):
        filed.Run(opcodes.OpInstanceRecreateDisks(instance_name="files", disks=[[0, {}]]))
    filed.Run(opcodes.OpInstanceShutdown(instance_name="files"))
    filed.Run(opcodes.OpInstanceRecreateDisks(instance_name="files", disks=[[0, {}]]))
    filed.Run(opcodes.OpInstanceStartup(instance_name="files"))


def test_a_failing_script_does_not_undo_a_renaming(stopped: Master) -> None:
    stopped[0].faults["instance_run_rename"] = "no such script"
    stopped.Run(opcodes.OpInstanceRename(instance_name=WEB, new_name=BLOG))
    assert any("no such script" in text for text in stopped.last.messages)
    assert stopped.Instance(BLOG).disks_active is False


def test_names_that_cannot_be_taken(stopped: Master) -> None:
    for new_name, match, code in (
        (WEB, "already in the cluster", errors.ECODE_EXISTS),
        ("no way", "Invalid host name", errors.ECODE_INVAL),
    ):
        with pytest.raises(errors.OpPrereqError, match=match) as caught:
            stopped.Run(opcodes.OpInstanceRename(instance_name=WEB, new_name=new_name))
        assert caught.value.args[1] == code
    with pytest.raises(errors.OpPrereqError, match="requires a name check"):
        stopped.Run(opcodes.OpInstanceRename(instance_name=WEB, new_name=BLOG, ip_check=True))
    stopped.Run(opcodes.OpInstanceStartup(instance_name=WEB))
    with pytest.raises(errors.OpPrereqError, match="marked to be up"):
        stopped.Run(opcodes.OpInstanceRename(instance_name=WEB, new_name=BLOG))


def test_a_guest_that_runs_although_it_should_not(stopped: Master) -> None:
    stopped[0].StartGuest(WEB, 512)
    with pytest.raises(errors.OpPrereqError, match="is running on node1"):
        stopped.Run(opcodes.OpInstanceRename(instance_name=WEB, new_name=BLOG))


# --- reinstall -----------------------------------------------------------------------------------------------------------


def test_the_same_system_again(stopped: Master) -> None:
    stopped.Run(opcodes.OpInstanceReinstall(instance_name=WEB))
    assert stopped[0].installed == [(WEB, True, {"mirror": "http://deb.example.org"})]
    assert not any(device.assembled for device in stopped[0].devices.values())
    assert stopped.Instance(WEB).disks_active is False


def test_another_system_is_remembered(stopped: Master) -> None:
    stopped.Run(
        opcodes.OpInstanceReinstall(
            instance_name=WEB, os_type="noop", osparams={"a": "1"}, osparams_private={"b": "2"}, osparams_secret={"c": "3"}
        )
    )  # fmt: skip
    web = stopped.Instance(WEB)
    assert (web.os, dict(web.osparams), dict(web.osparams_private)) == ("noop", {"a": "1"}, {"b": "2"})
    assert stopped[0].installed == [(WEB, True, {"a": "1", "b": "2", "c": "3"})]


def test_disks_go_down_after_a_failed_installation(stopped: Master) -> None:
    stopped[0].faults["instance_os_add"] = "broken image"
    with pytest.raises(errors.OpExecError, match=r"Could not install OS.*broken image"):
        stopped.Run(opcodes.OpInstanceReinstall(instance_name=WEB))
    assert stopped.Instance(WEB).disks_active is False
    assert not any(device.assembled for device in stopped[0].devices.values())


def test_when_there_is_nothing_to_install_on(master: Master) -> None:
    with pytest.raises(errors.OpPrereqError, match="marked to be up"):
        master.Run(opcodes.OpInstanceReinstall(instance_name=WEB))
    master.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    with pytest.raises(errors.OpPrereqError, match="OS suse not found"):
        master.Run(opcodes.OpInstanceReinstall(instance_name=WEB, os_type="suse"))
    assert master.Instance(WEB).admin_state == constants.ADMINST_DOWN and master[0].installed == []


def test_a_mistake_is_found_while_the_guest_runs(master: Master) -> None:
    """The check before the guest is stopped changes nothing, and does not ask for a stopped guest."""
    before = master.Instance(WEB)
    with pytest.raises(errors.OpPrereqError, match="OS suse not found"):
        master.Run(opcodes.OpInstanceReinstall(instance_name=WEB, os_type="suse", check_only=True))
    master.Run(opcodes.OpInstanceReinstall(instance_name=WEB, os_type="noop", osparams={"a": "1"}, check_only=True))
    assert master.Instance(WEB) == before
    assert master[0].installed == []


@pytest.mark.parametrize("name", [WEB, "files.example.org"])
def test_another_instance_that_got_the_name_is_not_shown(filed: Master, name: str) -> None:
    """What a job was submitted for is looked up once; who asked for it may see nothing else."""

    class Swaps(Callbacks):
        def NotifyStart(self) -> None:
            with filed.Elsewhere():
                for old, new in ((WEB, "old.example.org"), ("files.example.org", WEB)):
                    filed.cfg.RenameInstance(filed.Instance(old).uuid, new)

    asked = filed.Instance(name).uuid
    assert filed.Run(opcodes.OpInstanceQueryData(instances=[asked], static=True), Swaps()) == {}
