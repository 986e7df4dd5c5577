"""Opcodes for testing the cluster itself.  Facts: doc/reference/opcodes.md 2."""

from __future__ import annotations

from typing import Any

from ganeti import ht
from ganeti.opcodes import common, types
from ganeti.opcodes.base import OpCode, Param


class OpTestDelay(OpCode):
    """Sleep on master and/or nodes."""

    OP_DSC_FIELD = "duration"
    OP_RESULT = ht.TNone

    duration: float = Param(ht.TFloat, doc="seconds; 3.x rejects <= 0")
    on_master: bool = Param(ht.TBool, True, doc="sleep on the master")
    on_nodes: list[str] = Param(ht.TListOf(ht.TNonEmptyString), [], doc="sleep on these")
    on_node_uuids: list[str] | None = Param(ht.TMaybe(ht.TListOf(ht.TNonEmptyString)), None, doc="filled in by the LU")
    repeat: int = Param(ht.TNonNegativeInt, 0, doc="0 = once; n = n rounds")
    interruptible: bool = Param(ht.TBool, False, doc="announce a socket (log type delay-test) that ends the sleep")
    no_locks: bool = Param(ht.TBool, True, doc="meant to skip locking")

    def _FormatSummary(self, value: Any) -> str:
        # 3.1 counts the duration in nanoseconds.
        return f"{round(value * 1_000_000_000)} ns"


class OpTestAllocator(OpCode):
    """Show the allocator input or run the allocator."""

    OP_DSC_FIELD = "iallocator"
    OP_RESULT = ht.TString

    direction: str = Param(types.TAllocatorDirection, doc="in = return input, out = run")
    mode: str = Param(types.TAllocatorMode, doc="request type")
    name: str = Param(ht.TNonEmptyString, doc="subject of the request")
    nics: list[dict[str, Any]] | None = Param(ht.TMaybe(ht.TListOf(types.TNic)), None, doc="NICs of the fake instance")
    disks: list[Any] | None = Param(ht.TMaybe(ht.TList), None, doc="disks of the fake instance")
    hypervisor: str | None = Param(ht.TMaybe(types.THypervisor), None, doc="hypervisor type")
    iallocator: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="allocator to run (direction out)")
    tags: list[str] = Param(ht.TListOf(ht.TNonEmptyString), [], doc="tags of the fake instance")
    memory: int | None = Param(ht.TMaybe(ht.TNonNegativeInt), None, doc="MiB")
    vcpus: int | None = Param(ht.TMaybe(ht.TNonNegativeInt), None, doc="VCPUs")
    os: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="OS name")
    disk_template: str | None = Param(ht.TMaybe(types.TDiskTemplate), None, doc="disk layout")
    instances: list[str] | None = Param(
        ht.TMaybe(ht.TListOf(ht.TNonEmptyString)), None, doc="instances for node/group requests"
    )
    evac_mode: str | None = Param(ht.TMaybe(types.TEvacMode), None, doc="evacuation mode")
    target_groups: list[str] | None = Param(
        ht.TMaybe(ht.TListOf(ht.TNonEmptyString)), None, doc="groups for change-group"
    )
    spindle_use: int = Param(ht.TNonNegativeInt, 1, doc="spindles")
    count: int = Param(
        types.TAllocatorCount, 1, doc="number of instances for multi-allocate and capacity, of moves for balance"
    )
    group_name: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="restrict allocation to this group")


class OpTestJqueue(OpCode):
    """Exercise job queue notification."""

    OP_RESULT = ht.TBool

    notify_waitlock: bool = Param(ht.TBool, False, doc="notify client while expanding names (log type jqueue-test)")
    notify_exec: bool = Param(ht.TBool, False, doc="notify client at execution")
    log_messages: list[str] = Param(ht.TListOf(ht.TString), [], doc="messages to log")
    fail: bool = Param(ht.TBool, False, doc="end with OpExecError")


class OpTestOsParams(OpCode):
    """Check that secrets reach the job."""

    OP_RESULT = ht.TNone

    osparams_secret: dict[str, Any] | None = common.OSPARAMS_SECRET


class OpTestDummy(OpCode):
    """Unit-test opcode without logic behind it: running it gives OpCodeUnknown."""

    OP_RESULT = ht.TNone
    WITH_LU = False

    result: Any = Param(ht.TAny, doc="value to return")
    messages: Any = Param(ht.TAny, doc="messages")
    fail: Any = Param(ht.TAny, doc="whether to fail")
    submit_jobs: Any = Param(ht.TAny, doc="jobs to submit")
