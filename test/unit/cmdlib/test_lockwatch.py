"""The look-out of these tests finds a unit that touches what it has not locked."""

from __future__ import annotations

from typing import Any

import pytest
from support.master import Master

from ganeti import locking, opcodes
from ganeti.cmdlib import NoHooksLU

OP = opcodes.OpTestDelay


class _Careless(NoHooksLU):
    REQ_BGL = False
    LOCKS: dict[int, Any] = {}

    def ExpandNames(self) -> None:
        self.needed_locks = dict(self.LOCKS)

    def Exec(self, feedback: Any) -> None:
        web = self.snapshot.InstanceByName("web.example.org")
        assert web is not None
        self.rpc.call_instance_shutdown(web.primary_node, web, 5, [])
        self.cfg.MarkInstanceDown(web.uuid)


@pytest.mark.req("D20-LOCK-24")
def test_what_is_touched_must_be_locked(master: Master) -> None:
    with pytest.raises(AssertionError) as caught:
        master.Run(OP(duration=0), units={OP.OP_ID: _Careless})
    assert "instance_shutdown on node" in str(caught.value) and "instance 00000005" in str(caught.value)
    master.Run(opcodes.OpInstanceStartup(instance_name="web"))
    locked = type("Locked", (_Careless,), {"LOCKS": {locking.LEVEL_INSTANCE: ["web.example.org"]}})
    master.Run(OP(duration=0), units={OP.OP_ID: locked})
