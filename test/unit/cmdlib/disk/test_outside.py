"""Instances on storage of others, from the request to the programs on the nodes (doc/reference/drivers.md a.3).

Master, node daemons and drivers are real; programs stand in for Ceph, Gluster and a provider's scripts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from simulated import Invocation
from simulated.disk import Device
from support import drivers, standinstorage
from support.master import Master
from support.simnode import FILE_FOLDER, SHARED_FOLDER, FilesBelow

from ganeti import errors, objects, opcodes, pathutils, runtime, storage

NEW, OTHER = "new.example.org", "other.example.org"
LUN = "/dev/disk/by-id/lun"
_REAL = ("blockdev", "rbd", "gluster", "ext")
_TEMPLATES = [*_REAL, "file", "sharedfile", "diskless", "plain", "drbd"]
_REQUEST: dict[str, dict[str, Any]] = {
    "blockdev": {"adopt": f"{LUN}0"},
    "ext": {"size": 1024, "provider": "san", "tier": "fast"},
}
_MIB = 1 << 20


class Site:
    """A cluster of two nodes whose storage is elsewhere."""

    def __init__(self, master: Master):
        self.master = master
        self.ceph = standinstorage.Ceph()
        self.gluster = standinstorage.Gluster()
        self.san = standinstorage.Provider("san")
        for node in master.all:
            machine = node.machine
            standinstorage.AddBlockTools(machine)
            for service in (self.ceph, self.gluster, self.san):
                service.Join(machine)
            for number in range(2):
                standinstorage.AddDevice(machine, f"{LUN}{number}", 1024 * _MIB)

    def Create(self, template: str, name: str = NEW, **values: Any) -> None:
        defaults: dict[str, Any] = {
            "disks": [] if template == "diskless" else [_REQUEST.get(template, {"size": 1024})],
            "nics": [{}],
            "os_type": "debian+minimal",
            "pnode": "node1",
        }
        self.master.Run(
            opcodes.OpInstanceCreate(
                instance_name=name, mode="create", disk_template=template, **{**defaults, **values}
            )
        )

    def Do(self, op: str, **values: Any) -> Any:
        return self.master.Run(getattr(opcodes, f"OpInstance{op}")(instance_name=values.pop("name", NEW), **values))

    def Disks(self, name: str = NEW) -> tuple[objects.Disk, ...]:
        return self.master.snapshot.InstanceDisks(self.master.Instance(name))

    def Held(self, number: int) -> list[str]:
        """What a node has attached or mapped."""
        machine = self.master[number].machine
        san = self.master[number].Names("/dev/san")
        return sorted([*(name for _, name in self.ceph.mapped[machine.name].values()), *san])

    def Stored(self) -> list[str]:
        """All that exists of disks, wherever it lies."""
        files = [
            file
            for node in self.master.all
            for folder in (FILE_FOLDER, SHARED_FOLDER)
            for file in node.Call(FilesBelow, folder)
        ]
        top = f"{pathutils.DEFAULT_GLUSTER_STORAGE_DIR}/ganeti"
        return sorted([*(name for _, name in self.ceph.images), *self.san.sizes, *self.master[0].Names(top), *files])


def _Enable(master: Master) -> None:
    storage.UseDrivers({name: driver for name, driver in drivers.STORAGE.items() if name not in _REAL})
    cluster = master.snapshot.cluster
    master.cfg.Update(
        cluster.Replace(
            enabled_disk_templates=_TEMPLATES,
            ipolicy={**cluster.ipolicy, "disk-templates": _TEMPLATES},
            shared_file_storage_dir=SHARED_FOLDER,
        )
    )


@pytest.fixture
def site(make: Callable[..., Master]) -> Site:
    made: list[Site] = []

    def prepare(master: Master) -> None:
        _Enable(master)
        made.append(Site(master))

    make(2, prepare=prepare)
    return made[0]


def _Primary(site: Site, name: str = NEW) -> int:
    return site.master.nodes.index(site.master.Instance(name).primary_node)


@pytest.mark.parametrize("template", ["rbd", "gluster", "ext"])
def test_made_grown_moved_and_removed(site: Site, template: str) -> None:
    site.Create(template)
    assert NEW in site.master[0].guests
    site.Do("GrowDisk", disk=0, amount=512)
    assert site.Do("SetParams", disks=[["add", -1, _REQUEST.get(template, {"size": 1024})]])
    assert [disk.size for disk in site.Disks()] == [1536, 1024]
    names = [disk.logical_id[1] for disk in site.Disks()]
    if template == "gluster":
        names = [name.rpartition("/")[2] for name in names]
    assert site.Stored() == sorted(names)

    site.Do("Migrate", target_node="node2")
    assert _Primary(site) == 1 and NEW not in site.master[0].guests and NEW in site.master[1].guests
    site.Do("Failover", target_node="node1")
    assert _Primary(site) == 0
    if template != "gluster":
        assert (site.Held(0), site.Held(1)) == (sorted(names), []), "nothing stays mapped where it is not used"

    site.Do("SetParams", disks=[["remove", 1, {}]])
    assert site.Stored() == [names[0]]
    site.Do("Remove")
    assert site.Stored() == [] and site.Held(0) == site.Held(1) == []


def test_requests_reach_the_programs_as_they_are(site: Site) -> None:
    site.Create("ext", disks=[{"size": 2048, "provider": "san", "tier": "cheap", "name": "data"}])
    (disk,) = site.Disks()
    assert disk.params == {"provider": "san", "tier": "cheap"}
    name = disk.logical_id[1]
    (created,) = [env for script, env in site.san.runs if script == "create"]
    assert created == {
        "VOL_NAME": name, "VOL_SIZE": "2048", "VOL_CNAME": "data", "VOL_UUID": disk.uuid,
        "EXTP_PROVIDER": "san", "EXTP_TIER": "cheap", "EXTP_ACCESS": "kernelspace",
    }  # fmt: skip
    site.san.runs.clear()
    site.Do("SetParams", disks=[["modify", 0, {"tier": "fast"}]])
    site.Do("Shutdown")
    site.Do("Rename", new_name=OTHER)
    notes = [(env["VOL_METADATA"], env["EXTP_TIER"]) for script, env in site.san.runs if script == "setinfo"]
    assert notes == [(f"originstname+{OTHER}", "fast")]


@pytest.mark.req("RM-DISK-01", "RM-DISK-03", "RM-DISK-04")
def test_parameters_of_the_template_reach_the_programs(site: Site) -> None:
    site.ceph.pools.add("fast")
    master = site.master
    master.Run(opcodes.OpClusterSetParams(diskparams={"rbd": {"pool": "fast"}, "ext": {"access": "userspace"}}))
    kept = master.snapshot.cluster.ToDict()["diskparams"]
    assert kept["rbd"]["pool"] == "fast" and kept["ext"] == {"access": "userspace"}
    site.Create("rbd", start=False)
    assert [pool for pool, _ in site.ceph.images] == ["fast"]
    master.Run(opcodes.OpGroupSetParams(group_name="default", diskparams={"rbd": {"pool": "rbd"}}))
    site.Create("rbd", OTHER, start=False)
    assert sorted(pool for pool, _ in site.ceph.images) == ["fast", "rbd"]


def test_a_migration_opens_the_volume_on_both_nodes(site: Site) -> None:
    site.Create("ext")
    site.san.runs.clear()
    site.Do("Migrate", target_node="node2")
    opened = [env["VOL_OPEN_EXCLUSIVE"] for script, env in site.san.runs if script == "open"]
    assert opened[-1:] == ["True"] and "False" in opened, opened
    assert "close" in [script for script, _ in site.san.runs]


def test_a_device_is_adopted_and_survives_its_instance(site: Site) -> None:
    file = site.master[0].machine.disk.Find(f"{LUN}0")
    standinstorage.Write(file, b"precious")  # type: ignore[arg-type]
    site.Create("blockdev", no_install=True, os_type=None)
    (disk,) = site.Disks()
    assert (disk.logical_id, disk.size) == (("manual", f"{LUN}0"), 1024)
    site.Do("Failover", target_node="node2")
    assert _Primary(site) == 1
    site.Do("Failover", target_node="node1")
    with pytest.raises(errors.OpPrereqError, match="Disks of template blockdev cannot be grown"):
        site.Do("GrowDisk", disk=0, amount=512)
    site.Do("Remove")
    assert file.data == b"precious"  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", ["/dev/sda", "/etc/passwd", f"{LUN}9", f"{LUN}0/../../sda"])
def test_only_devices_below_dev_disk_are_adopted(site: Site, path: str) -> None:
    standinstorage.AddDevice(site.master[0].machine, "/dev/sda", 1024 * _MIB)
    with pytest.raises(errors.OpPrereqError, match=r"outside /dev/disk/|Missing block device"):
        site.Create("blockdev", disks=[{"adopt": path}])


def test_a_disk_that_only_a_uri_leads_to(site: Site) -> None:
    """The node makes no device and no link of it; the hypervisor gets the URI, also of a disk that is plugged in."""
    site.san.output, site.san.uri = "", "kvm:rbd:pool/one\n"
    site.master.Run(opcodes.OpClusterSetParams(diskparams={"ext": {"access": "userspace"}}))
    site.Create("ext", no_install=True, os_type=None, start=False)
    site.Do("Startup")
    node = site.master[0]
    assert NEW in node.guests and not any(NEW in name for name in node.Names(pathutils.DISK_LINKS_DIR))
    site.Do("SetParams", disks=[["add", -1, _REQUEST["ext"]]])
    assert node.arguments["hotplug_device"][4] == [None, "rbd:pool/one"]
    site.Do("Remove")
    assert site.Stored() == []


@pytest.mark.parametrize("template", ["rbd", "gluster", "ext"])
def test_lost_storage_is_made_again(site: Site, template: str) -> None:
    site.Create(template)
    site.Do("Shutdown")
    if template == "gluster":
        site.master[0].Call(runtime.RemoveTree, f"{pathutils.DEFAULT_GLUSTER_STORAGE_DIR}/ganeti")
    site.ceph.images.clear()
    site.san.sizes.clear()
    with pytest.raises(errors.OpExecError, match=f"disks of {NEW} could not be set up"):
        site.Do("Startup")
    said = "\n".join(site.master.last.messages)
    assert "does not exist" in said and "recreate-disks" in said, said
    site.Do("Shutdown")
    site.Do("RecreateDisks")
    site.Do("Startup")
    assert len(site.Stored()) == 1 and NEW in site.master[0].guests


# --- from one template to another -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "old, new, values",
    [
        ("file", "rbd", {}),
        ("rbd", "ext", {"ext_params": {"provider": "san", "tier": "fast"}}),
        ("ext", "gluster", {}),
        ("gluster", "sharedfile", {}),
    ],
)
def test_disks_are_converted(site: Site, old: str, new: str, values: dict[str, Any]) -> None:
    site.Create(old, start=False)
    (before,) = site.Disks()
    site.Do("SetParams", disk_template=new, **values)
    (after,) = site.Disks()
    assert (after.dev_type, after.size) == (new, before.size)
    (copy,) = site.master[0].copied
    assert before.logical_id[1].rpartition("/")[2] in copy[0] or old == "rbd"
    assert [name.rpartition("/")[2] for name in site.Stored()] == [after.logical_id[1].rpartition("/")[2]]
    site.Do("Startup")
    site.Do("Remove")
    assert site.Stored() == []


@pytest.mark.parametrize("template", ["file", "sharedfile", "rbd", "gluster", "ext"])
def test_an_instance_without_disks_gets_its_first_one(site: Site, template: str) -> None:
    site.Create("diskless", start=False, no_install=True)
    site.Do("SetParams", disk_template=template, disks=[["add", -1, _REQUEST.get(template, {"size": 1024})]])
    (disk,) = site.Disks()
    assert disk.dev_type == template
    site.Do("Startup")
    site.Do("Remove")
    assert site.Stored() == []


@pytest.mark.parametrize("template", ["file", "sharedfile", "rbd", "gluster", "ext"])
def test_a_detached_disk_outlives_its_instance(site: Site, template: str) -> None:
    request = _REQUEST.get(template, {"size": 1024})
    site.Create(template, disks=[request, request], start=False)
    site.Create("diskless", OTHER, start=False, no_install=True)
    kept = site.Disks()[1]
    site.Do("SetParams", disks=[["detach", 1, {}]])
    site.Do("Remove")
    assert kept.uuid in site.master.snapshot.disks and len(site.Stored()) == 1
    site.Do("SetParams", name=OTHER, disks=[["attach", -1, {"uuid": kept.uuid}]])
    assert [disk.uuid for disk in site.Disks(OTHER)] == [kept.uuid]
    site.Do("Startup", name=OTHER)
    site.Do("Shutdown", name=OTHER)
    site.Do("Remove", name=OTHER)
    assert site.Stored() == []


# --- what goes wrong ----------------------------------------------------------------------------------------------------


def _Hang(_invocation: Invocation) -> None:
    runtime.Sleep(1e6)


def _Fail(invocation: Invocation) -> int:
    invocation.Print("the array is on fire\n")
    return 1


def _Breakages() -> list[Any]:
    def fail(script: str, work: Callable[[Invocation], Any]) -> Callable[[Site], Any]:
        return lambda site: site.san.failures.update({script: work})

    return [
        ("ext", fail("create", _Fail), r"(?s)create script of storage provider san failed.*the array is on fire"),
        ("ext", fail("create", _Hang), r"create script .* did not end within 840 seconds and was stopped"),
        ("ext", fail("attach", _Hang), r"attach script .* did not end within 120 seconds"),
        ("ext", fail("setinfo", _Fail), r"(?s)setinfo script.*removed again"),
        ("ext", lambda site: setattr(site.san, "output", "rubbish"), r"printed 'rubbish' where the path"),
        ("ext", lambda site: site.master[0].Call(runtime.Chmod, f"{site.san.path}/grow", 0o644), "is not executable"),
        ("ext", lambda site: site.master[0].Call(runtime.RemoveTree, site.san.path), "'gnt-storage diagnose'"),
        ("rbd", lambda site: site.ceph.pools.clear(), "cannot be created in pool rbd"),
        ("rbd", lambda site: site.master[0].machine.programs.pop("rbd"), "cannot be created in pool rbd"),
        ("gluster", lambda site: setattr(site.gluster, "up", False), "Gluster volume gv0 of 127.0.0.1: cannot be mounted"),
    ]  # fmt: skip


@pytest.mark.parametrize("template, breakage, match", _Breakages())
def test_what_fails_leaves_nothing(site: Site, template: str, breakage: Callable[[Site], Any], match: str) -> None:
    breakage(site)
    with pytest.raises(errors.OpExecError, match=match) as caught:
        site.Create(template)
    assert "node1.example.org" in str(caught.value)
    assert site.Stored() == []
    assert NEW not in {instance.name for instance in site.master.snapshot.instances.values()}
    assert not any(disk.dev_type == template for disk in site.master.snapshot.disks.values())


def test_growing_that_fails_changes_nothing(site: Site) -> None:
    site.Create("ext")
    site.san.failures["grow"] = _Fail
    with pytest.raises(errors.OpExecError, match=r"(?s)grow script of storage provider san failed.*on fire"):
        site.Do("GrowDisk", disk=0, amount=512)
    (disk,) = site.Disks()
    assert disk.size == 1024 and list(site.san.sizes.values()) == [1024]
    del site.san.failures["grow"]
    site.Do("GrowDisk", disk=0, amount=512)
    assert list(site.san.sizes.values()) == [1536]


def test_a_disk_that_cannot_be_removed_keeps_its_instance(site: Site) -> None:
    site.Create("rbd")
    (disk,) = site.Disks()
    site.ceph.MapTwice(site.master[0].machine, disk.logical_id[1])
    with pytest.raises(errors.OpExecError, match="disks"):
        site.Do("Remove")
    assert any("mapped more than once on this node" in text for text in site.master.last.messages)
    assert len(site.ceph.images) == 1 and len(site.Disks()) == 1


def test_providers_are_diagnosed(site: Site) -> None:
    fields = ["name", "nodegroup_status", "parameters"]
    ask = opcodes.OpExtStorageDiagnose(output_fields=fields, names=[])
    [[name, groups, parameters]] = site.master.Run(ask)
    assert (name, groups) == ("san", {"default": True})
    assert parameters == [["replicas", ""], ["tier", "fast or cheap"]]
    site.master[1].Call(runtime.RemoveFile, f"{site.san.path}/grow")
    [[_, groups, _]] = site.master.Run(ask)
    assert groups == {"default": False}


def test_two_instances_cannot_have_one_device(site: Site) -> None:
    site.Create("blockdev", start=True)
    with pytest.raises(errors.OpPrereqError, match=f"instance {NEW} has it"):
        site.Create("blockdev", name=OTHER, start=True)


def test_one_device_under_two_names_is_adopted_once(site: Site) -> None:
    alias = "/dev/disk/by-path/same"
    for number in range(2):
        site.master[number].Call(runtime.MakeDirs, "/dev/disk/by-path")
        site.master[number].Call(runtime.Symlink, f"{LUN}0", alias)
    with pytest.raises(errors.OpPrereqError, match=rf"Device {alias} .* same as {LUN}0 .*to be adopted, too"):
        site.Create("blockdev", disks=[{"adopt": f"{LUN}0"}, {"adopt": alias}])
    site.Create("blockdev")
    with pytest.raises(
        errors.OpPrereqError, match=rf"Device {alias} .* same as {LUN}0 \({LUN}0 on node node1.*instance {NEW} has it"
    ):
        site.Create("blockdev", OTHER, disks=[{"adopt": alias}])
    site.Create("blockdev", OTHER, disks=[{"adopt": f"{LUN}1"}])


def test_a_device_that_the_node_itself_uses_is_not_adopted(site: Site) -> None:
    """Its root file system, its swap, what its volume groups lie in; and what is a volume of another instance."""
    device = site.master[0].machine.disk.Find(f"{LUN}0")
    assert isinstance(device, Device)
    device.held = True
    with pytest.raises(errors.OpPrereqError, match=rf"node1\S* has {LUN}0 in use itself") as caught:
        site.Create("blockdev")
    assert caught.value.hint.startswith(f"'lsblk {LUN}0' and 'ls -l ")
    device.held = False
    site.Create("rbd", OTHER, start=False, no_install=True, os_type=None)
    [disk] = site.Disks(OTHER)
    node = site.master.Instance(OTHER).primary_node
    name = "xenvg/uuid.disk0"
    site.master.cfg.Update(disk.Replace(dev_type="plain", logical_id=tuple(name.split("/")), nodes=[node]))
    standinstorage.AddDevice(site.master[0].machine, f"/dev/{name}", 1024 * _MIB)
    alias = "/dev/disk/by-id/dm-name-volume"
    site.master[0].Call(runtime.Symlink, f"/dev/{name}", alias)
    with pytest.raises(errors.OpPrereqError, match=f"same as /dev/{name} .*instance {OTHER} has it"):
        site.Create("blockdev", disks=[{"adopt": alias}])


@pytest.mark.parametrize("key", ["bad=key", "x" * 200, "a\nb"])
def test_a_parameter_that_no_script_can_be_given_is_refused(site: Site, key: str) -> None:
    with pytest.raises(errors.OpPrereqError, match=r"Invalid name .* of a parameter of disk 0"):
        site.Create("ext", disks=[{"size": 1024, "provider": "san", key: "v"}])
    site.Create("ext", start=False)
    with pytest.raises(errors.OpPrereqError, match=r"Invalid name .* of a parameter of disk 0"):
        site.Do("SetParams", disks=[["modify", 0, {key: "v"}]])
    with pytest.raises(errors.OpPrereqError, match="Invalid value of the parameter tier of disk 0"):
        site.Do("SetParams", disks=[["modify", 0, {"tier": "a\0b"}]])
    (disk,) = site.Disks()
    site.master.cfg.Update(disk.Replace(params={**disk.params, key: "as an older release took it"}))
    site.Do("SetParams", disks=[["modify", 0, {key: "default"}]])
    site.Do("Startup")
    site.Do("Remove")


@pytest.mark.parametrize("key", ["bad=key", ""])
def test_a_conversion_takes_no_such_parameter_either(site: Site, key: str) -> None:
    site.Create("rbd", start=False)
    with pytest.raises(errors.OpPrereqError, match="Invalid name"):
        site.Do("SetParams", disk_template="ext", ext_params={"provider": "san", key: "v"})


def test_a_node_does_not_give_a_guest_what_it_uses_itself(site: Site) -> None:
    """The path that was adopted on the first node is a mounted device of the second one."""
    site.Create("blockdev", start=True)
    device = site.master[1].machine.disk.Find(f"{LUN}0")
    device.held = True
    with pytest.raises(errors.OpExecError, match=r"Can't activate the disks .* it stays on node1") as caught:
        site.Do("Failover", target_node="node2")
    assert f"'gnt-instance startup {NEW}'" in str(caught.value.hint) and "consistency" not in str(caught.value.hint)
    assert any(f"this node has {LUN}0" in text and "in use itself" in text for text in site.master.last.messages)
    assert NEW not in site.master[1].guests


@pytest.mark.parametrize("template", ["ext", "rbd"])
def test_a_running_instance_s_device_is_not_adopted_under_another_name(site: Site, template: str) -> None:
    site.Create(template, start=True)
    [disk] = site.Disks()
    node, instance = site.master.nodes[0], site.master.Instance(NEW)
    path = site.master.rpc.call_blockdev_find(node, (disk, instance)).payload["dev_path"]
    alias = "/dev/disk/by-id/scsi-36001405deadbeef"
    site.master[0].Call(runtime.Symlink, path, alias)
    with pytest.raises(errors.OpPrereqError, match=r"cannot be adopted: .* or an instance there has it"):
        site.Create("blockdev", OTHER, disks=[{"adopt": alias}], start=False, no_install=True, os_type=None)


@pytest.mark.parametrize("template", ["blockdev", "ext", "rbd"])
def test_a_failover_that_returns_leaves_nothing_on_the_target(site: Site, template: str) -> None:
    request = _REQUEST.get(template, {"size": 1024})
    second = {"adopt": f"{LUN}1"} if template == "blockdev" else request
    site.Create(template, disks=[request, second], start=True)
    asked: list[str] = []

    def before(procedure: str, _arguments: Any) -> None:
        asked.extend([procedure] if procedure == "blockdev_assemble" else [])
        if len(asked) == 2:
            raise errors.RpcCallError("the storage does not answer")

    site.master[1].before = before
    with pytest.raises(errors.OpExecError, match="stays on node1"):
        site.Do("Failover", target_node="node2")
    assert site.Held(1) == [] and site.master[1].Names(pathutils.DISK_LINKS_DIR) == []
    assert site.master.Instance(NEW).primary_node == site.master.nodes[0]
