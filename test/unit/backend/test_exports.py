"""Directories of exports on a simulated node: looking, removing, and a new export that takes the place of an old one."""

from __future__ import annotations

import posixpath
import stat
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from support import cutting
from support.cutting import Cut, Machines
from support.virtual import MakeDisk, MakeInstance, MakeNic

from ganeti import backend, errors, objects, pathutils, runtime
from ganeti.params import exported

TOP = pathutils.EXPORT_DIR
NAME = "guest.example.com"
NEW = NAME + ".new"
OLD_TEXT, NEW_TEXT = b"old content", b"new content"
HAPPENINGS = (cutting.KILLED, cutting.POWER, cutting.FULL)
SAMPLE = 60
_BAD_NAME = "is not a valid name of an export: it must be a single name without '/' that does not begin with '.'"


def _Guest(generation: str, disks: int = 2, name: str = NAME, **more: Any) -> objects.Instance:
    made = [MakeDisk("plain", ["vg", f"disk{index}"], 8, index=index) for index in range(disks)]
    return MakeInstance(name=name, disks=made, osparams={"generation": generation}, **more)


class Node(Machines):
    """One machine; ``Serve`` is one call of a procedure, in a process of its own."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__(["node1"], seed)

    def Serve(self, procedure: str, *args: Any) -> Any:
        return self.Call(backend.Handlers()[procedure], *args)

    def Receive(self, guest: objects.Instance, content: bytes, only: Sequence[int] = ()) -> None:
        """What a transfer leaves: files whose content may not be on the disk yet."""

        def receive() -> None:
            runtime.MakeDirs(posixpath.join(TOP, guest.name + ".new"), 0o750)
            for index, uuid in enumerate(guest.disks):
                if not only or index in only:
                    runtime.WriteFile(posixpath.join(TOP, guest.name + ".new", uuid), content, sync=False)

        self.Call(receive)

    def Finalize(self, guest: objects.Instance, only: Sequence[int] = ()) -> None:
        self.Serve("finalize_export", *_Arguments(guest, only))

    def Export(self, guest: objects.Instance, content: bytes) -> None:
        self.Receive(guest, content)
        self.Finalize(guest)

    def Content(self, name: str = NAME) -> tuple[exported.Export, list[bytes | None]]:
        """What an importer finds: config.ini and the content of each disk."""
        path = posixpath.join(TOP, name)
        found = exported.Parse(self.Serve("export_info", path))
        return found, [disk.dump and self.Call(runtime.ReadFile, f"{path}/{disk.dump}") for disk in found.disks]

    def Names(self, path: str = TOP) -> list[str]:
        return self.Call(runtime.ListDir, path)

    def Mode(self, path: str) -> int:
        return stat.S_IMODE(self.Call(runtime.Stat, path).st_mode)


def _Arguments(guest: objects.Instance, only: Sequence[int] = ()) -> tuple[dict[str, Any], list[Any]]:
    disks = [disk.ToDict(runtime=True) for disk in guest.disks_info or ()]
    return guest.ToDict(runtime=True), [
        disk if not only or index in only else False for index, disk in enumerate(disks)
    ]


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node()
    yield made
    made.Close()


# --- looking ------------------------------------------------------------------------------------------------------------


def test_a_node_that_never_got_an_export_says_so(node: Node) -> None:
    with pytest.raises(errors.RpcCallError, match=rf"no directory of exports \({TOP}\)"):
        node.Serve("export_list")
    node.Call(runtime.MakeDirs, TOP)
    assert node.Serve("export_list") == []


def test_exports_are_listed_by_their_directories(node: Node) -> None:
    node.Export(_Guest("1"), NEW_TEXT)
    node.Receive(_Guest("1", name="other"), NEW_TEXT)
    node.Call(runtime.WriteFile, posixpath.join(TOP, "a-file"), b"")
    node.Call(runtime.Symlink, "nowhere", posixpath.join(TOP, "a-link"))
    assert node.Serve("export_list") == [NAME, "other.new"]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        (f"{TOP}/none", "/none has no complete export: config.ini is missing"),
        (f"{TOP}/{NEW}", "has no complete export"),
        (TOP, "has no complete export"),
        ("/etc", f"Path '/etc/config.ini' is not below {TOP}, the directory of exports"),
        (f"{TOP}/../../../etc", "is not below"),
        (f"{TOP}-other/{NAME}", "is not below"),
        (f"{TOP}/away", r"away/config.ini' \(a link to /elsewhere/config.ini\) is not below"),
        (f"{TOP}/secret", r"\(a link to /etc/config.ini\) is not below"),
    ],
)
def test_only_the_description_of_an_export_can_be_read(node: Node, path: str, problem: str) -> None:
    node.Receive(_Guest("1"), NEW_TEXT)

    def mislead() -> None:
        for top in ("/etc", "/elsewhere", f"{TOP}-other/{NAME}", f"{TOP}/secret"):
            runtime.MakeDirs(top)
        runtime.WriteFile("/elsewhere/config.ini", "[secret]")
        runtime.WriteFile("/etc/config.ini", "[secret]")
        runtime.Symlink("/elsewhere", f"{TOP}/away")
        runtime.Symlink("/etc/config.ini", f"{TOP}/secret/config.ini")

    node.Call(mislead)
    with pytest.raises(errors.RpcCallError, match=problem):
        node.Serve("export_info", path)


def test_the_directory_of_exports_may_be_a_link_itself(node: Node) -> None:
    def link() -> None:
        runtime.MakeDirs("/large/disk")
        runtime.MakeDirs(posixpath.dirname(TOP))
        runtime.Symlink("/large/disk", TOP)

    node.Call(link)
    node.Export(_Guest("1"), NEW_TEXT)
    assert node.Serve("export_list") == [NAME]
    assert node.Content()[1] == [NEW_TEXT, NEW_TEXT]


def test_a_description_that_is_no_text_or_too_long(node: Node) -> None:
    node.Export(_Guest("1"), NEW_TEXT)
    node.Call(runtime.WriteFile, f"{TOP}/{NAME}/config.ini", b"\xff")
    with pytest.raises(errors.RpcCallError, match=r"config\.ini is not UTF-8 text"):
        node.Serve("export_info", f"{TOP}/{NAME}")
    node.Call(runtime.WriteFile, f"{TOP}/{NAME}/config.ini", b"x" * (exported.LIMIT + 1))
    with pytest.raises(errors.RpcCallError, match=r"Reading .*config\.ini failed"):
        node.Serve("export_info", f"{TOP}/{NAME}")


# --- removing -----------------------------------------------------------------------------------------------------------


def test_removing_takes_the_complete_export_and_an_unfinished_one(node: Node) -> None:
    node.Export(_Guest("1"), OLD_TEXT)
    node.Receive(_Guest("2"), NEW_TEXT)
    node.Export(_Guest("1", name="other"), OLD_TEXT)
    node.Serve("export_remove", NAME)
    assert node.Serve("export_list") == ["other"]
    node.Receive(_Guest("2"), NEW_TEXT)
    node.Serve("export_remove", NAME)
    assert node.Serve("export_list") == ["other"]
    with pytest.raises(errors.RpcCallError, match=f"There is no export {NAME} in {TOP}"):
        node.Serve("export_remove", NAME)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../etc", "/etc", "a/b", f"{NAME}/config.ini", ".lock", "x" * 300, "a\nb"]
)
def test_a_name_is_one_part_of_a_path(node: Node, name: str) -> None:
    node.Export(_Guest("1"), OLD_TEXT)
    with pytest.raises(errors.RpcCallError, match=_BAD_NAME):
        node.Serve("export_remove", name)
    assert node.Content()[1] == [OLD_TEXT, OLD_TEXT]


def test_removing_follows_no_links(node: Node) -> None:
    def link() -> None:
        runtime.MakeDirs("/elsewhere")
        runtime.WriteFile("/elsewhere/config.ini", b"keep")
        runtime.MakeDirs(f"{TOP}/{NAME}")
        runtime.Symlink("/elsewhere", f"{TOP}/{NAME}/below")
        runtime.Symlink("/elsewhere", f"{TOP}/{NEW}")
        runtime.Symlink("/elsewhere", f"{TOP}/other")

    node.Call(link)
    node.Serve("export_remove", NAME)
    node.Serve("export_remove", "other")
    assert node.Names() == []
    assert node.Names("/elsewhere") == ["config.ini"]


def test_the_export_of_an_instance_whose_name_ends_so_is_no_left_over(node: Node) -> None:
    node.Export(_Guest("1", name=NEW), OLD_TEXT)
    with pytest.raises(errors.RpcCallError, match=f"holds the export of instance {NEW}; move it away"):
        node.Finalize(_Guest("1"))
    with pytest.raises(errors.RpcCallError, match="There is no export"):
        node.Serve("export_remove", NAME)
    assert node.Content(NEW)[1] == [OLD_TEXT, OLD_TEXT]


# --- completing ---------------------------------------------------------------------------------------------------------


@pytest.mark.req("D20-VAR-01", "D20-VAR-04")
def test_an_export_of_all_disks_and_nics(node: Node) -> None:
    nics = [MakeNic(index, link=f"br{index}") for index in range(3)]
    node.Export(_Guest("1", disks=5, nics=nics), NEW_TEXT)
    found, contents = node.Content()
    assert contents == [NEW_TEXT] * 5 and [nic["link"] for nic in found.nics] == ["br0", "br1", "br2"]
    assert found.osparams == {"generation": "1"} and found.timestamp == int(node.Call(runtime.Time))
    assert node.Mode(f"{TOP}/{NAME}/config.ini") == 0o600
    assert node.Mode(f"{TOP}/{NAME}") == node.Mode(TOP) == 0o750


def test_an_instance_without_disks_has_a_description_only(node: Node) -> None:
    node.Finalize(_Guest("1", disks=0))
    assert node.Content()[0].disks == () and node.Names(f"{TOP}/{NAME}") == ["config.ini"]
    assert node.Mode(f"{TOP}/{NAME}") == node.Mode(TOP) == 0o750


def test_a_disk_that_failed_leaves_no_file(node: Node) -> None:
    guest = _Guest("1", disks=3)
    node.Receive(guest, NEW_TEXT)  # as far as the second one came
    node.Finalize(guest, only=[0, 2])
    found, contents = node.Content()
    assert contents == [NEW_TEXT, None, NEW_TEXT]
    assert node.Names(f"{TOP}/{NAME}") == sorted(["config.ini", guest.disks[0], guest.disks[2]])
    assert [disk.size for disk in found.disks] == [8, 8, 8]


def test_a_disk_without_its_file_is_an_error_and_the_old_export_stays(node: Node) -> None:
    node.Export(_Guest("1"), OLD_TEXT)
    node.Receive(_Guest("2"), NEW_TEXT, only=[0])
    with pytest.raises(
        errors.RpcCallError, match=f"{NAME}: file {_Guest('2').disks[1]}, with the content of a disk, is missing"
    ):
        node.Finalize(_Guest("2"))
    node.Call(runtime.Symlink, "/etc/shadow", f"{TOP}/{NEW}/{_Guest('2').disks[1]}")
    with pytest.raises(errors.RpcCallError, match="is missing from"):
        node.Finalize(_Guest("2"))
    assert node.Content()[1] == [OLD_TEXT, OLD_TEXT]
    instance, disks = _Arguments(_Guest("2"))
    with pytest.raises(errors.RpcCallError, match="has 2 disks, the request names 1"):
        node.Serve("finalize_export", instance, disks[:1])


def test_what_an_earlier_attempt_left_goes(node: Node) -> None:
    node.Receive(_Guest("1", disks=4), OLD_TEXT)
    node.Call(runtime.MakeDirs, f"{TOP}/{NEW}/below")
    node.Export(_Guest("2"), NEW_TEXT)
    assert node.Content()[1] == [NEW_TEXT, NEW_TEXT]
    assert len(node.Names(f"{TOP}/{NAME}")) == 3


@pytest.mark.parametrize("name", ["../../etc", ".", "..", ".replaced-x", "a/b"])
def test_the_name_of_an_instance_cannot_lead_elsewhere(node: Node, name: str) -> None:
    with pytest.raises(errors.RpcCallError, match=_BAD_NAME):
        node.Finalize(_Guest("1", name=name))


def test_an_unfinished_export_that_is_a_link_is_not_touched(node: Node) -> None:
    def link() -> None:
        runtime.MakeDirs("/elsewhere")
        runtime.WriteFile("/elsewhere/keep", b"")
        runtime.MakeDirs(TOP)
        runtime.Symlink("/elsewhere", f"{TOP}/{NEW}")

    node.Call(link)
    with pytest.raises(errors.RpcCallError, match="is a link and not a directory; remove it"):
        node.Finalize(_Guest("1", disks=0))
    assert node.Names("/elsewhere") == ["keep"]


def test_a_directory_that_somebody_else_has_locked(node: Node) -> None:
    node.Export(_Guest("1"), OLD_TEXT)
    node.Receive(_Guest("2"), NEW_TEXT)
    held: list[bool] = []

    def hold() -> None:
        with runtime.LockFile(f"{TOP}/.lock"):
            held.append(True)
            runtime.Sleep(60)

    node.master.StartProcess(hold, "holder")
    node.world.Run(until=lambda: bool(held))
    with pytest.raises(errors.RpcCallError, match=f"{TOP} has been locked by another call for over 30 seconds; try"):
        node.Finalize(_Guest("2"))
    assert node.Content()[1] == [OLD_TEXT, OLD_TEXT]


# --- cut off ------------------------------------------------------------------------------------------------------------


def _Complete() -> int:
    backend.Handlers()["finalize_export"](*_Arguments(_Guest("2")))
    return 0


def _Furnished(seed: int = 1) -> Node:
    node = Node(seed)
    node.Export(_Guest("1"), OLD_TEXT)
    node.Receive(_Guest("2"), NEW_TEXT)
    return node


def _Steps() -> list[str]:
    node = _Furnished()
    assert node.Run(_Complete).code == 0
    assert node.Content()[1] == [NEW_TEXT, NEW_TEXT] and node.Serve("export_list") == [NAME]
    node.Close()
    return list(node.steps)


def _Play(cut: Cut) -> None:
    node = _Furnished()
    try:
        happened = node.Run(_Complete, cut)
        node.Heal()
        found, contents = node.Content()
        expected = {"1": OLD_TEXT, "2": NEW_TEXT}[found.osparams["generation"]]
        assert contents == [expected, expected]
        assert happened.code != 0 or expected == NEW_TEXT, "the call said that it succeeded"
        # The next attempt succeeds and leaves nothing.
        node.Export(_Guest("3"), b"newest")
        found, contents = node.Content()
        assert found.osparams["generation"] == "3" and contents == [b"newest", b"newest"]
        assert [name for name in node.Names() if name != ".lock"] == [NAME]
    finally:
        node.Close()


def test_at_every_moment_the_old_export_or_the_new_one_is_complete() -> None:
    cutting.SweepCuts(_Steps(), SAMPLE, _Play, HAPPENINGS)


def _Remove() -> int:
    backend.Handlers()["export_remove"](NAME)
    return 0


def _Replaced(seed: int = 1) -> Node:
    """A new export has its name; what was there before has not been removed yet."""
    node = _Furnished(seed)
    step = _Steps().index(f"rename {TOP}/{NEW}")
    assert node.Run(_Complete, Cut(step, cutting.AFTER, cutting.KILLED)).code is None
    node.Heal()
    assert [name for name in node.Names() if name != ".lock"] == [f".replaced-{NAME}", NAME]
    return node


def _PlayRemoval(cut: Cut) -> None:
    node = _Replaced()
    try:
        node.Run(_Remove, cut)
        node.Heal()
        if NAME in node.Serve("export_list"):
            try:
                found, contents = node.Content()
            except errors.RpcCallError as err:
                assert "no complete export" in str(err)
            else:
                assert found.osparams["generation"] == "2" and contents == [NEW_TEXT, NEW_TEXT]
            node.Serve("export_remove", NAME)
        assert node.Serve("export_list") == []
    finally:
        node.Close()


def test_an_export_that_is_removed_is_whole_or_none_and_the_one_before_does_not_come_back() -> None:
    node = _Replaced()
    assert node.Run(_Remove).code == 0
    assert node.Names() == [".lock"]
    node.Close()
    cutting.SweepCuts(node.steps, SAMPLE // 3, _PlayRemoval, HAPPENINGS)


# --- side by side -------------------------------------------------------------------------------------------------------


# So many that each place where a lock is missing shows (0.02 s each).
@pytest.mark.parametrize("seed", range(300))
def test_whoever_looks_meanwhile_finds_the_old_export_or_the_new_one(seed: int) -> None:
    node = _Furnished(seed)
    handlers = backend.Handlers()
    seen: list[str] = []

    def look() -> None:
        for _ in range(30):
            assert NAME in handlers["export_list"]()
            found = exported.Parse(handlers["export_info"](f"{TOP}/{NAME}"))
            seen.append(found.osparams["generation"])

    processes = [node.master.StartProcess(work, "call") for work in (look, _Complete)]
    node.world.Run(until=lambda: not any(process.alive for process in processes))
    assert [process.error for process in processes] == [None, None]
    assert seen == sorted(seen) and len(seen) == 30 and set(seen) <= {"1", "2"}
    assert node.Content()[1] == [NEW_TEXT, NEW_TEXT]
    node.Close()


@pytest.mark.parametrize("seed", range(100))
def test_listing_meanwhile_does_not_disturb_removing(seed: int) -> None:
    node = _Replaced(seed)
    handlers = backend.Handlers()

    def look() -> None:
        for _ in range(30):
            handlers["export_list"]()

    processes = [node.master.StartProcess(work, "call") for work in (look, _Remove)]
    node.world.Run(until=lambda: not any(process.alive for process in processes))
    assert [process.error for process in processes] == [None, None]
    assert node.Serve("export_list") == []
    node.Close()
