"""Images of Ceph on simulated machines with a program ``rbd`` (doc/reference/drivers.md a.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import Machine, World
from support import standinstorage
from support.virtual import MakeDisk

from ganeti import errors, objects, runtime, serializer
from ganeti.storage import looks, tree
from ganeti.storage.drivers import rbd
from ganeti.storage.drivers.rbd import MappedImage

OWNER = "guest.example.com"
MIB = 1 << 20
DATA = Path(__file__).parents[2] / "data" / "rbd"

OURS = [MappedImage("rbd", "0a1b.rbd.disk0", "/dev/rbd0"), MappedImage("backup", "0a1b.rbd.disk0", "/dev/rbd1")]


class Nodes:
    """Two machines that reach one Ceph cluster."""

    def __init__(self, release: str = "nautilus") -> None:
        world = World(1)
        self.ceph = standinstorage.Ceph(release)
        self.one, self.two = (world.AddMachine(name) for name in ("node1", "node2"))
        for machine in (self.one, self.two):
            standinstorage.AddBlockTools(machine)
            self.ceph.Join(machine)

    def Do(self, function: Callable[..., Any], *args: Any, on: Machine | None = None) -> Any:
        return (on or self.one).Call(function, *args)

    def Create(self, name: str = "one", **params: Any) -> objects.Disk:
        disk = Disk(name, **params)
        self.Do(tree.Create, disk, 100, OWNER, True, f"originstname+{OWNER}")
        return disk


def Disk(name: str = "one", **params: Any) -> objects.Disk:
    return MakeDisk("rbd", ["rbd", name], 100, params=params)


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    yield Nodes()


@pytest.mark.parametrize("release", ["argonaut", "luminous", "nautilus"])
def test_every_release_shows_what_is_mapped(release: str) -> None:
    nodes = Nodes(release)
    disk = nodes.Create()
    device = nodes.Do(tree.FindOrFail, disk)
    assert (device.dev_path, device.major, device.minor) == ("/dev/rbd0", 252, 0)
    nodes.Do(tree.Shutdown, disk)
    assert nodes.Do(tree.Find, disk) is None


@pytest.mark.parametrize("release", ["luminous", "nautilus"])
def test_both_forms_of_json_and_the_table(release: str) -> None:
    json = (DATA / f"showmapped-{release}.json").read_text(encoding="utf-8")
    table = (DATA / f"showmapped-{release}.txt").read_text(encoding="utf-8")
    assert rbd.ParseJson(serializer.Load(json)) == OURS, "neither a snapshot nor another namespace is ours"
    assert rbd.ParseTable(table) == OURS
    assert rbd.ParseJson({}) == rbd.ParseJson([]) == rbd.ParseTable("") == []
    assert rbd.ParseJson([{"name": "x", "device": "/dev/rbd0"}]) == [MappedImage(None, "x", "/dev/rbd0")]


@pytest.mark.parametrize("data", [7, "x", [7], {"0": []}, [{"name": "x"}], [{"name": 1, "device": "/dev/rbd0"}]])
def test_json_that_cannot_be_read(data: Any) -> None:
    with pytest.raises(errors.BlockDeviceError, match="'rbd showmapped' printed"):
        rbd.ParseJson(data)


@pytest.mark.parametrize("text", ["rubbish", "0 rbd x - ", "x rbd one - /dev/rbd0", "0 rbd one - sda"])
def test_table_that_cannot_be_read(nodes: Nodes, text: str) -> None:
    nodes.one.programs["rbd"] = lambda invocation: invocation.Print(text)
    with pytest.raises(errors.BlockDeviceError, match="'rbd showmapped' printed a line that cannot be read"):
        nodes.Do(tree.Find, Disk())


@given(st.text(max_size=100))
def test_any_output_is_read_or_rejected(text: str) -> None:
    for parse in (rbd.ParseTable, lambda text: rbd.ParseJson(serializer.Load(text))):
        try:
            parse(text)
        except (errors.BlockDeviceError, errors.ParseError):
            pass


def test_command_lines(nodes: Nodes) -> None:
    disk = nodes.Create(pool="rbd")
    nodes.Do(nodes.Do(tree.FindOrFail, disk).Grow, 50, False, True)
    nodes.Do(tree.Remove, disk)
    assert [" ".join(argv) for argv in nodes.ceph.runs if argv[1] != "showmapped"] == [
        "rbd create -p rbd one --size 100",
        "rbd map -p rbd one",
        "rbd resize -p rbd one --size 150",
        "rbd unmap /dev/rbd0",
        "rbd rm -p rbd one",
    ]
    assert nodes.ceph.images == {}


def test_the_pool_is_a_parameter(nodes: Nodes) -> None:
    nodes.ceph.pools.add("fast")
    nodes.Create("one")
    fast = nodes.Create("one", pool="fast")
    assert nodes.ceph.images == {("rbd", "one"): 100, ("fast", "one"): 100}
    assert nodes.Do(tree.FindOrFail, fast).dev_path == "/dev/rbd1"
    with pytest.raises(errors.BlockDeviceError, match=r"cannot be created in pool slow: .*error opening pool 'slow'"):
        nodes.Create("two", pool="slow")


def test_an_image_that_is_there_is_not_taken_over(nodes: Nodes) -> None:
    nodes.Create()
    with pytest.raises(errors.BlockDeviceError, match=r"exists already in pool rbd; it is left.*'rbd info -p rbd one'"):
        nodes.Create()
    assert nodes.ceph.images == {("rbd", "one"): 100}


def test_an_image_mapped_twice_is_an_error(nodes: Nodes) -> None:
    disk = nodes.Create()
    nodes.ceph.MapTwice(nodes.one, "one")
    before = len(nodes.ceph.runs)
    for step in (tree.FindOrFail, tree.Shutdown, tree.Remove):
        with pytest.raises(
            errors.BlockDeviceError, match="mapped more than once on this node, as /dev/rbd0, /dev/rbd1;"
        ):
            nodes.Do(step, disk)
    assert all(argv[1] == "showmapped" for argv in nodes.ceph.runs[before:]), "nothing was changed"


def test_an_image_lost_or_in_use_elsewhere(nodes: Nodes) -> None:
    with pytest.raises(errors.BlockDeviceError, match=r"does not exist in pool rbd.*'rbd ls -p rbd'.*recreate-disks"):
        nodes.Do(tree.Assemble, Disk("lost"), OWNER, True)
    disk = nodes.Create()
    nodes.Do(tree.Assemble, disk, OWNER, True, on=nodes.two)
    with pytest.raises(errors.BlockDeviceError, match=r"cannot be removed: .*has watchers.*'rbd status -p rbd one'"):
        nodes.Do(tree.Remove, disk)
    nodes.Do(tree.Shutdown, disk, on=nodes.two)
    nodes.Do(tree.Remove, disk)
    assert nodes.ceph.images == {}


def test_an_image_that_cannot_be_mapped_is_removed_again(nodes: Nodes) -> None:
    real = nodes.one.programs["rbd"]

    def rbd_without_module(invocation: Any) -> int | None:
        if invocation.argv[1] != "map":
            return real(invocation)
        invocation.Complain("rbd: sysfs write failed\nrbd: map failed: (6) No such device or address\n")
        return 6

    nodes.one.programs["rbd"] = rbd_without_module
    with pytest.raises(
        errors.BlockDeviceError, match=r"rbd rbd/one: cannot be mapped: .*No such device.*'dmesg'.*removed again"
    ):
        nodes.Create()
    assert nodes.ceph.images == {}


def test_the_program_is_missing_or_hangs(nodes: Nodes) -> None:
    nodes.one.programs["rbd"] = lambda invocation: runtime.Sleep(1e6)
    with pytest.raises(
        errors.BlockDeviceError, match=r"rbd cannot be asked: .*ended after 120 seconds without a result"
    ):
        nodes.Do(tree.Find, Disk())
    del nodes.one.programs["rbd"]
    with pytest.raises(errors.BlockDeviceError, match="rbd cannot be asked: command 'rbd showmapped'"):
        nodes.Do(tree.Find, Disk())


@pytest.mark.parametrize("name", ["-p", "a/b", "a@b", "a b", "", "x" * 129, "a\nb"])
def test_names_that_the_program_never_gets(nodes: Nodes, name: str) -> None:
    for disk in (Disk(name), Disk("one", pool=name)):
        with pytest.raises(errors.BlockDeviceError, match=r"is not the name of a pool|name of an image"):
            nodes.Do(tree.Create, disk, 100, OWNER, True)
    assert nodes.ceph.runs == []


def test_hypervisors_with_a_client_of_their_own(nodes: Nodes) -> None:
    device = nodes.Do(tree.FindOrFail, nodes.Create("one", access="userspace"))
    assert device.UserspaceUri("kvm") == "rbd:rbd/one"
    assert device.UserspaceUri("xen-pvm") is None, "it uses the device"
    assert nodes.Do(tree.FindOrFail, nodes.Create("two")).UserspaceUri("kvm") is None


def test_many_images_are_looked_at_once(nodes: Nodes) -> None:
    disks = [nodes.Create(f"disk{number}") for number in range(5)]

    def look() -> list[Any]:
        with looks.Sharing():
            return [tree.FindOrFail(disk).dev_path for disk in disks]

    before = len(nodes.ceph.runs)
    assert nodes.Do(look) == [f"/dev/rbd{number}" for number in range(5)]
    assert len(nodes.ceph.runs) == before + 1
