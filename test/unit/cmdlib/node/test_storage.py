"""Storage units of nodes: what is rejected before a node is asked."""

from __future__ import annotations

import pytest
from support.master import Master

from ganeti import errors, opcodes


@pytest.mark.parametrize(
    ("op", "match"),
    [
        (opcodes.OpNodeQueryStorage(output_fields=["name"], storage_type="diskless"), "no units to report"),
        (opcodes.OpNodeQueryStorage(output_fields=["name"], storage_type="file"), "none of its disk templates"),
        (opcodes.OpNodeQueryStorage(output_fields=["colour"]), "Unknown output fields"),
        (opcodes.OpNodeQueryvols(output_fields=["colour"]), "Unknown output fields"),
        (
            opcodes.OpNodeModifyStorage(
                node_name="node2", storage_type="lvm-vg", name="x", changes={"allocatable": True}
            ),
            "cannot be modified",
        ),
        (
            opcodes.OpNodeModifyStorage(
                node_name="node2", storage_type="lvm-pv", name="/dev/sda5", changes={"size": 1}
            ),
            "cannot be modified.*size",
        ),
        (
            opcodes.OpNodeModifyStorage(
                node_name="node2", storage_type="lvm-pv", name="/dev/sda5", changes={"allocatable": "no"}
            ),
            "true or false",
        ),
        (
            opcodes.OpNodeModifyStorage(node_name="node2", storage_type="lvm-pv", changes={"allocatable": True}),
            "name of the storage unit is missing",
        ),
        (
            opcodes.OpRepairNodeStorage(node_name="node1", storage_type="lvm-pv", name="/dev/sda5"),
            "cannot be repaired",
        ),
    ],
)
def test_what_storage_units_cannot_do(master: Master, op: opcodes.OpCode, match: str) -> None:
    with pytest.raises(errors.OpPrereqError, match=match) as caught:
        master.Run(op)
    assert caught.value.args[1] == errors.ECODE_INVAL
    assert not [name for name in master[0].calls + master[1].calls if name.startswith(("storage_", "node_volumes"))]
