"""gnt-debug iallocator: shows what an allocator is asked and what it answers."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, Some
from ganeti.cli.parser import COMPLETE_GROUP, ElementsOf, Options, Value, Values
from ganeti.opcodes import OpTestAllocator
from ganeti.utils.text import ParseUnit

DIRECTION = Value(
    "--dir", dest="direction", choices=ElementsOf("TAllocatorDirection"), default="in",
    text="Show what the allocator is asked (in), or run it and show its answer (out)",
)  # fmt: skip
MODE = Value(
    "-m", "--mode", dest="mode", choices=ElementsOf("TAllocatorMode"), default="relocate", text="What is asked for"
)
MEMORY = Value("--memory", dest="memory", type="unit", default=128, text="Memory of the new instance (MiB)")
DISKS = Value(
    "--disks", dest="disks", default="4096,4096", metavar="SIZE,...", text="Sizes of the disks of the new instance"
)
DISK_TEMPLATE = Value(
    "-t", "--disk-template", dest="disk_template", choices=constants.DISK_TEMPLATES, metavar="TEMPLATE",
    text="Disk template of the new instance",
)  # fmt: skip
NICS = Value(
    "--nics", dest="nics", default="00:11:22:33:44:55", metavar="MAC/IP/BRIDGE,...",
    text="Network interfaces of the new instance",
)  # fmt: skip
OS = Value("-o", "--os-type", dest="os", metavar="OS", text="Operating system of the new instance")
VCPUS = Value("-p", "--vcpus", dest="vcpus", type="int", default=1, text="Virtual CPUs of the new instance")
TAGS = Value("--tags", dest="tags", metavar="TAG,...", text="Tags of the new instance")
EVAC_MODE = Value(
    "--evac-mode", dest="evac_mode", choices=ElementsOf("TEvacMode"), default="all",
    text="Which copies of instances leave their nodes",
)  # fmt: skip
TARGET_GROUPS = Values(
    "--target-groups", dest="target_groups", metavar="GROUP", completion=COMPLETE_GROUP,
    text="Node group to move to; may be repeated",
)  # fmt: skip
SPINDLE_USE = Value(
    "--spindle-use", dest="spindle_use", type="int", default=1, text="Spindles that the new instance uses"
)
COUNT = Value(
    "--count", dest="count", type="int", default=2,
    text="Number of new instances (multi-allocate), the most that are counted (capacity), the most moves (balance)",
)  # fmt: skip


def _Nics(words: str) -> list[dict[str, str]]:
    """Return the interfaces of ``MAC/IP/BRIDGE,...``; what is left out at the end stays unsaid."""
    names = ("mac", "ip", "bridge")
    found = []
    for word in words.split(","):
        parts = word.split("/")
        if len(parts) > len(names):
            raise errors.OpPrereqError(f"'{word}' is not MAC/IP/BRIDGE", errors.ECODE_INVAL)
        found.append({name: part for name, part in zip(names, parts, strict=False) if part})
    return found


def _Disks(words: str) -> list[dict[str, object]]:
    try:
        return [{"size": ParseUnit(word), "mode": constants.DISK_RDWR} for word in words.split(",")]
    except errors.UnitParseError as err:
        raise errors.OpPrereqError(f"Invalid disks '{words}': {err}", errors.ECODE_INVAL) from err


def Run(options: Options, arguments: list[str]) -> int:
    op = jobs.FromOptions(
        OpTestAllocator,
        options,
        name=arguments[0],
        instances=arguments,
        disks=_Disks(options.disks),
        nics=_Nics(options.nics),
        tags=[tag for tag in (options.tags or "").split(",") if tag],
        target_groups=options.target_groups or None,
    )
    output.ToStdout(jobs.SubmitOpCode(op, options))
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Show what an allocator is asked about an instance, or what it answers",
    (Some("instance"),),
    (
        DIRECTION, MODE, o.IALLOCATOR, MEMORY, DISKS, DISK_TEMPLATE, NICS, OS, VCPUS, TAGS, EVAC_MODE, TARGET_GROUPS,
        SPINDLE_USE, COUNT, o.DRY_RUN, *o.SET_PRIORITY,
    ),
)  # fmt: skip
