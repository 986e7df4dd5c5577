"""Instances whose data comes from an export, or from another cluster (doc/design-transfers.rst)."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Callable
from typing import Any

import pytest
from support.creation import OnDisks
from support.master import Callbacks, Master
from support.playedtransfers import Transfers
from support.standinstorage import Write
from unit.cmdlib.instance.test_mirrors import WEB, _EmptyWithFiles

from ganeti import constants, errors, objects, opcodes, pathutils, runtime, x509
from ganeti.cli.values import ParseIdentKeyVal
from ganeti.cmdlib.backup import remote

CONTENT = [b"the first disk", b"the second disk"]
COPY = "copy.example.org"
SECRET = "the secret of both clusters"
EXPORT = f"{pathutils.EXPORT_DIR}/{WEB}"


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_EmptyWithFiles)


class Exported:
    """An instance with two disks on the first node, stopped, with an export on the second one."""

    def __init__(self, master: Master, **values: Any):
        self.master = master
        self.transfers = Transfers(master)
        own: dict[str, Any] = {"beparams": {"minmem": 96, "maxmem": 160}, "tags": ["kept"], "nics": [{}], **values}
        master.Run(OnDisks(WEB, {"size": 128, "name": "root"}, {"size": 256}, disk_template="plain", **own))
        self.original = master.Instance(WEB)
        for disk, content in zip(self.Disks(WEB), CONTENT, strict=True):
            Write(self.File(0, disk), content)
        master.Run(opcodes.OpBackupExport(instance_name=WEB, target_node="node2"))

    def Disks(self, name: str) -> tuple[objects.Disk, ...]:
        return self.master.snapshot.InstanceDisks(self.master.Instance(name))

    def File(self, node: int, disk: objects.Disk) -> Any:
        return self.master[node].machine.disk.Lookup("/dev/{}/{}".format(*disk.logical_id))

    def Contents(self, name: str, node: int) -> list[bytes]:
        return [self.File(node, disk).data.rstrip(b"\0") for disk in self.Disks(name)]

    def Remove(self) -> None:
        self.master.Run(opcodes.OpInstanceRemove(instance_name=WEB))


def _Import(name: str = COPY, **values: Any) -> opcodes.OpInstanceCreate:
    own: dict[str, Any] = {"mode": "import", "src_path": WEB, "os_type": None, "nics": [], "hypervisor": None}
    return OnDisks(name, **{**own, "hvparams": {}, **values})


def test_all_that_is_not_said_comes_from_the_export(three: Master) -> None:
    scene = Exported(three)
    cbs = Callbacks()
    assert three.Run(_Import(pnode="node3"), cbs) == ["node3.example.org"]
    copied = three.Instance(COPY)
    assert scene.Contents(COPY, 2) == CONTENT
    assert [(disk.size, disk.name, disk.dev_type) for disk in scene.Disks(COPY)] == [
        (128, "root", "plain"),
        (256, None, "plain"),
    ]
    assert copied.beparams["minmem"] == 96 and copied.beparams["maxmem"] == 160
    assert (copied.os, copied.hypervisor, copied.tags) == ("debian+minimal", "kvm", ("kept",))
    assert copied.nics[0].mac != scene.original.nics[0].mac
    assert any("is in use: this network card gets another one" in message for message in cbs.messages)
    assert three[2].renamed == [WEB] and copied.admin_state == constants.ADMINST_DOWN


def test_what_is_said_counts(three: Master) -> None:
    scene = Exported(three)
    scene.Remove()
    asked = _Import(
        WEB, disk_template="file", beparams={"maxmem": 512}, tags=["new"], nics=[{"mac": "auto"}], start=True
    )
    three.Run(asked)
    again = three.Instance(WEB)
    assert again.beparams == {**again.beparams, "minmem": 96, "maxmem": 512} and again.tags == ("new",)
    assert again.nics[0].mac == scene.original.nics[0].mac, "it is the same instance"
    assert {disk.dev_type for disk in scene.Disks(WEB)} == {"file"} and WEB in three[0].guests
    assert asked.disks == [] and asked.os_type is None, "the next try reads the export anew"


@pytest.mark.parametrize("other", [7, 999999999999])
def test_of_several_exports_the_latest_is_used(three: Master, other: int) -> None:
    """One that claims to be of the future is not the latest."""
    Exported(three)
    text = three[1].Read(f"{EXPORT}/config.ini").decode()
    stamp = next(line for line in text.splitlines() if line.startswith("timestamp"))
    three[0].Call(runtime.MakeDirs, EXPORT)
    three[0].Write(f"{EXPORT}/config.ini", text.replace(stamp, f"timestamp = {other}"))
    cbs = Callbacks()
    three.Run(_Import(pnode="node3"), cbs)
    assert any("the latest, on node2.example.org, is used" in message for message in cbs.messages)


def test_an_export_does_not_decide_what_runs_on_a_node(three: Master) -> None:
    """Whoever can write to a directory of exports is not root on another node."""
    Exported(three)
    text = three[1].Read(f"{EXPORT}/config.ini").decode()
    lines = [line for line in text.splitlines() if not line.startswith(("kvm_extra", "kvm_path", "acpi"))]
    lines.insert(lines.index("[hypervisor]") + 1, "kvm_extra = -device a,b -c\\\nkvm_path = /tmp/it's\nacpi = False")
    three[1].Write(f"{EXPORT}/config.ini", "\n".join(lines))
    cbs = Callbacks()
    three.Run(_Import(), cbs)
    own = three.Instance(COPY).hvparams
    assert not {"kvm_extra", "kvm_path"} & own.keys() and own["acpi"] is False
    assert any("are not taken over: kvm_extra, kvm_path" in message for message in cbs.messages)
    [hint] = [message for message in cbs.messages if "if you trust the export, add -H " in message]
    [typed] = shlex.split(hint.partition(" -H ")[2])
    refused = {"kvm_extra": "-device a,b -c\\", "kvm_path": "/tmp/it's"}
    assert ParseIdentKeyVal("-H", typed) == ("kvm", refused), "it can be pasted"


def _Edit(master: Master, section: str, line: str) -> None:
    """Put a line in a section of the export's config.ini, in place of that of the same name."""
    text = master[1].Read(f"{EXPORT}/config.ini").decode()
    name = line.partition("=")[0]
    lines = [old for old in text.splitlines() if old.partition("=")[0] != name]
    if f"[{section}]" not in lines:
        lines.append(f"[{section}]")
    lines.insert(lines.index(f"[{section}]") + 1, line)
    master[1].Write(f"{EXPORT}/config.ini", "\n".join(lines))


def test_an_export_does_not_choose_an_image_that_a_reinstallation_would_write(three: Master) -> None:
    Exported(three)
    _Edit(three, "os", "os-image = /var/lib/ganeti/client.pem")
    cbs = Callbacks()
    three.Run(_Import(), cbs)
    assert "os-image" not in three.Instance(COPY).osparams
    assert any(
        "if you trust the export, add -O os-image=/var/lib/ganeti/client.pem" in message for message in cbs.messages
    )
    three.Run(_Import("another.example.org", osparams={"os-image": "/srv/image"}, pnode="node3"))
    assert three.Instance("another.example.org").osparams["os-image"] == "/srv/image"


def test_an_export_does_not_decide_how_its_console_is_reached(three: Master) -> None:
    """What would need the address that is left out is left out as well, so that the import needs no options."""
    spice = {"spice_bind": "198.51.100.7", "spice_image_compression": "glz", "spice_use_tls": True}
    Exported(three, hvparams=spice)
    three.Run(opcodes.OpClusterSetParams(hvparams={"kvm": {"vnc_tls": True}}))
    _Edit(three, "hypervisor", "vnc_tls = False")
    _Edit(three, "hypervisor", "boot_order = cdrom")
    _Edit(three, "hypervisor", "cdrom_image_path = /srv/boot.iso")
    cbs = Callbacks()
    three.Run(_Import(), cbs)
    own = three.Instance(COPY).hvparams
    assert not {*spice, "vnc_tls", "boot_order", "cdrom_image_path"} & own.keys()
    [told] = [message for message in cbs.messages if "are not taken over" in message]
    assert all(name in told for name in ("boot_order", "cdrom_image_path", "spice_bind", "spice_use_tls", "vnc_tls"))


def test_what_an_export_connects_its_network_cards_to_is_told(three: Master) -> None:
    Exported(three)
    cbs = Callbacks()
    three.Run(_Import(), cbs)
    assert not any("connected as the export says" in message for message in cbs.messages)
    _Edit(three, "instance", "nic0_link = br-storage")
    three[2].Call(runtime.MakeDirs, "/sys/class/net/br-storage/bridge")
    cbs = Callbacks()
    three.Run(_Import("another.example.org", pnode="node3"), cbs)
    assert any("Network card 0 is connected as the export says: link=br-storage" in text for text in cbs.messages)


def test_a_guest_that_boots_from_its_disk_still_does(three: Master) -> None:
    """An empty path is no file of a node."""
    Exported(three, hvparams={"kernel_path": ""})
    three.Run(opcodes.OpClusterSetParams(hvparams={"kvm": {"kernel_path": "/boot/vmlinuz-3-kvmU"}}))
    three.Run(_Import())
    assert three.Instance(COPY).hvparams["kernel_path"] == ""


def test_values_that_are_too_long_to_be_pasted_are_left_where_they_are(three: Master) -> None:
    Exported(three)
    _Edit(three, "hypervisor", f"kvm_extra = {'-device x ' * 100}")
    cbs = Callbacks()
    three.Run(_Import(), cbs)
    assert any(f"config.ini in {EXPORT} on node node2.example.org has their values" in text for text in cbs.messages)


@pytest.mark.parametrize(
    ("section", "key"),
    [("os", "dhcp"), ("instance", "nic0_name"), ("instance", "disk0_name"), ("hypervisor", "keymap")],
)
@pytest.mark.parametrize(("character", "words"), [("0000", "has a NUL character"), ("d800", "half a character")])
def test_what_no_command_could_take_is_noticed_before_anything_is_made(
    three: Master, section: str, key: str, character: str, words: str
) -> None:
    Exported(three)
    _Edit(three, "exact", rf'values = {{"{section}": {{"{key}": "x\u{character}y"}}}}')
    with pytest.raises(errors.OpPrereqError, match=words):
        three.Run(_Import())
    assert three.snapshot.InstanceByName(COPY) is None


def test_a_name_that_no_script_can_take_is_noticed_before_anything_is_made(three: Master) -> None:
    Exported(three)
    _Edit(three, "instance", "name = -rf")
    with pytest.raises(errors.OpPrereqError, match="The instance was called '-rf', which is not a name"):
        three.Run(_Import())


def test_a_system_without_an_import_script_is_noticed_before_anything_is_made(three: Master) -> None:
    Exported(three)
    three[0].stand_ins["os_validate"] = _Lacks("import")
    three[0].Stop()
    three[0].Start()
    with pytest.raises(errors.OpPrereqError, match="OS debian has no import script"):
        three.Run(_Import())
    assert three.snapshot.InstanceByName(COPY) is None


def _Lacks(script: str) -> Callable[..., bool]:
    def validate(required: bool, name: str, checks: list[str], params: dict[str, Any], force_variant: bool) -> bool:
        if script in checks:
            raise errors.RpcCallError(f"OS debian has no {script} script, which this operation needs")
        return True

    return validate


@pytest.mark.req("D22-OSST-08")
def test_a_system_that_may_not_be_installed_any_longer_can_be_imported(three: Master) -> None:
    scene = Exported(three)
    three.Run(opcodes.OpClusterSetParams(blacklisted_os=[["add", "debian"]]))
    with pytest.raises(errors.OpPrereqError, match="not allowed for installation"):
        three.Run(OnDisks(COPY, {"size": 128}, disk_template="plain"))
    three.Run(_Import())
    assert scene.Contents(COPY, 0) == CONTENT


def test_an_allocator_chooses_the_node(three: Master) -> None:
    Exported(three)
    three.Run(_Import(pnode=None, iallocator="hail"))
    assert three.Instance(COPY).primary_node in three.nodes


def test_data_that_does_not_arrive_is_an_error_and_the_instance_stays_down(three: Master) -> None:
    scene = Exported(three)
    scene.transfers.failing["disk1"] = "no room"
    cbs = Callbacks()
    with pytest.raises(
        errors.OpExecError,
        match=r"was not imported: disk 1: sending from node node2.* failed: no room",
    ):
        three.Run(_Import(start=True), cbs)
    assert any("stopped and not complete" in message for message in cbs.messages)
    assert any(f"'gnt-instance remove {COPY}' removes it" in message for message in cbs.messages)
    assert three.Instance(COPY).admin_state == constants.ADMINST_DOWN and COPY not in three[0].guests
    assert scene.transfers.programs == {}


def test_a_disk_without_content_stays_empty_and_the_others_keep_their_numbers(three: Master) -> None:
    scene = Exported(three)
    lines = three[1].Read(f"{EXPORT}/config.ini").decode().splitlines()
    kept = [line for line in lines if not line.startswith("disk0_dump")]
    three[1].Write(f"{EXPORT}/config.ini", "\n".join(kept))
    scene.transfers.failing["disk1"] = "no room"
    cbs = Callbacks()
    with pytest.raises(errors.OpExecError, match=r"was not imported: disk 1: sending from .*no room"):
        three.Run(_Import(), cbs)
    assert "* disk 0 stays empty: the export does not have its content" in cbs.messages


def test_an_export_that_is_replaced_meanwhile_is_noticed(three: Master) -> None:
    Exported(three)
    text = three[1].Read(f"{EXPORT}/config.ini").decode()
    three[1].watch = lambda name: (
        three[1].Write(f"{EXPORT}/config.ini", text + "\n") if name == "export_start" else None
    )
    with pytest.raises(errors.OpExecError, match="was removed or replaced meanwhile"):
        three.Run(_Import())


def test_an_export_that_changes_before_the_locks_are_held_is_noticed(three: Master) -> None:
    Exported(three)
    text, reads = three[1].Read(f"{EXPORT}/config.ini").decode(), []

    def change(name: str) -> None:
        if name == "export_info":
            reads.append(name)
            if len(reads) == 2:
                three[1].Write(f"{EXPORT}/config.ini", text.replace("96", "97"))

    three[1].watch = change
    with pytest.raises(errors.OpPrereqError, match="has changed since this job read it; try again"):
        three.Run(_Import())


@pytest.mark.req("D20-OS-08")
@pytest.mark.parametrize(
    ("said", "values"),
    [
        ("has 2 disks, the instance would have 1", {"disks": [{"size": 512}]}),
        ("is an absolute path, so the node that has it must be named", {"src_path": "/srv/ganeti/export/web"}),
        ("The export in .*/nothing on node node2.* cannot be read", {"src_path": "nothing", "src_node": "node2"}),
        ("Node 'nowhere' not known", {"src_node": "nowhere"}),
        ("neither reserved nor committed", {"forthcoming": True}),
        ("Disk adoption not allowed", {"disks": [{"adopt": "vol"}]}),
        ("already in the cluster", {"instance_name": WEB}),
    ],
)
def test_what_cannot_be_imported_is_refused(three: Master, said: str, values: dict[str, Any]) -> None:
    Exported(three)
    op = _Import()
    for name, value in values.items():
        setattr(op, name, value)
    with pytest.raises(errors.OpPrereqError, match=said):
        three.Run(op)


@pytest.mark.parametrize("line", ["version = 7", "disk0_size = huge", "nic_count = -1", "[instance", "minmem = many"])
def test_a_damaged_export_is_named_and_nothing_is_made(three: Master, line: str) -> None:
    Exported(three)
    text = three[1].Read(f"{EXPORT}/config.ini").decode()
    key = line.partition(" ")[0]
    lines = [line if own.startswith(f"{key} ") else own for own in text.splitlines()]
    three[1].Write(f"{EXPORT}/config.ini", "\n".join([*lines, *([line] if line.startswith("[") else [])]))
    with pytest.raises(errors.OpPrereqError, match=f"export in {EXPORT} on node node2.example.org cannot be used"):
        three.Run(_Import())
    assert three.snapshot.InstanceByName(COPY) is None


# --- from another cluster -------------------------------------------------------------------------------------------------


def _Arriving(three: Master, **values: Any) -> opcodes.OpInstanceCreate:
    """The request of a client that has asked the other cluster."""
    for node in three.all:
        node.Write(pathutils.CLUSTER_DOMAIN_SECRET_FILE, SECRET + "\n")
    _, certificate = x509.MakeSelfSigned("there.example.net", 3600)
    own: dict[str, Any] = {
        "mode": "remote-import",
        "source_handshake": remote.MakeHandshake(SECRET),
        "source_x509_ca": x509.Sign(certificate, SECRET),
        "source_instance_name": WEB,
        "disk_template": "plain",
    }
    return OnDisks(COPY, {"size": 128}, **{**own, **values})


@pytest.mark.req("D22-MOVE-07", "D22-MOVE-20", "D22-X509-12")
@pytest.mark.parametrize(
    ("said", "values"),
    [
        ("have different domain secrets", {"source_handshake": remote.MakeHandshake("another secret")}),
        ("needs its handshake", {"source_x509_ca": None}),
        ("needs its handshake", {"source_instance_name": None}),
        ("certificate of the other cluster is not valid", {"source_x509_ca": base64.b64encode(b"nonsense").decode()}),
        ("Compression tool 'rar' is not allowed", {"compress": "rar"}),
        ("not enabled in the cluster", {"hypervisor": "xen-pvm"}),
    ],
)
def test_another_cluster_must_prove_who_it_is(three: Master, said: str, values: dict[str, Any]) -> None:
    with pytest.raises(errors.OpPrereqError, match=said):
        three.Run(_Arriving(three, **values))
    assert three.snapshot.InstanceByName(COPY) is None


def test_nobody_who_connects_leaves_a_stopped_instance_and_no_key(three: Master) -> None:
    Transfers(three, nobody=True)
    with pytest.raises(
        errors.OpExecError, match=r"disk 0: receiving on node node1.example.org failed: No sender connected"
    ):
        three.Run(_Arriving(three))
    assert three.Instance(COPY).admin_state == constants.ADMINST_DOWN
    assert three[0].Names(pathutils.CRYPTO_KEYS_DIR) == []


def _WithDiskless(root: objects.Snapshot) -> objects.Snapshot:
    made = _EmptyWithFiles(root)
    templates = [*made.cluster.enabled_disk_templates, "diskless"]
    ipolicy = {**made.cluster.ipolicy, "disk-templates": templates}
    return made.Replace(cluster=made.cluster.Replace(enabled_disk_templates=templates, ipolicy=ipolicy))


@pytest.fixture
def diskless(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_WithDiskless)


def test_without_disks_there_is_nothing_to_wait_for(diskless: Master) -> None:
    """The client learns that, too: it waits for the addresses."""
    op = _Arriving(diskless, disk_template="diskless", nics=[{}])
    op.disks = []
    cbs = Callbacks()
    diskless.Run(op, cbs)
    [told] = [content for kind, content in cbs.log if kind == constants.ELOG_REMOTE_IMPORT]
    assert told["disks"] == [] and "x509_ca" in told
    assert diskless.Instance(COPY).disks == ()
