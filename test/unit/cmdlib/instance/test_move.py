"""Moving instances whose disks are on one node alone (doc/design-transfers.rst)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from simulated.disk import File
from support.creation import OnDisks
from support.master import Master
from support.simnode import FILE_FOLDER
from support.standinstorage import Write
from support.transferring import Transfers
from unit.cmdlib.instance.test_mirrors import WEB, _EmptyWithFiles

from ganeti import objects, opcodes

CONTENT = [b"the first disk", b"the second disk"]


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_EmptyWithFiles)


class Moving:
    """An instance with two disks on the first node, and what becomes of its data."""

    def __init__(self, master: Master, template: str = "plain", up: bool = True):
        self.master = master
        self.transfers = Transfers(master)
        master.Run(OnDisks(WEB, {"size": 128}, {"size": 256}, disk_template=template, start=up))
        for disk, content in zip(self.disks, CONTENT, strict=True):
            Write(self.File(0, disk), content)

    @property
    def web(self) -> objects.Instance:
        return self.master.Instance(WEB)

    @property
    def disks(self) -> tuple[objects.Disk, ...]:
        return self.master.snapshot.InstanceDisks(self.web)

    @property
    def home(self) -> int:
        return self.master.nodes.index(self.web.primary_node)

    def File(self, number: int, disk: objects.Disk) -> File:
        path = "/".join(map(str, disk.logical_id)) if disk.dev_type == "plain" else disk.logical_id[1]
        file = self.master[number].machine.disk.Lookup(f"/dev/{path}" if disk.dev_type == "plain" else path)
        assert isinstance(file, File), f"{path} is not on node{number + 1}"
        return file

    def Content(self) -> list[bytes]:
        """What the disks hold where the configuration says that they are."""
        assert all(disk.nodes == (self.web.primary_node,) for disk in self.disks)
        return [self.File(self.home, disk).data for disk in self.disks]

    def Left(self) -> list[list[str]]:
        """The names of what lies on each node."""
        return [[*node.lvm.Volumes(), *node.Names(f"{FILE_FOLDER}/{WEB}")] for node in self.master.all]

    def Counts(self) -> list[int]:
        return [len(names) for names in self.Left()]

    def Guests(self) -> list[int]:
        return [number for number, node in enumerate(self.master.all) if WEB in node.guests]


def _Move(target: str = "node2", **values: Any) -> opcodes.OpInstanceMove:
    return opcodes.OpInstanceMove(instance_name="web", target_node=target, ignore_ipolicy=True, **values)


# --- what becomes of the instance -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("template", ["plain", "file"])
def test_a_running_instance_goes_to_another_node_with_its_data(three: Master, template: str) -> None:
    moving = Moving(three, template)
    before = moving.disks
    assert three.Run(_Move(compress="gzip")) is None
    assert moving.home == 1 and moving.Guests() == [1] and moving.Content() == CONTENT
    assert moving.Counts() == [0, 2, 0] and WEB not in three[0].Names(FILE_FOLDER)
    assert (moving.web.admin_state, moving.web.disks_active) == ("up", True)
    assert [disk.logical_id for disk in moving.disks] == [disk.logical_id for disk in before]
    assert moving.transfers.done == [
        ("node1.example.org", "node2.example.org", f"disk{index}", "gzip") for index in range(2)
    ]
    assert moving.transfers.programs == {}, "nothing is left of the programs"
    three.Run(_Move("node1"))
    assert moving.home == 0 and moving.Guests() == [0] and moving.Content() == CONTENT
    assert moving.Counts() == [2, 0, 0]
