"""gnt-debug iallocator: shows what an allocator is asked, or asks it."""

from __future__ import annotations

from typing import Any

from ganeti import constants, errors
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, Some
from ganeti.cli.parser import Options
from ganeti.opcodes import OpTestAllocator
from ganeti.utils.text import ParseUnit


def _Nics(text: str) -> list[dict[str, Any]]:
    nics = []
    for part in text.split(","):
        words = (part.split("/") + [""] * 3)[:3]
        # An empty part is left to the allocator.
        names = ("mac", "ip", "bridge")
        nics.append({name: word if word else None for name, word in zip(names, words, strict=True)})
    return nics


def _Disks(text: str) -> list[dict[str, Any]]:
    try:
        return [{"size": ParseUnit(size), "mode": constants.DISK_RDWR} for size in text.split(",")]
    except errors.UnitParseError as err:
        raise errors.OpPrereqError(f"Invalid disk size: {err}", errors.ECODE_INVAL) from err


def Run(options: Options, arguments: list[str]) -> int:
    op = OpTestAllocator(
        mode=options.mode,
        name=arguments[0],
        instances=arguments,
        memory=options.memory,
        disks=_Disks(options.disks),
        disk_template=options.disk_template,
        nics=_Nics(options.nics),
        os=options.os,
        vcpus=options.vcpus,
        tags=(options.tags or "").split(",") if options.tags else [],
        direction=options.direction,
        iallocator=options.iallocator,
        evac_mode=options.evac_mode,
        target_groups=options.target_groups,
        spindle_use=options.spindle_use,
        count=options.count,
    )
    output.ToStdout(str(jobs.SubmitOpCode(op, options)))
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Executes a TestAllocator opcode",
    (Some("instance"),),
    (
        o.DIRECTION, o.IALLOCATOR, o.ALLOC_MODE, o.ALLOC_MEMORY, o.ALLOC_DISKS, o.DISK_TEMPLATE, o.ALLOC_NICS, o.OS_TYPE,
        o.ALLOC_VCPUS, o.TAGS, o.EVAC_MODE, o.TARGET_GROUPS, o.SPINDLE_USE, o.ALLOC_COUNT, *o.SET_DRY, *o.SET_PRIORITY,
    ),
)  # fmt: skip
