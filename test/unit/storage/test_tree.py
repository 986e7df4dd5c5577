"""Which layers of a disk a request reaches, and in which order; the drivers only note that they were called."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pytest
from support.virtual import MakeDisk

from ganeti import errors, objects, storage
from ganeti.storage import BlockDev, tree


class Layer(BlockDev):
    """There is everything but what is named in ``missing``."""

    calls: ClassVar[list[tuple[Any, ...]]] = []
    missing: ClassVar[set[str]] = set()

    @property
    def name(self) -> str:
        return str(self.unique_id[-1])

    def Attach(self) -> bool:
        self.attached = self.name not in self.missing
        return self.attached

    def Grow(self, amount: int, dry_run: bool, backing_store: bool, exclusive: bool = False) -> None:
        self.calls.append((self.name, amount, dry_run, backing_store, exclusive))

    def Snapshot(self, name: str | None = None, size: int | None = None) -> list[Any]:
        self.calls.append((self.name, name, size))
        return ["vg", name]

    def SetInfo(self, text: str) -> None:
        self.calls.append((self.name, text))


class Above(Layer):
    """A mirror: its first child has the data, its second one metadata."""

    DATA_CHILD = 0
    CHILDREN_NEEDED = 0


class Cached(Layer):
    """A layer whose data is its second child."""

    DATA_CHILD = 1


@pytest.fixture(autouse=True)
def calls() -> Iterator[list[tuple[Any, ...]]]:
    storage.UseDrivers({"plain": Layer, "drbd": Above, "ext": Cached})
    Layer.calls, Layer.missing = [], set()
    yield Layer.calls
    storage.UseDrivers({})


def _Mirror(*names: str) -> objects.Disk:
    return _Over("drbd", "mirror", [MakeDisk("plain", ["vg", name], 8) for name in names])


def _Over(template: str, name: str, children: Sequence[objects.Disk]) -> objects.Disk:
    return MakeDisk(template, ["a", name], 8, list(children))


def _Grow(disk: objects.Disk, dry_run: bool, backing_store: bool) -> None:
    tree.Grow(disk, 4, dry_run, backing_store, True)


def test_growing_reaches_the_data_first_and_then_what_is_above(calls: list[tuple[Any, ...]]) -> None:
    mirror = _Mirror("data", "meta")
    tower = _Over("ext", "top", [MakeDisk("plain", ["vg", "cache"], 8), mirror])
    for disk in (mirror, tower):
        _Grow(disk, True, True)
        _Grow(disk, False, True)
        _Grow(disk, False, False)
    both = [("data", 4, True, True, True), ("data", 4, False, True, True), ("mirror", 4, False, False, True)]
    assert calls == [*both, *both, ("top", 4, False, False, True)]


def test_a_disk_of_one_layer_grows_in_one_phase(calls: list[tuple[Any, ...]]) -> None:
    disk = MakeDisk("plain", ["vg", "own"], 8)
    _Grow(disk, False, True)
    _Grow(disk, False, False)
    assert calls == [("own", 4, False, True, True)]


def test_a_mirror_that_lost_its_data_does_not_grow(calls: list[tuple[Any, ...]]) -> None:
    Layer.missing = {"data"}
    for disk in (_Mirror("data", "meta"), _Mirror()):
        for backing_store in (True, False):
            with pytest.raises(errors.BlockDeviceError, match=r"drbd a/mirror: its data is missing.*replace-disks -a"):
                _Grow(disk, False, backing_store)
    Layer.missing = {"mirror"}
    with pytest.raises(errors.BlockDeviceError, match="drbd a/mirror: not found on this node"):
        _Grow(_Mirror("data", "meta"), False, True)
    assert calls == []


def test_a_snapshot_is_one_of_the_data(calls: list[tuple[Any, ...]]) -> None:
    Layer.missing = {"mirror"}  # it need not be active
    assert tree.Snapshot(_Mirror("data", "meta"), "snap", 4) == ["vg", "snap"]
    assert tree.Snapshot(MakeDisk("plain", ["vg", "own"], 8), None, None) == ["vg", None]
    assert calls == [("data", "snap", 4), ("own", None, None)]
    with pytest.raises(errors.BlockDeviceError, match="drbd a/mirror: has no data"):
        tree.Snapshot(_Mirror(), None, None)
    Layer.missing = {"data"}
    with pytest.raises(errors.BlockDeviceError, match="plain vg/data: not found"):
        tree.Snapshot(_Mirror("data", "meta"), None, None)


def test_a_note_reaches_every_layer_that_is_there(calls: list[tuple[Any, ...]]) -> None:
    Layer.missing = {"meta"}
    tree.SetInfo(tree.FindOrFail(_Mirror("data", "meta")), "web")
    assert calls == [("data", "web"), ("mirror", "web")]
