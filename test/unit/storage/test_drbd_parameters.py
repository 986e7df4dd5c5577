"""From the values of cluster and group to the words of drbdsetup, and what of them stays while a mirror runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support import configs
from support.mirrorpair import Pair, Side
from support.standindrbd import Device

from ganeti import params
from ganeti.params.disk import TEMPLATES
from ganeti.storage.utilities import drbdtools

# No two alike, and none a default.
CLUSTER = {
    "resync-rate": 1001, "data-stripes": 2, "meta-stripes": 3, "disk-barriers": "bd", "meta-barriers": True,
    "metavg": "vgmeta", "disk-custom": "--al-extents=257", "net-custom": "--max-buffers=4000", "protocol": "B",
    "c-plan-ahead": 31, "c-fill-target": 32, "c-delay-target": 33, "c-max-rate": 1034, "c-min-rate": 1035,
}  # fmt: skip
GROUP = {"resync-rate": 2001, "protocol": "A", "c-fill-target": 42, "c-max-rate": 2034, "dynamic-resync": True}


@pytest.fixture
def pair() -> Iterator[Pair]:
    yield Pair()


def _Sent(cluster: dict[str, Any], group: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the parameters of a mirror, and of its volumes, as its nodes get them."""
    root = configs.Example()
    root = root.WithObject(root.cluster.Replace(diskparams={"drbd": {**TEMPLATES["drbd"].defaults, **cluster}}))
    root = root.WithObject(root.nodegroups[configs.GROUP].Replace(diskparams={"drbd": group}))
    dev = params.AnnotateDisk(root, root.disks[configs.WEB_DISK], configs.NODE1)
    return dict(dev.params), [dict(child.params) for child in dev.children]


def _Words(side: Side, command: str) -> list[str]:
    [argv] = [argv for argv in side.drbd.runs if argv[1] == command]
    return [word for word in argv if word.startswith("--")]


@pytest.mark.req("RM-DISK-12", "RM-DISK-13", "RM-DISK-15", "RM-DISK-16", "RM-DISK-17", "RM-DISK-18", "RM-DISK-19")
def test_each_value_comes_out_as_its_own_word(pair: Pair) -> None:
    assert set(CLUSTER) | {"dynamic-resync"} == set(TEMPLATES["drbd"].params), (
        "a new parameter must reach the nodes too"
    )
    one, two = pair.one, pair.two
    sent, volumes = _Sent(CLUSTER, {})
    assert sent["default-metavg"] == "vgmeta" and volumes == [{"stripes": 2}, {"stripes": 3}]
    one.Create(True, one.Disk(**sent))
    assert set(_Words(one, "attach")) >= {
        "--resync-rate=1001", "--c-plan-ahead=0", "--disk-barrier=no", "--disk-drain=no", "--md-flushes=no",
        "--al-extents=257",
    }  # fmt: skip
    assert {"--protocol=B", "--max-buffers=4000"} <= set(_Words(one, "connect"))

    sent, _ = _Sent(CLUSTER, GROUP)
    two.Create(False, two.Disk(**sent))
    assert [word for word in _Words(two, "attach") if word.startswith(("--c-", "--resync"))] == [
        "--c-plan-ahead=31", "--c-fill-target=42", "--c-delay-target=33", "--c-max-rate=2034", "--c-min-rate=1035",
    ]  # fmt: skip
    assert "--protocol=A" in _Words(two, "connect")


@pytest.mark.parametrize(
    ("custom", "kept"),
    [
        ("--c-plan-ahead=20", {"c-plan-ahead": "20", "resync-rate": "61440"}),
        ("--resync-rate 77", {"c-plan-ahead": "0"}),
        ("--resync=77 --c-plan=9", {"resync": "77", "c-plan": "9"}),
    ],
)
def test_what_is_set_by_hand_stays_when_disks_are_activated_again(
    pair: Pair, custom: str, kept: dict[str, str]
) -> None:
    one = pair.one
    disk = one.Disk(**{"disk-custom": custom})
    one.Create(True, disk)
    one.drbd.runs.clear()
    one.Assemble(disk, primary=True)
    later = [word for argv in one.drbd.runs if argv[1] == "disk-options" for word in argv[3:]]
    for name in ("c-plan-ahead", "resync-rate"):
        assert any(word.startswith(f"--{name}=") for word in later) == (name not in _FullNames(custom))
    assert kept.items() <= one.device.options.items()


def _FullNames(custom: str) -> set[str]:
    given = [word[2:].partition("=")[0] for word in custom.split() if word.startswith("--")]
    return {full for full in ("c-plan-ahead", "resync-rate") if any(full.startswith(name) for name in given)}


def test_a_node_may_have_more_mirrors_than_256(pair: Pair) -> None:
    one = pair.Create().one
    for minor in range(1, 256):
        one.drbd.devices[minor] = Device(minor, f"resource{minor}")
    one.drbd.devices[drbdtools.HIGHEST_MINOR] = Device(drbdtools.HIGHEST_MINOR, "other")
    disk = one.Disk()
    one.Do("blockdev_removechildren", disk, list(disk.children))
    one.Do("blockdev_addchildren", disk, list(disk.children))
    assert one.State() == ("Connected", "Primary", "UpToDate", False)
    [tool] = [argv for argv in one.drbd.runs[-12:] if argv[:2] == ["drbdmeta", "create-md"]]
    assert tool[2] == f"/dev/drbd{drbdtools.HIGHEST_MINOR - 1}"


def test_mirrors_that_do_not_connect_are_described(pair: Pair) -> None:
    one = pair.Create().one
    one.Do("drbd_disconnect_net", [one.Disk()])
    pair.links.Cut()
    one.Fail(
        r"did not connect within 120 s: drbd .* \(minor 0\) waits for the other side \(WFConnection\)\. .*"
        "'gnt-instance activate-disks INSTANCE' connects them$",
        "drbd_attach_net",
        [one.Disk()],
        False,
    )


def test_protocol_a_is_connected_without_freezing(pair: Pair) -> None:
    """The module refuses it with the policy that freezes."""
    one = pair.one
    disk = one.Disk(protocol="A")
    for side in (one, pair.two):
        side.Create(side is one, side.Disk(protocol="A"))
    assert one.State() == ("Connected", "Primary", "UpToDate", False) and one.device.protocol == "A"
    for side in (one, pair.two):
        side.Do("drbd_attach_net", [side.Disk(protocol="A")], True)
    pair.two.Do("blockdev_close", "", [pair.two.Disk(protocol="A")])
    one.Do("drbd_attach_net", [disk], False)
    assert one.device.protocol == "A" and not one.device.two_primaries
    # The parameter was changed: from the next connection on.
    one.Do("drbd_follow", [one.Disk()])
    one.Do("drbd_attach_net", [one.Disk()], False)
    assert one.device.protocol == "C" and one.device.freezes
