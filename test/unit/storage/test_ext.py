"""Volumes of external providers, whose scripts run on simulated machines (doc/reference/interfaces.md b)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import Invocation, Machine, World
from support import standinstorage
from support.virtual import MakeDisk

from ganeti import errors, objects, pathutils, runtime
from ganeti.storage import tree
from ganeti.storage.utilities import extprovider
from ganeti.storage.utilities.extprovider import Attached

OWNER = "guest.example.com"
NOTE = f"originstname+{OWNER}"
MIB = 1 << 20
OPTIONAL = ("snapshot", "open", "close")


class Node:
    """A machine with the provider ``san``."""

    def __init__(self, scripts: tuple[str, ...] = standinstorage.SCRIPTS) -> None:
        self.machine: Machine = World(1).AddMachine("node1")
        self.san = standinstorage.Provider("san")
        standinstorage.AddBlockTools(self.machine)
        self.san.Join(self.machine, scripts)

    def Do(self, function: Callable[..., Any], *args: Any) -> Any:
        return self.machine.Call(function, *args)

    def Create(self, **values: Any) -> objects.Disk:
        disk = Disk(**values)
        self.Do(tree.Create, disk, disk.size, OWNER, True, NOTE)
        return disk

    def Scripts(self) -> list[str]:
        return [script for script, _ in self.san.runs]

    def Fail(self, script: str, work: Callable[[Invocation], Any]) -> None:
        self.san.failures[script] = work


def Disk(volume: str = "one.ext.disk0", **values: Any) -> objects.Disk:
    return MakeDisk("ext", ["san", volume], 100, **values)


@pytest.fixture
def node() -> Iterator[Node]:
    yield Node()


def test_scripts_of_a_life(node: Node) -> None:
    disk = node.Create()
    assert node.Scripts() == ["create", "attach", "open", "setinfo"]
    device = node.Do(tree.FindOrFail, disk)
    assert (device.dev_path, device.major, device.minor) == ("/dev/san/one.ext.disk0", 240, 1)
    node.san.runs.clear()
    node.Do(device.Close)
    node.Do(tree.Shutdown, disk)
    assert node.Scripts() == ["close", "attach", "detach"]
    node.san.runs.clear()
    node.Do(tree.Remove, disk)
    assert node.Scripts() == ["attach", "detach", "remove"]
    assert node.san.sizes == {}


def test_environment_of_every_script(node: Node) -> None:
    """Bit-exact: providers were written for it."""
    disk = node.Create(name="data", params={"provider": "san", "tier": "fast", "replicas": 2, "access": "kernelspace"})
    device = node.Do(tree.FindOrFail, disk)
    node.Do(device.Grow, 50, True, True)
    node.Do(device.Grow, 50, False, False)
    node.Do(device.Grow, 50, False, True)
    node.Do(device.Snapshot)
    node.Do(device.Snapshot, "other", 7)
    node.Do(device.Open, False, False)
    node.Do(device.Close)
    node.Do(device.SetInfo, "-originstname+a b/ü" + "x" * 200)
    node.Do(device.Remove)
    common = {
        "VOL_NAME": "one.ext.disk0",
        "EXTP_PROVIDER": "san",
        "EXTP_TIER": "fast",
        "EXTP_REPLICAS": "2",
        "EXTP_ACCESS": "kernelspace",
    }
    named = {**common, "VOL_CNAME": "data", "VOL_UUID": disk.uuid}
    assert node.san.runs == [
        ("create", {**named, "VOL_SIZE": "100"}),
        ("attach", named),
        ("open", {**named, "VOL_OPEN_EXCLUSIVE": "True"}),
        ("setinfo", {**named, "VOL_METADATA": NOTE}),
        ("attach", named),
        ("grow", {**named, "VOL_SIZE": "100", "VOL_NEW_SIZE": "150"}),
        ("snapshot", {**common, "VOL_SNAPSHOT_NAME": "one.ext.disk0.snap", "VOL_SNAPSHOT_SIZE": "100"}),
        ("snapshot", {**common, "VOL_SNAPSHOT_NAME": "other", "VOL_SNAPSHOT_SIZE": "7"}),
        ("open", {**named, "VOL_OPEN_EXCLUSIVE": "False"}),
        ("close", named),
        ("setinfo", {**named, "VOL_METADATA": ("_originstname+a_b__" + "x" * 200)[:128]}),
        ("detach", named),
        ("remove", named),
    ]


def test_inherited_environment_and_no_name(node: Node) -> None:
    env = extprovider.BuildEnvironment({"PATH": "/bin", "LC_ALL": "de_DE"}, Disk(), "attach", {})
    assert env == {
        "PATH": "/bin",
        "LC_ALL": "C",
        "VOL_NAME": "one.ext.disk0",
        "EXTP_PROVIDER": "san",
        "VOL_UUID": Disk().uuid,
    }


def test_logs(node: Node) -> None:
    def create(invocation: Invocation) -> int:
        invocation.Print("making it\n")
        return 0

    node.Fail("create", create)
    with pytest.raises(errors.BlockDeviceError, match="attach script"):
        node.Create()
    names = node.Do(runtime.ListDir, pathutils.LOG_ES_DIR)
    [log] = [name for name in names if name.startswith("create-san-one.ext.disk0-")]
    assert node.Do(runtime.ReadFile, f"{pathutils.LOG_ES_DIR}/{log}") == b"making it\n"
    assert not any(name.startswith("attach-") for name in names), "its output is what it found"


# --- what providers may leave out ---------------------------------------------------------------------------------------


def test_optional_scripts_may_be_missing() -> None:
    node = Node(tuple(script for script in standinstorage.SCRIPTS if script not in OPTIONAL))
    device = node.Do(tree.FindOrFail, node.Create())
    node.Do(device.Open)
    node.Do(device.Close)
    assert node.Scripts() == ["create", "attach", "setinfo", "attach"]
    with pytest.raises(
        errors.BlockDeviceError, match=r"provider san cannot make snapshots: it has no script .*/snapshot"
    ):
        node.Do(device.Snapshot)


def test_parameters_must_be_the_providers(node: Node) -> None:
    with pytest.raises(
        errors.BlockDeviceError, match="provider san has no parameter colour, shape; it has: tier, replicas"
    ):
        node.Create(params={"provider": "san", "tier": "fast", "shape": "round", "colour": "red"})
    for name in ("", "a=b", "a\0b"):
        with pytest.raises(errors.BlockDeviceError, match="cannot be handed to a script"):
            node.Create(params={name: "x"})
    assert node.san.runs == []


def test_exclusive_storage(node: Node) -> None:
    with pytest.raises(errors.BlockDeviceError, match="exclusive storage is not possible with disk template ext"):
        node.Do(tree.Create, Disk(), 100, OWNER, True, NOTE, True)
    assert node.san.runs == []


# --- what goes wrong ----------------------------------------------------------------------------------------------------


def _Complain(invocation: Invocation) -> int:
    invocation.Print("".join(f"line {number}\n" for number in range(30)))
    return 3


@pytest.mark.parametrize("script", ["create", "open", "setinfo"])
def test_a_script_that_fails(node: Node, script: str) -> None:
    node.Fail(script, _Complain)
    with pytest.raises(errors.BlockDeviceError) as caught:
        node.Create()
    text = str(caught.value)
    log = rf"{pathutils.LOG_ES_DIR}/{script}-san-one.ext.disk0-"
    assert text.startswith(f"ext san/one.ext.disk0: {script} script of storage provider san failed (exit code 3); last")
    assert log in text and "line 10\n" in text and "line 29" in text and "line 9\n" not in text
    assert node.san.sizes == {}, "what was made is removed again"
    assert ("removed again" in text) == (script != "create")


def test_what_cannot_be_removed_again_is_named(node: Node) -> None:
    node.Fail("setinfo", _Complain)
    node.Fail("remove", _Complain)
    with pytest.raises(
        errors.BlockDeviceError, match=r"(?s)setinfo script.*left over, remove it by hand: ext san/one.*remove script"
    ):
        node.Create()


@pytest.mark.parametrize("script, seconds", [("create", 840), ("attach", 120), ("setinfo", 120)])
def test_a_script_that_hangs_is_stopped(node: Node, script: str, seconds: int) -> None:
    node.Fail(script, lambda invocation: runtime.Sleep(1e6))
    with pytest.raises(
        errors.BlockDeviceError,
        match=rf"{script} script of storage provider san did not end within {seconds} seconds and was stopped.*repeat the operation",
    ):
        node.Create()


def test_a_volume_that_the_provider_does_not_attach_is_not_there(node: Node) -> None:
    assert node.Do(tree.Find, Disk()) is None
    match = r"(?s)attach script of storage provider san failed \(exit code 1\); last lines in its output:\nvolume one"
    with pytest.raises(errors.BlockDeviceError, match=match):
        node.Do(tree.FindOrFail, Disk())
    with pytest.raises(errors.BlockDeviceError, match=match):
        node.Do(tree.Assemble, Disk(), OWNER, True)


def test_a_script_that_cannot_be_run(node: Node) -> None:
    del node.machine.programs[f"{node.san.path}/attach"]
    with pytest.raises(
        errors.BlockDeviceError, match=r"attach script of storage provider san cannot be run: .*look at .*/attach"
    ):
        node.Do(tree.Find, Disk())
    node.Do(runtime.Chmod, f"{node.san.path}/grow", 0o644)
    with pytest.raises(
        errors.BlockDeviceError,
        match=r"ext san/one.ext.disk0: Storage provider san cannot be used: File 'grow' under path '.*/san' is not executable; correct it",
    ):
        node.Do(tree.Find, Disk())


def test_a_provider_that_is_missing(node: Node) -> None:
    for name in ("nas", "../../../bin", "."):
        with pytest.raises(
            errors.BlockDeviceError, match=r"there is no such directory in .*'gnt-storage diagnose' shows"
        ):
            node.Do(tree.Find, MakeDisk("ext", [name, "one"]))


@pytest.mark.parametrize(
    "output, match",
    [
        ("rubbish", "printed 'rubbish' where the path of a block device was expected; correct it"),
        ("", "printed neither the path of a block device nor a URI"),
        (
            "/dev/nothing",
            "'/dev/nothing' does not exist.* it is what the attach script of storage provider san printed",
        ),
        ("/etc/passwd", "'/etc/passwd' is not a block device"),
        ("/dev/san/one.ext.disk0\nkvm\n", "printed 'kvm' where HYPERVISOR:URI was expected"),
        ("\n: x\n", "where HYPERVISOR:URI was expected"),
        ("x" * (11 << 20), "printed too much"),
    ],
)
def test_rubbish_from_the_attach_script(node: Node, output: str, match: str) -> None:
    node.Do(runtime.WriteFile, "/etc/passwd", b"")
    node.san.output = output
    with pytest.raises(errors.BlockDeviceError, match=f"ext san/one.ext.disk0: .*{match}") as caught:
        node.Create()
    assert len(str(caught.value)) < 500
    assert node.san.sizes == {}, "the volume was removed again"


@given(st.text(max_size=200))
def test_any_output_is_read_or_rejected(text: str) -> None:
    try:
        found = extprovider.ParseAttach(text)
    except ValueError as err:
        assert str(err)
        return
    assert found.path or found.uris


# --- hypervisors --------------------------------------------------------------------------------------------------------


def test_output_of_the_attach_script() -> None:
    assert extprovider.ParseAttach("/dev/sdb") == extprovider.ParseAttach("/dev/sdb\n") == Attached("/dev/sdb", {})
    assert extprovider.ParseAttach("/dev/sdb\nkvm:rbd:p/i\nxen-hvm:x\n").uris == {"kvm": "rbd:p/i", "xen-hvm": "x"}
    assert extprovider.ParseAttach("\nkvm:rbd:p/i\n") == Attached(None, {"kvm": "rbd:p/i"})


def test_uri_of_a_hypervisor(node: Node) -> None:
    node.san.uri = "kvm:rbd:pool/one\n"
    device = node.Do(tree.FindOrFail, node.Create(params={"access": "userspace"}))
    assert device.UserspaceUri("kvm") == "rbd:pool/one"
    assert device.UserspaceUri("fake") is None, "it uses the device"
    other = node.Do(tree.FindOrFail, Disk())
    assert other.UserspaceUri("kvm") is None, "access is kernelspace"


def test_no_uri_where_one_is_needed(node: Node) -> None:
    device = node.Do(tree.FindOrFail, node.Create(params={"access": "userspace"}))
    with pytest.raises(
        errors.BlockDeviceError, match=r"by hypervisor kvm with access=userspace: .* the device /dev/san/.* and no URI"
    ):
        device.UserspaceUri("kvm")


def test_a_volume_without_a_device(node: Node) -> None:
    node.san.output, node.san.uri = "", "kvm:rbd:pool/one\n"
    device = node.Do(tree.FindOrFail, node.Create(params={"access": "userspace"}))
    assert device.dev_path is None and device.UserspaceUri("kvm") == "rbd:pool/one"
    with pytest.raises(errors.BlockDeviceError, match="printed no device and a URI for kvm; change the access"):
        device.UserspaceUri("xen-hvm")
    with pytest.raises(errors.BlockDeviceError, match="only a hypervisor can reach its data"):
        node.Do(device.Dimensions)


# --- diagnosis ----------------------------------------------------------------------------------------------------------


def test_diagnosis(node: Node) -> None:
    broken = standinstorage.Provider("nas")
    broken.Join(node.machine, tuple(s for s in standinstorage.SCRIPTS if s != "grow"))
    shadowed = f"{pathutils.ES_SEARCH_PATH[1]}/san"
    node.Do(runtime.MakeDirs, shadowed)
    node.Do(runtime.WriteFile, f"{pathutils.ES_SEARCH_PATH[0]}/README", b"")
    node.Do(runtime.MakeDirs, f"{pathutils.ES_SEARCH_PATH[0]}/.hidden")
    rows = node.Do(extprovider.Diagnose)
    assert [row[:3] for row in rows] == [
        ["README", f"{pathutils.ES_SEARCH_PATH[0]}/README", False],
        ["nas", broken.path, False],
        ["san", node.san.path, True],
        ["san", shadowed, False],
    ]
    assert "File 'grow'" in rows[1][3] and "is missing" in rows[1][3]
    assert rows[2][3:] == ["", [["tier", "fast or cheap"], ["replicas", ""]]]
    assert node.san.runs == [], "no script was run, verify neither"
