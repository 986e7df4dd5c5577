"""What stands against new storage for a mirror; the rest comes with the drivers of volume groups."""

from __future__ import annotations

from typing import Any

import pytest
from support.master import Master

from ganeti import constants, errors, opcodes

WEB = "web.example.org"
FAULTY = {"ldisk_status": constants.LDS_FAULTY}


@pytest.fixture
def trio(make: Any) -> Master:
    master: Master = make(3)
    return master


def _Replace(master: Master, mode: str, **values: Any) -> None:
    master.Run(opcodes.OpInstanceReplaceDisks(instance_name=WEB, mode=f"replace_{mode}", **values))


@pytest.mark.req("D21-REPAIR-08")
def test_faulty_disks_are_found(trio: Master) -> None:
    _Replace(trio, "auto")
    assert trio.last.messages[-1] == f"No disks need replacement for instance '{WEB}'"
    trio[0].SetMirrors(FAULTY)
    trio[1].SetMirrors(FAULTY)
    with pytest.raises(errors.OpPrereqError, match="faulty disks on more than one node"):
        _Replace(trio, "auto")
    trio.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    with pytest.raises(errors.OpPrereqError, match="run activate-disks"):
        _Replace(trio, "auto")


# --- another node --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("match", "mode", "values"),
    [
        ("either an iallocator script or the new node", "new_secondary", {}),
        (
            "either an iallocator script or the new node",
            "new_secondary",
            {"iallocator": "hail", "remote_node": "node3"},
        ),
        ("only be used when changing", "on_primary", {"remote_node": "node3"}),
        ("takes no list of disks", "auto", {"disks": [0]}),
        ("Disk index 5 is too high", "on_primary", {"disks": [5]}),
        ("is the primary node", "new_secondary", {"remote_node": "node1"}),
        ("already the secondary", "new_secondary", {"remote_node": "node2"}),
    ],
)
def test_what_cannot_be_is_refused(trio: Master, match: str, mode: str, values: dict[str, Any]) -> None:
    before = trio.snapshot
    with pytest.raises(errors.OpPrereqError, match=match) as caught:
        _Replace(trio, mode, **values)
    assert caught.value.args[1] == errors.ECODE_INVAL
    assert trio.snapshot is before


def test_the_new_node_must_be_fit(trio: Master) -> None:
    trio.cfg.Update(trio.snapshot.nodes[trio.nodes[2]].Replace(drained=True))
    with pytest.raises(errors.OpPrereqError, match="drained node node3"):
        _Replace(trio, "new_secondary", remote_node="node3")


def test_only_mirrors_have_disks_to_replace(trio: Master) -> None:
    cluster = trio.snapshot.cluster
    trio.cfg.Update(cluster.Replace(ipolicy={**cluster.ipolicy, "disk-templates": ["drbd", "plain"]}))
    trio.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    trio.Run(opcodes.OpInstanceSetParams(instance_name=WEB, disk_template="plain"))
    with pytest.raises(
        errors.OpPrereqError,
        match=r"only run replace disks for DRBD8-based instances; the disk template of .* is plain",
    ):
        _Replace(trio, "on_primary")
