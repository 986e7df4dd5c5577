"""Mirrors of two simulated machines with the programs of DRBD and LVM (doc/design-drbd.rst, doc/reference/drivers.md a.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.mirrorpair import Layers, Pair, Side
from support.mirrors import SECRET, MakeMirror
from support.virtual import MakeInstance

from ganeti import backend, constants, errors, runtime
from ganeti.storage.utilities import drbdtools, lvmtools

MIB = 1 << 20


@pytest.fixture
def pair() -> Iterator[Pair]:
    yield Pair()


@pytest.fixture
def mirror(pair: Pair) -> Pair:
    return pair.Create()


def test_a_new_mirror_fills_its_other_side(pair: Pair) -> None:
    one, two = pair.one, pair.two
    pair.links.hold = True
    pair.Create()
    assert (one.State(), two.State()) == (
        ("SyncSource", "Primary", "UpToDate", False),
        ("SyncTarget", "Secondary", "Inconsistent", False),
    )
    status = two.Do("blockdev_find", two.Disk())
    assert (status["dev_path"], status["major"], status["minor"]) == ("/dev/drbd0", 147, 0)
    assert (status["sync_percent"], status["estimated_time"], status["is_degraded"], status["ldisk_status"]) == (
        11.8, 163.0, True, 2)  # fmt: skip
    assert two.Do("drbd_wait_sync", [two.Disk()]) == [False, 11.8]
    pair.links.Finish()
    assert one.Do("drbd_wait_sync", [one.Disk()]) == [True, 100.0]
    assert one.Do("blockdev_find", one.Disk())["is_degraded"] is False
    assert one.Do("blockdev_getdimensions", [one.Disk()]) == [[64 * MIB, None]]
    assert one.Do("drbd_states")["0"] == {
        "connected": True, "standalone": False, "in_resync": False, "local_uptodate": True, "peer_uptodate": True,
        "sync_percent": None, "primary": True, "frozen": False, "size": 64 * MIB, "incomplete": False,
        "disk": "UpToDate", "stranger": None, "peer_primary": False, "peer_older": False,
    }  # fmt: skip
    assert "after-sb" not in str(one.drbd.runs)
    assert one.device.options["fencing"] == two.device.options["fencing"] == "resource-and-stonith"


def test_creation_that_fails_leaves_nothing(pair: Pair) -> None:
    one = pair.one
    one.Create(True, one.Disk(name="other"))
    runs = len(one.drbd.runs)
    problem = r"in use already by minor 0 \(resource0\).*left as it is"
    one.Fail(problem, "blockdev_create", *Layers(one, one.Disk()), 64, "x", True, "", False)
    for number, (size, problem) in enumerate(((64, "must have 128 to 1024"), (1028, "must have 128 to 1024"))):
        disk = one.Disk(name=f"n{number}", minor=3, port=11003)
        data, meta = disk.children
        one.Do("blockdev_create", data, 64, "x", True, "", False)
        one.Do("blockdev_create", meta, size, "x", True, "", False)
        one.Fail(problem, "blockdev_create", disk, 64, "x", True, "", False)
    small = one.Disk(name="small", minor=3, port=11003)
    for child, size in zip(small.children, (32, 128), strict=True):
        one.Do("blockdev_create", child, size, "x", True, "", False)
    one.Fail("data volume is smaller than 64 MiB", "blockdev_create", small, 64, "x", True, "", False)
    one.Fail("exclusive storage", "blockdev_create", small, 64, "x", True, "", True)
    taken = one.Disk(name="taken", minor=4, port=11004)
    one.Do("blockdev_create", taken.children[0], 64, "x", True, "", False)
    taken = taken.Replace(children=(taken.children[0], one.Disk(name="other").children[1]))
    one.Fail("metadata volume .* is in use by minor 0", "blockdev_create", taken, 64, "x", True, "", False)
    assert list(one.drbd.devices) == [0]
    assert {argv[0] for argv in one.drbd.runs[runs:]} <= {"drbdsetup", "dd"}
    one.machine.programs["drbdsetup"] = _FailingOn(one.machine.programs["drbdsetup"], "connect", SECRET)
    fine = one.Disk(name="fine", minor=5, port=11005)
    one.Fail(r"cannot be connected: 'drbdsetup connect' failed with exit code 10: .*\*\*\*", "blockdev_create",
             *Layers(one, fine), 64, "x", True, "", False)  # fmt: skip
    assert list(one.drbd.devices) == [0], "what was brought up in vain is taken down again"
    instance = MakeInstance().ToDict(runtime=True)
    one.Fail("cannot be connected", "blockdev_assemble", one.Disk(name="fine", minor=5, port=11005), instance, False, 0)
    assert list(one.drbd.devices) == [0]


def _FailingOn(program: Any, command: str, text: str) -> Any:
    def run(invocation: Any) -> int:
        if invocation.argv[1] == command:
            invocation.Complain(f"command line was {text}\n")
            return 10
        return int(program(invocation) or 0)

    return run


@pytest.mark.req("D20-DISK-05")
def test_a_device_that_is_ours_is_taken_as_it_is(mirror: Pair) -> None:
    one = mirror.one
    before = one.State(), one.device
    one.drbd.runs.clear()
    one.Assemble(one.Disk(), primary=True)
    assert (one.State(), one.device) == before
    changing = {
        "new-resource",
        "new-minor",
        "attach",
        "connect",
        "disconnect",
        "down",
        "detach",
        "create-md",
        "primary",
    }
    assert not changing.intersection(word for argv in one.drbd.runs for word in argv[1:2])


@pytest.mark.req("D20-DISK-13")
def test_sides_with_different_secrets_do_not_connect(pair: Pair) -> None:
    one, two = pair.one, pair.two
    one.Create(True)
    strange = two.Disk()
    strange = strange.Replace(logical_id=(*strange.logical_id[:5], "f" * 20))
    for layer in (*strange.children, strange):
        two.Do("blockdev_create", layer, layer.size, "guest", False, "note", False)
    [connect] = [argv for argv in one.drbd.runs if argv[1] == "connect"]
    assert {"--cram-hmac-alg=md5", f"--shared-secret={SECRET}"} <= set(connect)
    assert two.State()[2] == "Inconsistent" and not {one.device.link, two.device.link} & {"Connected", "SyncTarget"}


def test_removed_without_its_children(mirror: Pair) -> None:
    """As the master removes layer by layer what it made in vain."""
    one, bare = mirror.one, mirror.one.Disk().Replace(children=())
    one.Do("blockdev_remove", one.Disk(port=11009).Replace(children=()))
    assert one.State() == ("Connected", "Primary", "UpToDate", False), "another link is not ours"
    one.Do("blockdev_remove", bare)
    assert one.drbd.devices == {}


def test_opening_needs_the_other_side(mirror: Pair) -> None:
    one, two = mirror.one, mirror.two
    two.Fail("is open on the other node", "blockdev_open", "", [two.Disk()], True)
    for side in (one, two):
        side.Do("blockdev_shutdown", side.Disk())
    one.Assemble(one.Disk())
    assert one.State() == ("WFConnection", "Secondary", "Consistent", False)
    one.Fail(r"did not answer within 30 s \(WFConnection\)", "blockdev_open", "", [one.Disk()], True)
    two.Assemble(two.Disk())
    one.Assemble(one.Disk(), primary=True)
    assert one.State() == ("Connected", "Primary", "UpToDate", False)


def test_a_lost_link_and_the_record(mirror: Pair) -> None:
    one, two = mirror.one, mirror.two
    mirror.links.Cut()
    assert one.State() == ("WFConnection", "Primary", "UpToDate", True)
    assert one.Do("drbd_states")["0"]["frozen"] is True
    one.Do("drbd_follow", [one.Disk("counts")])
    assert one.device.frozen, "it still has to wait"
    two.Do("drbd_follow", [two.Disk("ahead")])
    assert two.device.disk == "Outdated"
    one.Do("drbd_follow", [one.Disk("behind")])
    assert not one.device.frozen and one.device.options["fencing"] == "dont-care"
    two.Fail("bring that node back, or .*failover INSTANCE", "blockdev_open", "", [two.Disk("ahead")], True)
    mirror.links.Heal()
    assert two.State() == ("Connected", "Secondary", "UpToDate", False)
    for side in (one, two):
        side.Do("drbd_follow", [side.Disk("counts")])
        assert side.device.options["fencing"] == "resource-and-stonith"


def test_a_late_call_does_not_turn_fencing_off(mirror: Pair) -> None:
    one = mirror.one
    mirror.links.Cut()
    one.Do("drbd_follow", [one.Disk("behind", decision=1)])
    mirror.links.Heal()
    one.Do("drbd_follow", [one.Disk("counts", decision=2)])
    late = one.Disk("behind", decision=1)
    for name, args in (
        ("drbd_follow", [[late]]),
        ("blockdev_open", ["", [late], True]),
        ("blockdev_assemble", [late, MakeInstance().ToDict(runtime=True), True, 0]),
        ("blockdev_removechildren", [late, list(late.children)]),
    ):
        one.Fail("outdated: it follows decision 1 .* already follows decision 2", name, *args)
    assert one.device.options["fencing"] == "resource-and-stonith"
    mirror.links.Cut()
    assert one.device.frozen
    one.Fail("this call is outdated", "drbd_follow", [late])
    assert one.device.frozen, "nobody decided that it continues alone"
    one.Do("drbd_follow", [one.Disk("behind", decision=3)])
    assert not one.device.frozen


def test_a_call_that_hangs_lets_no_other_one_pass(mirror: Pair) -> None:
    one = mirror.one
    program = one.machine.programs["drbdsetup"]

    def hang(invocation: Any) -> int:
        if invocation.argv[1] == "disk-options":
            one.machine.programs["drbdsetup"] = program
            runtime.Sleep(50.0)
        return int(program(invocation) or 0)

    one.machine.programs["drbdsetup"] = hang
    one.machine.StartProcess(
        lambda: backend.Handlers()["drbd_follow"]([one.Disk("behind", decision=1).ToDict(runtime=True)]), "hangs"
    )
    one.Fail("another call has been working on it for more than 30 s", "drbd_follow", [one.Disk("counts", decision=2)])
    one.Do("drbd_follow", [one.Disk("counts", decision=2)])
    assert one.device.options["fencing"] == "resource-and-stonith"


def test_a_side_that_is_behind_is_opened_beside_a_complete_one_only(mirror: Pair) -> None:
    one, two = mirror.one, mirror.two
    mirror.links.Cut()
    one.Do("drbd_follow", [one.Disk("behind")])
    two.Assemble(two.Disk("ahead"))
    again = r"is behind \(Outdated, WFConnection\).*bring that node back.*'gnt-instance failover INSTANCE'"
    two.Fail(again, "blockdev_open", "", [two.Disk("ahead")], True)
    one.Do("blockdev_close", "", [one.Disk()])
    mirror.links.hold = True
    mirror.links.Heal()
    assert two.State() == ("SyncTarget", "Secondary", "Inconsistent", False)
    two.Do("blockdev_open", "", [two.Disk("ahead")], True)
    assert two.device.role == "Primary", "its own data is not taken for complete, the other side serves it"


def test_a_side_that_is_filled_by_one_that_does_not_count_is_opened(mirror: Pair) -> None:
    """Somebody has accepted a loss meanwhile: what fills it is not older, as the two have been compared."""
    one, two = mirror.one, mirror.two
    mirror.links.Cut()
    one.Do("drbd_follow", [one.Disk("behind")])
    one.Do("blockdev_close", "", [one.Disk()])
    mirror.links.hold = True
    mirror.links.Heal()
    assert two.State() == ("SyncTarget", "Secondary", "Inconsistent", False)
    two.Do("blockdev_open", "", [two.Disk("behind")], True)
    assert two.device.role == "Primary"


def _Detach(side: Side) -> None:
    """The disk below fails."""
    side.drbd._DoDetach(["0"], {"force": "yes"})
    side.drbd._links.Publish()


def test_a_side_that_is_behind_is_not_opened_beside_one_without_a_disk(mirror: Pair) -> None:
    one, two = mirror.one, mirror.two
    one.Do("blockdev_close", "", [one.Disk()])
    two.device.disk = "Outdated"
    _Detach(one)
    two.Fail(r"is behind \(Outdated, Connected\)", "blockdev_open", "", [two.Disk("ahead")], True)
    assert two.device.role == "Secondary"


def test_the_kernel_forgets_beside_a_side_without_a_disk_that_the_other_one_is_outdated(mirror: Pair) -> None:
    """The record does not: neither is the outdated side opened, nor does it serve the one without a disk."""
    one, two = mirror.one, mirror.two
    one.Do("blockdev_close", "", [one.Disk()])
    mirror.links.Cut()
    two.Do("drbd_follow", [two.Disk("ahead")])
    _Detach(one)
    mirror.links.Heal()
    assert (one.State(), two.State()) == (
        ("Connected", "Secondary", "Diskless", False),
        ("Connected", "Secondary", "UpToDate", False),
    )
    two.Fail(r"is behind \(UpToDate, Connected\)", "blockdev_open", "", [two.Disk("ahead")], True)
    one.Fail(r"is not complete \(Diskless\)", "blockdev_open", "", [one.Disk("behind")], True)
    assert one.device.role == two.device.role == "Secondary"


@pytest.mark.parametrize("left_open", [False, True])
@pytest.mark.parametrize(("failed", "disks"), [(0, "Diskless on this .* UpToDate on"), (1, "UpToDate on .* Diskless")])
def test_nothing_is_opened_before_it_is_recorded_which_side_lacks_its_disk(
    mirror: Pair, failed: int, disks: str, left_open: bool
) -> None:
    """Or all that is written until the keeper sees it would be on one leg, also if nobody has closed it since the last time."""
    one = mirror.one
    if not left_open:
        one.Do("blockdev_close", "", [one.Disk()])
    _Detach((one, mirror.two)[failed])
    one.Fail(f"{disks}.*activate-disks INSTANCE", "blockdev_open", "", [one.Disk("counts")], True)
    assert one.device.role == ("Primary" if left_open else "Secondary")
    one.Do("blockdev_open", "", [one.Disk("behind" if failed else "ahead", decision=1)], True)
    assert one.device.role == "Primary"


def test_a_served_side_connects_anew(mirror: Pair) -> None:
    """The kernel lets no open side give up its data; this one has none."""
    one = mirror.one
    _Detach(one)
    one.lvm.lvs.clear()
    one.Do("drbd_follow", [one.Disk("ahead")])
    one.Do("drbd_disconnect_net", [one.Disk("ahead")])
    one.Assemble(one.Disk("ahead"), primary=True)
    mirror.links.Connect()
    assert one.device.link == "Connected" and one.device.role == "Primary"


@pytest.mark.parametrize(
    ("state", "opens"), [("UpToDate", True), ("Consistent", True), ("Outdated", True), ("Inconsistent", False)]
)
def test_opened_alone_when_the_other_side_is_behind(mirror: Pair, state: str, opens: bool) -> None:
    two = mirror.two
    mirror.links.Cut()
    two.device.disk = state
    mirror.links.Publish()
    if opens:
        two.Assemble(two.Disk("behind"), primary=True)
        assert two.device.role == "Primary"
    else:
        two.Assemble(two.Disk("behind"))
        two.Fail(r"is not complete \(Inconsistent\)", "blockdev_open", "", [two.Disk("behind")], True)
        assert two.device.role == "Secondary"


def test_a_node_that_has_just_died_still_looks_alive(mirror: Pair) -> None:
    two = mirror.two
    two.Fail("is open on the other node", "blockdev_open", "", [two.Disk("behind")], True)

    def die() -> None:
        runtime.Sleep(10)
        mirror.links.Cut()

    two.machine.StartProcess(die, "die")
    two.Assemble(two.Disk("behind"), primary=True)
    assert two.State() == ("WFConnection", "Primary", "UpToDate", False)


def test_a_primary_that_was_left_behind_is_released_and_filled_again(mirror: Pair) -> None:
    one, two = mirror.one, mirror.two
    mirror.links.Cut()
    two.Assemble(two.Disk("behind"), primary=True)
    mirror.links.Heal()
    assert one.device.link == two.device.link == "StandAlone"
    assert one.device.frozen and one.Do("drbd_needs_activation", [one.Disk()])
    one.device.held_open = True
    one.Fail("held open", "blockdev_shutdown", one.Disk("counts"))
    one.Do("drbd_follow", [one.Disk("ahead")])
    assert one.State() == ("StandAlone", "Primary", "UpToDate", True), "it waits until it is closed"
    one.Fail("held open", "blockdev_shutdown", one.Disk("ahead"))
    assert one.device.disk == "Diskless"
    one.device.held_open = False
    one.Do("blockdev_shutdown", one.Disk("ahead"))
    one.Assemble(one.Disk("ahead"))
    assert one.State() == ("WFConnection", "Secondary", "Outdated", False)
    two.Assemble(two.Disk("behind"))
    assert (one.State(), two.State()) == (
        ("Connected", "Secondary", "UpToDate", False),
        ("Connected", "Primary", "UpToDate", False),
    )


def test_somebody_looks_at_the_device_when_it_is_closed(mirror: Pair) -> None:
    """As udev's programs do for a moment after each write."""
    one, tries = mirror.one, []
    program = one.machine.programs["drbdsetup"]

    def run(invocation: Any) -> int:
        if invocation.argv[1] == "secondary":
            tries.append(invocation.argv)
            one.device.held_open = len(tries) < 4
        return int(program(invocation) or 0)

    one.machine.programs["drbdsetup"] = run
    one.Do("blockdev_close", "", [one.Disk()])
    assert one.State() == ("Connected", "Secondary", "UpToDate", False) and len(tries) == 4


def test_a_split_brain_is_solved_by_the_record_only(mirror: Pair) -> None:
    one, two = mirror.one, mirror.two
    mirror.links.Cut()
    one.Do("drbd_follow", [one.Disk("behind")])
    two.Assemble(two.Disk("behind"), primary=True)
    mirror.links.Heal()
    assert one.device.link == two.device.link == "StandAlone"
    one.Do("blockdev_close", "", [one.Disk()])
    one.Fail("StandAlone.*gnt-cluster verify", "blockdev_open", "", [one.Disk()], True)
    two.Assemble(two.Disk("counts"))
    one.Assemble(one.Disk("counts"))
    assert one.device.link == "StandAlone"
    one.Assemble(one.Disk("ahead"))
    two.Assemble(two.Disk("behind"))
    assert one.State() == ("Connected", "Secondary", "UpToDate", False)
    assert one.device.known.now == two.device.known.now


def test_only_a_closed_side_that_gives_way_gets_a_new_link(mirror: Pair) -> None:
    """The kernel takes ``--discard-my-data`` from no open side: a link that was dropped could not be made anew."""
    one, two = mirror.one, mirror.two
    mirror.links.Cut()
    one.drbd.runs.clear()
    one.Assemble(one.Disk("ahead"))
    assert one.State() == ("WFConnection", "Primary", "UpToDate", True)
    assert not one.drbd.Count("disconnect") and not one.drbd.Count("connect")
    two.drbd.runs.clear()
    for peer in ("counts", "behind"):
        two.Assemble(two.Disk(peer))
    assert not two.drbd.Count("disconnect") and not two.drbd.Count("connect"), "it has nothing to give up"
    two.Assemble(two.Disk("ahead"))
    assert two.drbd.Count("disconnect") == two.drbd.Count("connect") == 1 and two.device.discard
    mirror.links.hold = True
    one.Do("drbd_follow", [one.Disk("behind")])
    mirror.links.Heal()
    assert two.device.link == "SyncTarget"
    two.Assemble(two.Disk("ahead"))
    assert two.device.link == "SyncTarget" and two.drbd.Count("disconnect") == 1, "it goes on being filled"


def test_local_storage_is_exchanged(mirror: Pair) -> None:
    one = mirror.one
    disk = one.Disk()
    one.Fail("has local storage already", "blockdev_addchildren", disk, list(disk.children))
    one.Fail("are not those it has", "blockdev_removechildren", disk, list(reversed(disk.children)))
    one.Do("blockdev_removechildren", disk, list(disk.children))
    one.Do("blockdev_removechildren", disk, list(disk.children))
    assert one.device.disk == "Diskless" and one.Do("blockdev_find", disk)["ldisk_status"] == 4
    one.Do("blockdev_addchildren", disk, list(disk.children))
    assert one.State() == ("Connected", "Primary", "UpToDate", False)
    [tool] = [argv for argv in one.drbd.runs[-12:] if argv[:2] == ["drbdmeta", "create-md"]]
    assert tool[2] == f"/dev/drbd{drbdtools.HIGHEST_MINOR}", "its own number is in use"


def test_growing(mirror: Pair) -> None:
    for side in (mirror.one, mirror.two):
        side.Do("blockdev_grow", side.Disk(), 8, True, True, False)
        side.Do("blockdev_grow", side.Disk(), 8, False, True, False)
    one = mirror.one
    one.Fail("cannot shrink", "blockdev_grow", one.Disk(), -8, False, False, False)
    assert one.Do("blockdev_getdimensions", [one.Disk()]) == [[64 * MIB, None]]
    one.Do("blockdev_grow", one.Disk(), 8, False, False, False)
    assert one.Do("blockdev_getdimensions", [one.Disk()]) == [[72 * MIB, None]]
    mirror.links.Cut()
    one.Fail("cannot be grown to 80 MiB.*both nodes", "blockdev_grow", one.Disk(size=72), 8, False, False, False)


def test_a_late_call_to_grow_makes_nothing_smaller(mirror: Pair) -> None:
    """It hung before it had the kernel resize the device; its job failed, and the disk was grown again meanwhile."""
    for side in (mirror.one, mirror.two):
        side.Do("blockdev_grow", side.Disk(), 16, False, True, False)
    one, two = mirror.one, mirror.two
    late = one.Disk()
    one.Do("blockdev_grow", late, 8, False, False, False)
    one.Do("blockdev_grow", one.Disk(size=72), 8, False, False, False)
    one.Do("blockdev_grow", late, 8, False, False, False)
    assert [side.device.size for side in (one, two)] == [80, 80]
    one.Do("drbd_follow", [one.Disk("behind", decision=2)])
    one.Fail("this call is outdated", "blockdev_grow", one.Disk(size=80, decision=1), 8, False, False, False)
    assert one.device.size == 80


def test_a_growth_that_was_cut_off(mirror: Pair) -> None:
    """As the kernel does it: the side that comes back with the size recorded is refused, and does not grow alone."""
    one, two = mirror.one, mirror.two
    for side in (one, two):
        side.Do("blockdev_grow", side.Disk(), 8, False, True, False)
    one.Do("blockdev_grow", one.Disk(), 8, False, False, False)
    two.drbd.LosePower()
    two.Assemble(two.Disk())
    assert (one.device.link, two.device.link) == ("StandAlone", "WFConnection")
    assert [side.Do("drbd_states")["0"]["size"] // MIB for side in (one, two)] == [72, 64]
    two.Assemble(two.Disk(size=72))
    one.Assemble(one.Disk(size=72))
    assert one.State() == ("Connected", "Primary", "UpToDate", False)
    assert two.Do("blockdev_getdimensions", [two.Disk()]) == [[72 * MIB, None]]
    runs = len(one.drbd.runs)
    mirror.links.Cut()
    one.Assemble(one.Disk(size=80))
    assert "down" not in [argv[1] for argv in one.drbd.runs[runs:]], "a device in use is not taken down"
    runs, two.drbd.hides_sizes = len(two.drbd.runs), True
    two.Assemble(two.Disk(size=72))
    assert "down" not in [argv[1] for argv in two.drbd.runs[runs:]], "nor is one whose size nobody knows"


def test_unreadable_metadata_means_no_local_data(mirror: Pair) -> None:
    two = mirror.two
    two.Do("blockdev_shutdown", two.Disk())
    two.drbd.broken.add("/dev/vg/one_meta")
    two.Assemble(two.Disk())
    assert two.State() == ("Connected", "Secondary", "Diskless", False)
    two.drbd.broken.clear()
    two.Assemble(two.Disk())
    assert two.State() == ("Connected", "Secondary", "UpToDate", False)


@pytest.mark.req("RM-LIM-15", "RM-DISK-10", "RM-DISK-11", "RM-DISK-20", "RM-DISK-21", "D21-PARAM-08", "D21-PARAM-09")
def test_parameters_of_disk_and_link(pair: Pair) -> None:
    one = pair.one
    params = {
        "disabled-barriers": "bd",
        "disable-meta-flush": True,
        "disk-custom": "--al-extents=257 --fencing=dont-care",
        "net-custom": "--max-buffers=4000 --verify-alg 'md5'",
        "protocol": "A",
    }
    one.Create(True, one.Disk(**params))
    [attach] = [argv for argv in one.drbd.runs if argv[1] == "attach"]
    assert {"--disk-barrier=no", "--disk-drain=no", "--md-flushes=no", "--al-extents=257", "--size=64m"} <= set(attach)
    ours = ("--size", "--disk-", "--md-", "--resync-rate", "--c-")
    assert attach.index("--al-extents=257") > max(n for n, word in enumerate(attach) if word.startswith(ours))
    assert [word for word in attach if word.startswith("--fencing")] == ["--fencing=dont-care"]
    [connect] = [argv for argv in one.drbd.runs if argv[1] == "connect"]
    assert connect[-3:] == ["--max-buffers=4000", "--verify-alg", "md5"] and "--protocol=A" in connect
    one.Do("drbd_follow", [one.Disk("ahead", **params)])
    assert one.device.options["fencing"] == "dont-care", "whoever chose it is obeyed"
    one.Fail("cannot be split into words", "blockdev_assemble", one.Disk(**{"disk-custom": "'"}),
             MakeInstance().ToDict(runtime=True), False, 0)  # fmt: skip
    mixed = MakeMirror("192.0.2.1", "fd00::2", minor=7, name="mixed")
    one.Fail(
        "one of 192.0.2.1 and fd00::2 is an IPv4", "blockdev_create", *Layers(one, mixed), 64, "x", True, "", False
    )


def test_a_master_of_3_1_gets_what_it_had(pair: Pair) -> None:
    one, two = pair.one, pair.two
    one.Create(True, one.Disk(None))
    two.Create(False, two.Disk(None))
    assert "fencing" not in one.device.options
    pair.links.Cut()
    assert not one.device.frozen
    two.Do("blockdev_open", "", [two.Disk(None)], True)
    assert two.device.role == "Primary"


def test_pausing_may_be_repeated(mirror: Pair) -> None:
    one = mirror.one
    for pause in (True, True, False, False):
        assert one.Do("blockdev_pause_resume_sync", [one.Disk()], pause) == [[True, None]]
    assert one.Do("blockdev_pause_resume_sync", [one.Disk(minor=9)], True)[0][0] is False


def test_snapshots_and_renames(mirror: Pair) -> None:
    two = mirror.two
    assert two.Do("blockdev_snapshot", two.Disk(), None, None) == ["vg", "one_data.snap"]
    with pytest.raises(errors.BlockDeviceError, match="renaming is not possible"):
        two.Do("blockdev_rename", [[two.Disk().ToDict(runtime=True), ["x"]]])


@pytest.mark.req("D20-DISK-04")
def test_as_many_commands_for_each_disk_whatever_is_active() -> None:
    """Activating 50 disks: on the node of the primary, both passes of it."""
    pair = Pair()
    disks = {
        side: [side.Disk(name=f"d{number}", minor=number, port=11000 + number) for number in range(50)]
        for side in (pair.one, pair.two)
    }
    for side, primary in ((pair.one, True), (pair.two, False)):
        for disk in disks[side]:
            side.Create(primary, disk)
            side.Do("blockdev_shutdown", disk)
    one, two = pair.one, pair.two
    counts = []
    for own, other in zip(disks[one], disks[two], strict=True):
        before = len(one.drbd.runs) + len(one.lvm.runs)
        one.Assemble(own)
        two.Assemble(other)
        one.Assemble(own, primary=True)
        counts.append(len(one.drbd.runs) + len(one.lvm.runs) - before)
    assert len(one.drbd.devices) == 50 and all(device.role == "Primary" for device in one.drbd.devices.values())
    assert len(set(counts)) == 1, counts
    assert counts[0] <= 27
    one.drbd.runs.clear()
    assert len(one.Do("drbd_states")) == 50
    assert one.drbd.runs == []
    assert len(one.Do("blockdev_getmirrorstatus", disks[one])) == 50
    assert [argv[1] for argv in one.drbd.runs] == ["show"], "one look for all"


def test_lvm_is_kept_off_mirrors(mirror: Pair) -> None:
    one = mirror.one
    words = ["--config", 'devices/global_filter=["r|^/dev/drbd|"]']
    one.lvm.runs.clear()
    one.Do("lv_list", [])
    assert one.lvm.runs[0][1:3] == words
    for text, filtered in (("# global_filter = []\n", True), ('devices {\n\tglobal_filter = [ "a|.*|" ]\n}\n', False)):
        one.machine.Call(_WriteConfig, text)
        one.lvm.runs.clear()
        one.Do("lv_list", [])
        assert (one.lvm.runs[0][1:3] == words) == filtered
    one.machine.Call(runtime.RemoveFile, "/proc/drbd")
    assert one.machine.Call(lvmtools._KeptOff, ["lvs"]) == ["lvs"]


def test_lvm_is_kept_off_images_of_ceph(pair: Pair) -> None:
    """A guest writes what it likes to them."""
    pair.one.machine.Call(runtime.MakeDirs, "/sys/module/rbd")
    pair.one.Do("lv_list", [])
    assert pair.one.lvm.runs[-1][1:3] == ["--config", 'devices/global_filter=["r|^/dev/drbd|","r|^/dev/rbd|"]']


def _WriteConfig(text: str) -> None:
    runtime.MakeDirs("/etc/lvm")
    runtime.WriteFile("/etc/lvm/lvm.conf", text)


def test_what_a_node_reports_of_drbd(mirror: Pair) -> None:
    one = mirror.one
    keys: dict[str, Any] = {"drbd-version": None, "drbd-list": None, "drbd-helper": "/bin/false"}
    assert one.Do("drbd_helper") == "/bin/true"
    assert one.Do("node_verify", keys, "cluster", {}) == {
        "drbd-version": "8.4.11",
        "drbd-list": [0],
        "drbd-helper": [True, "/bin/true"],
    }
    one.drbd._Write("/proc/drbd", "version: 9.1.4 (api:2/proto:86-121)\n")
    assert "has version 9.1.4; it must be 8.4" in one.Do("node_verify", keys, "cluster", {})["drbd-version"]
    one.machine.Call(runtime.RemoveFile, "/proc/drbd")
    one.machine.Call(runtime.RemoveFile, "/sys/module/drbd/parameters/usermode_helper")
    answer = one.Do("node_verify", keys, "cluster", {})
    assert "The DRBD module is not loaded" in answer["drbd-version"] and "not loaded" in answer["drbd-list"]
    assert answer["drbd-helper"][0] is False
    assert one.Do("drbd_states") == {}
    one.Fail("is missing; is the module loaded", "drbd_helper")
    assert one.Do("blockdev_find", one.Disk()) is None
    one.Fail("modprobe drbd", "blockdev_assemble", one.Disk(), MakeInstance().ToDict(runtime=True), False, 0)


def test_utilities_that_cannot_drive_the_module(mirror: Pair) -> None:
    one = mirror.one
    one.machine.programs["drbdsetup"] = _FailingOn(one.machine.programs["drbdsetup"], "show", "no support for this API")
    one.Fail(r"'drbdsetup show' failed.*no support.*drive the module 8.4.11", "blockdev_assemble", one.Disk(),
             MakeInstance().ToDict(runtime=True), False, 0)  # fmt: skip
    keys: dict[str, Any] = {"drbd-version": None}
    assert "no support for this API" in one.Do("node_verify", keys, "cluster", {})["drbd-version"]


def test_a_side_that_cannot_be_disconnected_is_not_taken_down(mirror: Pair) -> None:
    """``down`` of a secondary that is connected is an orderly end: the primary would go on alone, without a record."""
    one, two = mirror.one, mirror.two
    working = two.machine.programs["drbdsetup"]
    two.machine.programs["drbdsetup"] = _FailingOn(working, "disconnect", "timeout")
    two.Fail("is still Connected after 60 s of disconnecting", "blockdev_shutdown", two.Disk())
    assert one.State() == ("Connected", "Primary", "UpToDate", False)
    mirror.links.Cut()
    assert one.device.frozen
    two.machine.programs["drbdsetup"] = working
    two.Do("blockdev_shutdown", two.Disk())
    assert two.drbd.devices == {} and one.device.frozen


def test_the_end_of_a_secondary_leaves_its_primary_frozen(mirror: Pair) -> None:
    mirror.two.Do("blockdev_shutdown", mirror.two.Disk())
    assert mirror.one.State() == ("WFConnection", "Primary", "UpToDate", True)


@pytest.mark.req("D21-REPAIR-04")
def test_each_side_says_whether_its_copy_is_good_degraded_or_missing(mirror: Pair) -> None:
    one, two = mirror.one, mirror.two

    def said(side: Side) -> tuple[bool, int]:
        [status] = side.Do("blockdev_getmirrorstatus", [side.Disk()])
        found = side.Do("blockdev_find", side.Disk())
        assert (found["is_degraded"], found["ldisk_status"]) == (status["is_degraded"], status["ldisk_status"])
        return status["is_degraded"], status["ldisk_status"]

    assert said(one) == said(two) == (False, constants.LDS_OKAY)
    two.device.disk = "Inconsistent"
    mirror.links.Publish()
    assert two.device.link == "Connected" and said(two) == (True, constants.LDS_UNKNOWN)
    two.Do("blockdev_shutdown", two.Disk())
    two.drbd.broken.add("/dev/vg/one_meta")
    two.Assemble(two.Disk())
    assert two.State() == ("Connected", "Secondary", "Diskless", False)
    assert said(two) == (True, constants.LDS_FAULTY)
    assert said(one) == (False, constants.LDS_OKAY), "its own copy is good"
    two.Do("blockdev_shutdown", two.Disk())
    assert two.Do("blockdev_find", two.Disk()) is None


def test_a_primary_without_a_link_has_its_data(mirror: Pair) -> None:
    one = mirror.one
    one.Do("drbd_disconnect_net", [one.Disk()])
    status = one.Do("blockdev_find", one.Disk())
    assert (status["ldisk_status"], status["is_degraded"]) == (1, True)


def test_a_device_that_cannot_be_understood_hides_no_other_one(mirror: Pair) -> None:
    one = mirror.one
    known = one.machine.Call(runtime.ReadText, "/proc/drbd", 1 << 20)
    one.drbd._Write("/proc/drbd", known + " 7: cs:Connected new words\n")
    states = one.Do("drbd_states")
    assert states["0"]["local_uptodate"] and not states["7"]["connected"] and states["7"]["incomplete"]
    assert one.Do("blockdev_find", one.Disk())["is_degraded"] is False
    one.drbd._Write("/proc/drbd", "version: 8.4.11 (api:1/proto:86-101)\n 0: cs:Connected new words\n")
    one.Fail("in a way that cannot be read", "blockdev_find", one.Disk())


def test_a_frozen_side_is_released_without_lvm(mirror: Pair) -> None:
    one = mirror.one
    mirror.links.Cut()
    one.lvm.runs.clear()
    one.Do("drbd_follow", [one.Disk("behind")])
    assert not one.device.frozen and one.lvm.runs == []


def test_a_side_that_is_connected_keeps_its_data_although_it_was_behind(mirror: Pair) -> None:
    two = mirror.two
    two.Do("drbd_follow", [two.Disk("ahead")])
    assert two.State() == ("Connected", "Secondary", "UpToDate", False)


def test_a_side_without_a_disk_obeys_as_far_as_it_can(mirror: Pair) -> None:
    one = mirror.one
    one.Do("blockdev_removechildren", one.Disk(), list(one.Disk().children))
    one.Do("drbd_follow", [one.Disk("counts")])
    assert one.device.disk == "Diskless"


def test_requests_of_a_side_that_was_left_behind_do_not_reach_its_disk(mirror: Pair) -> None:
    one = mirror.one
    mirror.links.Cut()
    one.Do("drbd_follow", [one.Disk("ahead")])
    one.drbd.runs.clear()
    one.Do("blockdev_shutdown", one.Disk("ahead"))
    acts = [argv[1] for argv in one.drbd.runs if argv[1] in ("detach", "resume-io", "secondary")]
    assert acts == ["detach", "resume-io", "secondary"]


def test_a_device_needs_both_of_its_volumes(pair: Pair) -> None:
    one, disk = pair.one, pair.one.Disk()
    for child in disk.children:
        one.Do("blockdev_create", child, child.size, "guest", True, "note", False)
    half = disk.Replace(children=disk.children[:1])
    one.Fail("data and metadata volumes must exist", "blockdev_create", half, 64, "guest", True, "note", False)
    assert one.drbd.devices == {}


def test_metadata_that_cannot_be_cleared_is_not_used(pair: Pair) -> None:
    """What a volume held before would be taken for metadata."""
    one, disk = pair.one, pair.one.Disk()
    for child in disk.children:
        one.Do("blockdev_create", child, child.size, "guest", True, "note", False)
    one.machine.programs["dd"] = lambda invocation: invocation.Complain("dd: Input/output error\n") or 1
    one.Fail("cannot be cleared.*Input/output error", "blockdev_create", disk, 64, "guest", True, "note", False)
    assert one.drbd.devices == {} and "drbdmeta" not in [argv[0] for argv in one.drbd.runs]


def test_a_device_that_somebody_keeps_open_is_not_closed(mirror: Pair) -> None:
    one = mirror.one
    one.device.held_open = True
    one.Fail("cannot be closed.*held open", "blockdev_close", "", [one.Disk()])
    assert one.State() == ("Connected", "Primary", "UpToDate", False)


def test_opening_what_is_open_has_it_obey_the_record(mirror: Pair) -> None:
    one = mirror.one
    mirror.links.Cut()
    assert one.device.frozen
    one.Do("blockdev_open", "", [one.Disk("behind")], True)
    assert one.State() == ("WFConnection", "Primary", "UpToDate", False)
    assert one.device.options["fencing"] == "dont-care"


def test_a_resync_is_waited_for_until_the_link_is_up(mirror: Pair) -> None:
    """What was true when the call began does not count."""
    one = mirror.one
    mirror.links.Cut()

    def heal() -> None:
        runtime.Sleep(1)
        mirror.links.Heal()

    one.machine.StartProcess(heal, "heal")
    assert one.Do("drbd_wait_sync", [one.Disk()]) == [True, 100.0]


def test_an_end_that_the_master_does_not_name_is_not_connected(pair: Pair) -> None:
    one, disk = pair.one, pair.one.Disk()
    for key in ("local-ip", "remote-ip"):
        values = {name: value for name, value in disk.dynamic_params.items() if name != key}
        one.Create(True, disk.Replace(dynamic_params=values))
        assert one.device.link == "StandAlone"
        one.Do("blockdev_remove", disk.Replace(dynamic_params=values))
        assert one.drbd.devices == {}
