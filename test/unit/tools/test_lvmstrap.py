"""lvmstrap on a simulated machine: which disks it takes, and which it never touches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from simulated import Invocation, Machine, World
from support.standinlvm import StandInLvm

from ganeti import constants, errors, runtime
from ganeti.tools import diskscan, lvmstrap

GIB = 1 << 30


class Node:
    """A machine with disks; ``on`` is what each device has on it, ``open``, ``claimed``: who uses it.

    ``writes``: the programs that changed something, in order.
    """

    def __init__(self) -> None:
        self.machine: Machine = World(1).AddMachine("node1")
        self.lvm = StandInLvm(self.machine)
        self.on: dict[str, str] = {}
        self.open: set[str] = set()
        self.claimed: set[str] = set()
        self.writes: list[str] = []
        self.stdin = ""
        for name in ("wipefs", "cmp", "blockdev", "fuser", "file", "parted", "sfdisk"):
            self.machine.programs[name] = getattr(self, f"_{name.capitalize()}")
        for name in ("pvcreate", "vgcreate"):
            self.machine.programs[name] = self._Noting(self.machine.programs[name])
        self.Write("/proc/self/mountinfo", "")
        self.Write("/proc/swaps", "Filename Type Size Used Priority\n")
        self.Call(runtime.MakeDirs, "/sys/block")

    def Call(self, function: Callable[..., Any], *args: Any) -> Any:
        return self.machine.Call(function, *args)

    def Write(self, path: str, text: str) -> None:
        self.Call(runtime.MakeDirs, path.rpartition("/")[0])
        self.Call(runtime.WriteFile, path, text)

    def AddDisk(self, name: str, size: int = 4 * GIB, **facts: Any) -> None:
        for fact, value in {"size": size // 512, "removable": 0, "ro": 0, **facts}.items():
            self.Write(f"/sys/block/{name}/{fact}", f"{value}\n")
        self.Write(f"/sys/block/{name}/dev", f"8:{len(self.Call(runtime.ListDir, '/sys/block')) * 16}\n")
        self.Call(runtime.MakeDirs, f"/sys/block/{name}/holders")
        self.Write(f"/dev/{name}", "")

    def AddPartition(self, disk: str, number: int, size: int = 2 * GIB) -> None:
        folder = f"/sys/block/{disk}/{disk}{number}"
        for fact, value in {"partition": number, "size": size // 512, "ro": 0, "dev": f"8:{200 + number}"}.items():
            self.Write(f"{folder}/{fact}", f"{value}\n")
        self.Call(runtime.MakeDirs, f"{folder}/holders")
        self.Write(f"/dev/{disk}{number}", "")

    def Create(self, *names: str, group: str = "xenvg", removable: bool = False, force: bool = False,
               sfdisk: bool = False) -> int:  # fmt: skip
        return int(self.Call(lvmstrap.Create, group, names, removable, force, sfdisk))

    def Rejects(self, match: str, *names: str, **options: Any) -> None:
        with pytest.raises(errors.OpPrereqError, match=match):
            self.Create(*names, **options)
        assert self.writes == [] and not self.lvm.Count("pvcreate")

    # --- programs -----------------------------------------------------------------------------------------------------

    def _Noting(self, program: Any) -> Callable[[Invocation], int]:
        def run(invocation: Invocation) -> int:
            self.writes.append(" ".join(invocation.argv))
            return int(program(invocation))

        return run

    def _Wipefs(self, invocation: Invocation) -> int:
        path = invocation.argv[-1]
        if "--no-act" in invocation.argv:
            invocation.Print(f"{self.on.get(path, '').replace('unknown', '')}\n")
            return 0
        if path in self.claimed:
            invocation.Complain(f"wipefs: error: {path}: probing initialization failed: Device or resource busy\n")
            return 1
        self.writes.append(" ".join(invocation.argv))
        return 0

    def _Cmp(self, invocation: Invocation) -> int:
        return int(invocation.argv[-2] in self.on)

    def _Blockdev(self, invocation: Invocation) -> int:
        return int(invocation.argv[-1] in self.claimed)

    def _Fuser(self, invocation: Invocation) -> int:
        return int(invocation.argv[-1] not in self.open)

    def _File(self, invocation: Invocation) -> int:
        invocation.Print(
            f"{self.on.get(invocation.argv[-1], 'data')}, or something that takes many more words to tell\n"
        )
        return 0

    def _Parted(self, invocation: Invocation) -> int:
        self.writes.append(" ".join(invocation.argv))
        path = next(word for word in invocation.argv if word.startswith("/dev/"))
        runtime.WriteFile(lvmstrap.PartitionPath(path), "")
        return 0

    def _Sfdisk(self, invocation: Invocation) -> int:
        self.stdin = invocation.stdin.decode()
        return self._Parted(invocation)


@pytest.fixture
def node() -> Node:
    """Two empty disks."""
    node = Node()
    node.AddDisk("sda")
    node.AddDisk("sdb")
    return node


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[], str]]:
    yield lambda: "".join(capsys.readouterr())


def test_a_group_of_all_disks(node: Node, said: Callable[[], str]) -> None:
    assert node.Create() == constants.EXIT_SUCCESS
    assert node.writes == [
        "wipefs --all --quiet /dev/sda",
        "parted --script --align=optimal /dev/sda mklabel msdos mkpart primary 1MiB 100% set 1 lvm on",
        "pvcreate -yff /dev/sda1",
        "wipefs --all --quiet /dev/sdb",
        "parted --script --align=optimal /dev/sdb mklabel msdos mkpart primary 1MiB 100% set 1 lvm on",
        "pvcreate -yff /dev/sdb1",
        "vgcreate -s 64MB xenvg /dev/sda1 /dev/sdb1",
    ]
    assert said() == "Done! xenvg: size 2.00 GiB, disks: sda,sdb\n"
    node.writes.clear()
    with pytest.raises(errors.OpPrereqError, match=r"Volume group 'xenvg' exists already.*--vg-name"):
        node.Create()
    assert node.writes == []


def test_named_disks_of_every_kind(node: Node) -> None:
    node.AddDisk("md0")
    node.AddDisk("nvme0n1", 3 * 10**12)
    node.AddDisk("sdc")
    node.AddPartition("sdc", 1)
    node.AddPartition("sdc", 2)
    node.Create("md0", "nvme0n1", "sdc2", group="data")
    assert "vgcreate -s 64MB data /dev/md0 /dev/nvme0n1p1 /dev/sdc2" in node.writes
    assert [words for words in node.writes if "parted" in words] == [
        "parted --script --align=optimal /dev/nvme0n1 mklabel gpt mkpart primary 1MiB 100% set 1 lvm on"
    ]


def test_with_sfdisk(node: Node) -> None:
    node.AddDisk("sdc", 3 * 10**12)
    node.Create("sda", sfdisk=True)
    assert node.stdin == "label: dos\ntype=8e\n"
    node.Create("sdc", sfdisk=True, group="large")
    assert node.stdin == "label: gpt\ntype=E6D6D379-F507-44C2-A23C-238F2A3DF928\n"


def _Mount(node: Node, line: str) -> None:
    node.Write("/proc/self/mountinfo", f"22 1 0:21 / /proc rw - proc proc rw\n{line}\n")


def _Number(node: Node, path: str) -> str:
    return str(node.Call(runtime.ReadText, f"{path}/dev").strip())


@pytest.mark.parametrize("force", [False, True])
def test_a_disk_in_use_is_never_touched(node: Node, force: bool) -> None:
    """--force does not change that."""

    def rejects(match: str) -> None:
        node.Rejects(f"Disk sdb is in use: {match}", "sdb", force=force)

    node.AddPartition("sdb", 1)
    _Mount(node, f"30 1 {_Number(node, '/sys/block/sdb')} / /srv rw - ext4 /dev/disk rw")
    rejects("it is mounted on /srv")
    _Mount(node, f"30 1 {_Number(node, '/sys/block/sdb/sdb1')} / /srv rw - ext4 /dev/root rw")
    rejects("partition sdb1: it is mounted on /srv")
    _Mount(node, "30 1 0:44 / /srv rw - btrfs /dev/sdb1 rw")
    rejects("partition sdb1: it is mounted on /srv")
    _Mount(node, "")
    node.Write("/proc/swaps", "Filename Type Size Used Priority\n/dev/sdb1 partition 1 0 -1\n")
    rejects("partition sdb1: it is a swap area")
    node.Write("/proc/swaps", "Filename\n")
    node.Write("/sys/block/sdb/sdb1/holders/dm-3", "")
    rejects("partition sdb1: it is used by dm-3")
    node.Call(runtime.RemoveFile, "/sys/block/sdb/sdb1/holders/dm-3")
    node.lvm.AddPv("/dev/sdb1", "other", 100)
    rejects("partition sdb1: it is a physical volume of volume group other")
    del node.lvm.pvs["/dev/sdb1"]
    node.claimed = {"/dev/sdb"}
    rejects("its partition table cannot be read again")
    node.claimed = set()
    node.open = {"/dev/sdb"}
    rejects("a process has it open")
    node.open = {"/dev/sdb1"}
    rejects("partition sdb1: a process has it open")
    node.open = set()
    node.Write("/sys/block/sdb/ro", "1\n")
    rejects("it is read-only")


@pytest.mark.parametrize(
    ("what", "found"), [("ext4 LVM2_member", "ext4, LVM2_member"), ("unknown", "data of an unknown kind")]
)
def test_a_disk_with_something_on_it_must_be_named_and_forced(node: Node, what: str, found: str) -> None:
    node.on["/dev/sdb"] = what
    node.Rejects(f"Disk sdb is not empty: {found}; nothing was changed", "sda", "sdb")
    node.Create("sdb", force=True)
    assert node.writes[0] == "wipefs --all --quiet /dev/sdb"


def test_partitions_count_as_content(node: Node) -> None:
    node.AddPartition("sdb", 1)
    node.Rejects("Disk sdb is not empty: partition sdb1", "sdb")


def test_all_disks_means_the_empty_ones(node: Node, said: Callable[[], str]) -> None:
    node.on["/dev/sda"] = "unknown"
    node.AddDisk("sdc", removable=1)
    node.AddDisk("sdd")
    node.open = {"/dev/sdd"}
    node.AddDisk("sde", 0)  # a reader without a card
    node.AddDisk("loop0")
    node.Create()
    assert node.writes[-1] == "vgcreate -s 64MB xenvg /dev/sdb1"
    assert said().splitlines() == [
        "Done! xenvg: size 1.00 GiB, disks: sdb",
        "Leaving out disk sda: data of an unknown kind",
        "Leaving out disk sdd: in use: a process has it open ('fuser -v' shows which)",
    ]
    node.writes.clear()
    node.on["/dev/sdb"] = "ext4"
    with pytest.raises(errors.OpPrereqError, match="No disk is free and empty, of 3"):
        node.Create(group="more")
    node.Create(group="more", removable=True)
    assert node.writes[-1] == "vgcreate -s 64MB more /dev/sdc1"


@pytest.mark.parametrize(
    ("names", "match"),
    [
        (["sdz"], "Disk sdz is not known, or is removable.*known are: sda, sdb"),
        (["sdc"], "Disk sdc is not known, or is removable and --allow-removable"),
        (["sda", "sda"], "Disk sda or a part of it is named twice"),
        (["sdb1", "sdb"], "Disk sdb or a part of it is named twice"),
        (["sdb1"], "Partition sdb1 is smaller than 1 GiB"),
    ],
)
def test_names_that_cannot_be(node: Node, names: list[str], match: str) -> None:
    node.AddDisk("sdc", removable=1)
    if "sdb1" in names:
        node.AddPartition("sdb", 1, GIB if "sdb" in names else GIB - 512)
    node.Rejects(match, *names)


def test_without_the_means_to_look_nothing_is_done(node: Node) -> None:
    for program, unknown in (
        ("wipefs", "its content is not known"),
        ("cmp", "it cannot be read"),
        ("fuser", "its users cannot be determined"),
    ):
        kept = node.machine.programs.pop(program)
        with pytest.raises(errors.OpExecError, match=f"Disk sda: {unknown}: '{program}' failed"):
            node.Create("sda")
        node.machine.programs[program] = kept
    del node.machine.programs["pvs"]
    with pytest.raises(errors.BlockDeviceError, match="'pvs' failed"):
        node.Create("sda")
    assert node.writes == []


def test_a_disk_taken_by_another_meanwhile(node: Node) -> None:
    """What was prepared before is named."""
    parted = node.machine.programs["parted"]

    def claim(invocation: Invocation) -> int:
        node.claimed.add("/dev/sdb")
        return int(parted(invocation) or 0)

    node.machine.programs["parted"] = claim
    with pytest.raises(errors.OpExecError) as caught:
        node.Create()
    text = str(caught.value)
    assert text.startswith(
        "Disk sdb: cannot be cleared, nothing was written to it: 'wipefs' failed: wipefs: error: /dev/sdb"
    )
    assert text.endswith("these are physical volumes now, 'pvremove' undoes it: /dev/sda1")
    assert not [words for words in node.writes if "sdb" in words]


def test_a_partition_that_does_not_appear(node: Node) -> None:
    node.machine.programs["parted"] = lambda invocation: 0
    with pytest.raises(errors.OpExecError, match="/dev/sda1 was made, but did not appear within 10 s"):
        node.Create("sda")


def test_the_table_of_disks(node: Node, said: Callable[[], str]) -> None:
    node.AddPartition("sda", 1)
    node.AddPartition("sda", 2)
    node.lvm.AddPv("/dev/sda2", "xenvg", 100)
    node.lvm.AddPv("/dev/sdb", "", 100)
    _Mount(node, f"30 1 {_Number(node, '/sys/block/sda/sda1')} / /boot rw - ext4 /dev/sda1 rw")
    node.Call(lvmstrap.ShowDisks)
    assert said().splitlines() == [
        "Name    Size[M]  Used  Mount  LVM?      Info",
        "sda     4096.00  yes   -      -         data, or something that takes many more words",
        "  sda1  2048.00  yes   /boot  -         data, or something that takes many more words",
        "  sda2  2048.00  yes   -      in xenvg  data, or something that takes many more words",
        "sdb     4096.00  no    -      yes,free  data, or something that takes many more words",
    ]
    assert node.writes == []


def test_a_machine_without_disks(said: Callable[[], str]) -> None:
    with pytest.raises(errors.OpPrereqError, match="no disks of a known kind"):
        Node().Call(lvmstrap.ShowDisks)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "One command is expected"),
        (["create", "diskinfo"], "One command is expected"),
        (["create"], "either --alldisks or --disks"),
        (["--alldisks", "-d", "sda", "create"], "either --alldisks or --disks"),
        (["--alldisks", "--force", "create"], "--force works only for disks that --disks names"),
        (["--alldisks", "-g", "../x", "create"], "'../x' is not a valid name of a volume group"),
    ],
)
def test_wrong_command_lines(
    words: list[str], text: str, monkeypatch: pytest.MonkeyPatch, said: Callable[[], str]
) -> None:
    monkeypatch.setattr("sys.argv", ["lvmstrap", *words])
    with pytest.raises(SystemExit) as caught:
        lvmstrap.Main()
    assert caught.value.code == 2 and text in said()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may use it")
def test_from_the_command_line(node: Node, monkeypatch: pytest.MonkeyPatch, said: Callable[[], str]) -> None:
    node.AddDisk("sdc", removable=1)
    node.on["/dev/sdb"] = "ext4"

    def run(*words: str) -> int:
        monkeypatch.setattr("sys.argv", ["lvmstrap", *words])
        return int(node.Call(lvmstrap.Main))

    assert run("--alldisks", "create") == constants.EXIT_SUCCESS
    assert node.writes[-1] == "vgcreate -s 64MB xenvg /dev/sda1", (
        "not the removable one, nor the one with something on it"
    )
    node.writes.clear()
    assert run("-g", "data", "-d", "/dev/sdc,, sdb", "create") == constants.EXIT_FAILURE and node.writes == []
    assert run("-g", "data", "-r", "--force", "-d", "/dev/sdc,, sdb", "create") == constants.EXIT_SUCCESS
    assert node.writes[-1] == "vgcreate -s 64MB data /dev/sdc1 /dev/sdb1" and "parted" in node.writes[1]
    assert run("diskinfo") == constants.EXIT_SUCCESS and "sdc" in said()
    node.Call(runtime.RemoveFile, "/proc/self/mountinfo")
    assert run("diskinfo") == constants.EXIT_FAILURE and "procfs is not mounted" in said()


def test_lines_of_the_kernel_that_are_cut_off_are_passed_over() -> None:
    lines = ["30 1 8:1 / /a rw - ext4 /dev/sda1", "30 1 8:2 / /b rw - ext4", "30 1 8:3 /", ""]
    assert diskscan.ParseMounts("\n".join(lines)) == {"8:1": "/a", "/dev/sda1": "/a"}


def test_a_mount_point_with_any_name() -> None:
    lines = ["30 1 8:1 / /a\u2028\x1c\udcff rw - ext4 /dev/sda1", "30 1 8:2 / /b rw - ext4 /dev/sda2"]
    found = diskscan.ParseMounts("\n".join(lines))
    assert found["/dev/sda1"] == "/a\u2028\x1c\udcff" and found["/dev/sda2"] == "/b"


def test_signatures_as_wipefs_prints_them() -> None:
    assert diskscan.ParseSignatures("ext4\ngpt\ngpt\nPMBR\n") == ["ext4", "gpt", "PMBR"]
    assert diskscan.ParseSignatures("") == []
