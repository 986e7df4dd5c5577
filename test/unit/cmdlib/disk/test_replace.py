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
    with pytest.raises(errors.OpPrereqError, match=r"faulty disks on both nodes: 0 on node1.*; 0 on node2") as caught:
        _Replace(trio, "auto")
    assert "no good copy" in caught.value.hint and f"recreate-disks --disk=0 {WEB}'" in caught.value.hint
    trio.Run(opcodes.OpInstanceShutdown(instance_name=WEB))
    with pytest.raises(errors.OpPrereqError, match=f"disks of instance {WEB} are not active") as caught:
        _Replace(trio, "auto")
    assert f"'gnt-instance activate-disks {WEB}'" in caught.value.hint


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
        ("has no disk 5: it has 1, counted from 0", "on_primary", {"disks": [5]}),
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
        match=f"Instance {WEB} has disks of template plain, which have no second copy to rebuild from",
    ) as caught:
        _Replace(trio, "on_primary")
    assert f"'gnt-instance recreate-disks {WEB}'" in caught.value.hint
