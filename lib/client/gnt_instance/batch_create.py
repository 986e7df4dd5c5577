"""gnt-instance batch-create: creates the instances that a file describes."""

from __future__ import annotations

from typing import Any

from ganeti import constants, errors, runtime, serializer
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.client.shared.evacuation import Report
from ganeti.opcodes import OpInstanceCreate, OpInstanceMultiAlloc

MAX_FILE = 16 * 1024 * 1024

# What the opcode demands and a definition may leave out.
_DEFAULTS: dict[str, Any] = {"mode": constants.CREATE_NEW, "disks": [], "nics": [{}]}


class _BadFile(Exception):
    """The file cannot be used; the text says why."""


def _Read(path: str) -> list[dict[str, Any]]:
    """Return the definitions of a file; raise _BadFile."""
    try:
        text = runtime.ReadFile(path, MAX_FILE)
    except OSError as err:
        raise _BadFile(f"Can't read the instance definition file {path}: {err.strerror}") from err
    try:
        found = serializer.Load(text)
    except errors.ParseError as err:
        raise _BadFile(f"Can't parse the instance definition file {path}: {err}") from err
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise _BadFile(f"The instance definition file {path} is not a list of objects")
    return found


def _Opcode(number: int, item: dict[str, Any]) -> dict[str, Any]:
    """Return the definition as the opcode that creates the instance; raise OpPrereqError."""
    name = item.get("instance_name")
    which = f"{number} ({name})" if isinstance(name, str) else str(number)
    unknown = sorted(set(item) - set(OpInstanceCreate.OP_PARAMS))
    if unknown:
        raise errors.OpPrereqError(f"Unknown fields in definition {which}: {', '.join(unknown)}", errors.ECODE_INVAL)
    values = {**_DEFAULTS, **item}
    try:
        OpInstanceCreate(**values).Validate(set_defaults=False)
    except errors.OpPrereqError as err:
        raise errors.OpPrereqError(f"Definition {which}: {err.args[0]}", *err.args[1:]) from err
    return {"OP_ID": OpInstanceCreate.OP_ID, **values}


def Run(options: Options, arguments: list[str]) -> int:
    try:
        items = _Read(arguments[0])
    except _BadFile as err:
        output.ToStderr(str(err))
        return constants.EXIT_FAILURE
    if not items:
        raise errors.OpPrereqError(f"{arguments[0]} defines no instances", errors.ECODE_INVAL)
    instances = [_Opcode(number, item) for number, item in enumerate(items)]
    op = jobs.FromOptions(OpInstanceMultiAlloc, options, instances=instances)
    result = jobs.SubmitOrSend(op, options)
    lost = [(False, name) for name in result["failed"]]
    if lost:
        output.ToStdout(f"No place was found for: {', '.join(result['failed'])}")
    if options.dry_run:
        output.ToStdout(f"{len(result['allocatable'])} of {len(items)} instances would be created.")
        return constants.EXIT_FAILURE if lost else constants.EXIT_SUCCESS
    ended = jobs.CollectJobs(result["jobs"], options)
    # The jobs stand in the order of the instances that got a place.
    failed = [
        f"{name} (job {job})" if submitted else name
        for name, (submitted, job), (success, _) in zip(result["allocatable"], result["jobs"], ended, strict=False)
        if not success
    ]
    if failed:
        output.ToStdout(f"Not created: {', '.join(failed)}")
    return Report([*ended, *lost], "All instances created successfully.", "during the creation")


COMMAND = Command(
    Run,
    "Create the instances that a file describes, each in a job of its own",
    (One("file"),),
    (*o.SET_JOB, o.IALLOCATOR),
    details="The file is a JSON list of objects, whose keys are the parameters of OP_INSTANCE_CREATE, such as"
    " instance_name, disk_template, disks, nics, os_type, beparams, pnode and snode.  mode and disks may be left out; nics"
    " then are one with default parameters.  Either all instances name their nodes (pnode, and snode for DRBD) or none does:"
    " then the allocator chooses, for all of them at once.",
)
