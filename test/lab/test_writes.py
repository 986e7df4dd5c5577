"""The judge of the laboratory's writes: a lost write must be noticed before a cluster is trusted to it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.lab import QEMU, TREE
from support.programs import Load

from lab.files import MakeGuestDisk
from lab.writes import Judge

writer = Load(TREE / "test" / "lab" / "inside" / "writer.py")
MIB = 1 << 20


def test_every_place_is_judged_by_its_last_acknowledged_write() -> None:
    acknowledged = [(1, 0), (2, 4096), (9, 0)]
    assert Judge(0, acknowledged, {0: (0, 9), 4096: (0, 2)}) == []
    assert Judge(0, acknowledged, {0: (0, 12), 4096: (0, 2)}) == [], "12 was written, and nobody heard of it"
    [lost] = Judge(0, acknowledged, {0: (0, 1), 4096: (0, 2)})
    assert "write 9 of writer 0 is lost, 1 of writer 0 is there" in lost
    [lost] = Judge(0, acknowledged, {0: (0, 9), 4096: None})
    assert "write 2 of writer 0 is not there" in lost
    [lost] = Judge(0, acknowledged, {0: (1, 9), 4096: (0, 2)})
    assert "9 of writer 1" in lost


def test_half_a_block_and_another_ones_block_do_not_count() -> None:
    block = writer.Content("inst1-1", 1, 77, 8192)
    assert len(block) == writer.BLOCK and writer.Parse("inst1-1", 8192, block) == (1, 77)
    older = writer.Content("inst1-1", 1, 76, 8192)
    assert writer.Parse("inst1-1", 8192, block[:2048] + older[2048:]) is None
    assert writer.Parse("inst1-2", 8192, block) is None
    assert writer.Parse("inst1-1", 4096, block) is None
    assert writer.Parse("inst1-1", 0, bytes(writer.BLOCK)) is None


def test_nodes_never_share_a_place_whatever_the_size() -> None:
    places: dict[int, set[int]] = {0: set(), 1: set()}
    for size in (64 * MIB, 128 * MIB, 100 * MIB + 4096):
        for node in (0, 1):
            found = {writer.Place(number, node, 2, size) for number in range(5000)}
            assert len(found) >= writer.PLACES and max(found) > size * 9 // 10, "the whole disk is used"
            assert all(offset % writer.BLOCK == 0 and offset + writer.BLOCK <= size for offset in found)
            places[node] |= found
    assert not places[0] & places[1]


def test_a_guest_runs_where_its_record_says_so(tmp_path: Path) -> None:
    records = str(tmp_path)
    assert not writer.Runs("inst1", records)
    for text, runs in (("0\n64\n1\n", True), ("0\n64\n1\nsent\n", False), ("0\n64\n1\narriving\n", False)):
        (tmp_path / "inst1").write_text(text, encoding="ascii")
        assert writer.Runs("inst1", records) is runs


def test_a_guest_in_qemu_says_what_it_has_written(tmp_path: Path) -> None:
    disk = MakeGuestDisk(tmp_path / "disk")
    said = [number for _ in range(2) for number in _NumbersOfOneStart(disk)]
    assert said == [start << 24 | number for start in (1, 2) for number in range(1, 31)]
    acknowledged = [(number, writer.SectorOffset(number)) for number in said]
    for start in (1, 2):
        assert Judge(start, _OfStart(acknowledged, start), _Found(disk, acknowledged)) == []
    number, offset = acknowledged[-1]
    with open(disk, "r+b") as stream:
        stream.seek(offset + writer.SECTOR // 2)
        stream.write(bytes(writer.SECTOR // 2))
    [lost] = Judge(2, _OfStart(acknowledged, 2), _Found(disk, acknowledged))
    assert f"write {number} of writer 2 is not there" in lost


def _NumbersOfOneStart(disk: Path) -> list[int]:
    """Start QEMU, and end it by force after thirty writes."""
    argv = [QEMU, "-accel", "tcg", "-m", "64", "-vga", "none", "-net", "none", "-display", "none", "-monitor", "none"]
    argv += ["-drive", f"file={disk},format=raw,if=virtio", "-serial", "stdio"]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            return [int(process.stdout.readline(), 16) for _ in range(30)]
        finally:
            process.kill()


def _OfStart(acknowledged: list[tuple[int, int]], start: int) -> list[tuple[int, int]]:
    return [(number, offset) for number, offset in acknowledged if number >> writer.START == start]


def _Found(disk: Path, acknowledged: list[tuple[int, int]]) -> dict[int, tuple[int, int] | None]:
    data = disk.read_bytes()
    return {offset: writer.ParseSector(offset, data[offset : offset + writer.SECTOR]) for _, offset in acknowledged}
