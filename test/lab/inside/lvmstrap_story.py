"""lvmstrap on real disks; runs in a node with the empty disks ``vda`` and ``vdb``, of which the first gets a partition."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator

import pytest

from ganeti import errors
from ganeti.tools import diskscan, lvmstrap

SECTORS = 3 << 20  # 1.5 GiB


def Run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def Partition(path: str) -> None:
    """Writes a partition table with one partition, as no program for that need be on the machine."""
    entry = struct.pack("<B3sB3sII", 0, b"\0\0\0", 0x83, b"\0\0\0", 2048, SECTORS)
    with open(path, "r+b") as disk:
        disk.write(bytes(446) + entry + bytes(48) + b"\x55\xaa")
    Run("blockdev", "--rereadpt", path)


@pytest.fixture(autouse=True)
def prepared() -> Iterator[None]:
    Partition("/dev/vda")
    yield
    for path in ("/dev/vda", "/dev/vdb"):
        Run("wipefs", "--all", "--force", path)
        with open(path, "r+b") as disk:
            disk.write(bytes(4 << 20))
        Run("blockdev", "--rereadpt", path)


def test_a_partition_becomes_a_volume_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert lvmstrap.Create("strap", ["vda1"], removable=False, force=False, sfdisk=False) == 0
    assert capsys.readouterr().out == "Done! strap: size 1.44 GiB, disks: vda1\n"
    assert Run("vgs", "--noheadings", "-ovg_extent_size,pv_count", "--units=m", "strap").split() == ["64.00m", "1"]
    lvmstrap.ShowDisks()
    rows = {words[0]: words for line in capsys.readouterr().out.splitlines() if (words := line.split())}
    assert rows["vda1"][1:5] == ["1536.00", "yes", "-", "in"] and rows["vda"][2] == "yes" and rows["vdb"][2] == "no"
    for force in (False, True):
        with pytest.raises(errors.OpPrereqError, match="partition vda1: it is a physical volume of volume group strap"):
            lvmstrap.Create("other", ["vda"], removable=False, force=force, sfdisk=False)
    Run("vgremove", "-q", "-f", "strap")


def test_what_is_in_use_or_not_empty_is_rejected() -> None:
    Run("mkfs.ext4", "-q", "/dev/vdb")
    with pytest.raises(errors.OpPrereqError, match="Disk vdb is not empty: ext4"):
        lvmstrap.Create("strap", ["vdb"], removable=False, force=False, sfdisk=False)
    Run("mount", "/dev/vdb", "/mnt")
    try:
        with pytest.raises(errors.OpPrereqError, match="Disk vdb is in use: it is mounted on /mnt"):
            lvmstrap.Create("strap", ["vdb"], removable=False, force=True, sfdisk=False)
    finally:
        Run("umount", "/mnt")
    with open("/dev/vdb", "rb"), pytest.raises(errors.OpPrereqError, match="a process has it open"):
        lvmstrap.Create("strap", ["vdb"], removable=False, force=True, sfdisk=False)
    with pytest.raises(errors.OpPrereqError, match="Disk vda is not empty: partition vda1"):
        lvmstrap.Create("strap", ["vda"], removable=False, force=False, sfdisk=False)
    assert "ext4" in Run("blkid", "-p", "/dev/vdb")


def test_data_without_a_signature_counts() -> None:
    with open("/dev/vdb", "r+b") as disk:
        disk.seek(500_000)
        disk.write(b"precious")
    [disk] = [disk for disk in diskscan.Disks() if disk.name == "vdb"]
    assert diskscan.Contents(disk) == ["data of an unknown kind"]


def test_a_disk_that_the_kernel_gave_away_is_not_written_to() -> None:
    """What wipefs is called first for: device mapper has the disk, and nobody looked again."""
    Run("pvcreate", "-q", "-y", "/dev/vdb")
    Run("vgcreate", "-q", "taken", "/dev/vdb")
    Run("lvcreate", "-q", "-y", "-Wn", "-L64m", "-nlv", "taken")
    [disk] = [disk for disk in diskscan.Disks() if disk.name == "vdb"]
    with pytest.raises(errors.OpExecError, match=r"Disk vdb: cannot be cleared, nothing was written to it.*busy"):
        lvmstrap.Prepare(disk, sfdisk=False)
    assert Run("vgs", "--noheadings", "-ovg_name").split() == ["taken"]
    Run("vgremove", "-q", "-f", "taken")
