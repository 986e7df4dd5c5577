"""gnt-os diagnose: the state of every operating system definition on every node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command
from ganeti.cli.parser import Options
from ganeti.client.shared.definitions import Listed, NodeLines
from ganeti.client.shared.rows import QueryRows
from ganeti.opcodes import OpOsDiagnose

_FIELDS = ["name", "valid", "variants", "node_status", "hidden", "blacklisted", "os_version"]
_API_VARIANTS, _API_PARAMETERS = 15, 20


class Found(NamedTuple):
    """Describes one copy of a definition on a node."""

    path: str
    valid: bool
    message: str
    variants: Sequence[str]
    parameters: Sequence[Any]
    versions: Sequence[int]
    trusted: bool
    os_version: str | None = None


def _Details(copy: Sequence[Any]) -> str:
    found = Found(*copy)
    text = Listed("API versions", found.versions) if found.versions else " [no API versions declared]"
    highest = max(found.versions, default=0)
    if highest >= _API_VARIANTS:
        text += Listed("variants", found.variants)
    if highest >= _API_PARAMETERS:
        text += Listed("parameters", [name for name, *_ in found.parameters])
    if found.os_version is not None:
        text += f" [version: {found.os_version}]"
    return text + (" [trusted]" if found.trusted else " [untrusted]")


def _WithVersions(status: Mapping[str, Sequence[Any]], versions: Mapping[str, str | None]) -> dict[str, list[Any]]:
    """Return the copies on each node; the first one, which is used, also says its version."""
    return {uuid: [[*copies[0], versions.get(uuid)], *copies[1:]] if copies else [] for uuid, copies in status.items()}


def _GlobalStatus(valid: bool, status: Mapping[str, Sequence[Any]]) -> str:
    if valid:
        return "valid"
    return "partial valid" if any(copies and copies[0][1] for copies in status.values()) else "invalid"


def Run(options: Options, arguments: list[str]) -> int:
    answer = jobs.SubmitOpCode(OpOsDiagnose(output_fields=_FIELDS, names=[]), options)
    if options.output:
        output.PrintJson([dict(zip(_FIELDS, row, strict=True)) for row in answer])
        return constants.EXIT_SUCCESS if all(row[1] for row in answer) else constants.EXIT_FAILURE
    nodes = {row["uuid"]: row["name"] for row in QueryRows(jobs.GetClient(), "node", ["uuid", "name"])}
    code = constants.EXIT_SUCCESS
    for name, valid, variants, status, hidden, blacklisted, versions in answer:
        summary = _GlobalStatus(valid, status)
        if not valid:
            code = constants.EXIT_FAILURE
        marks = (" [hidden]" if hidden else "") + (" [blacklisted]" if blacklisted else "")
        output.ToStdout(f"OS: {name} [global status: {summary}]{marks}")
        if variants:
            output.ToStdout(f"  Variants: [{', '.join(variants)}]")
        for line in NodeLines(_WithVersions(status, versions), nodes, "OS not found", _Details):
            output.ToStdout(output.WithoutControls(line))
        output.ToStdout()
    return code


COMMAND = Command(
    Run,
    "Show the state of every operating system definition on every node; the exit code is 1 unless all are valid",
    (),
    (*o.SET_PRIORITY, o.OUTPUT_FORMAT),
)
