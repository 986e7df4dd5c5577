"""gnt-os diagnose: the state of every operating system definition on every node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command
from ganeti.cli.parser import Options
from ganeti.client.shared.rows import QueryRows
from ganeti.opcodes import OpOsDiagnose

_FIELDS = ["name", "valid", "variants", "node_status", "hidden", "blacklisted"]
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


def _Listed(what: str, values: Sequence[Any]) -> str:
    return f" [{what}: {', '.join(str(v) for v in values)}]" if values else f" [no {what}]"


def _Details(found: Found) -> str:
    text = f"{'valid' if found.valid else f'invalid - {found.message}'} (path: {found.path})"
    if not found.valid:
        return text
    text += _Listed("API versions", found.versions) if found.versions else " [no API versions declared]"
    highest = max(found.versions, default=0)
    if highest >= _API_VARIANTS:
        text += _Listed("variants", found.variants)
    if highest >= _API_PARAMETERS:
        text += _Listed("parameters", [name for name, *_ in found.parameters])
    return text + (" [trusted]" if found.trusted else " [untrusted]")


def _NodeLines(status: Mapping[str, Sequence[Any]], names: Mapping[str, str]) -> list[str]:
    """Return one line for each node, the nodes with a valid copy first."""
    lines: list[tuple[bool, str, list[str]]] = []
    for key, copies in status.items():
        node = names.get(key, key)
        if not copies:
            lines.append((False, node, [f"  Node: {node}, status: OS not found"]))
            continue
        first, *hidden = [Found(*copy) for copy in copies]
        text = [f"  Node: {node}, status: {_Details(first)}"]
        for copy in hidden:
            word = "valid" if copy.valid else f"invalid - {copy.message}"
            text.append(f"    [hidden] path: {copy.path}, status: {word}")
        lines.append((first.valid, node, text))
    lines.sort(key=lambda line: (not line[0], line[1]))
    return [text for _, _, texts in lines for text in texts]


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
    for name, valid, variants, status, hidden, blacklisted in answer:
        summary = _GlobalStatus(valid, status)
        if not valid:
            code = constants.EXIT_FAILURE
        marks = (" [hidden]" if hidden else "") + (" [blacklisted]" if blacklisted else "")
        output.ToStdout(f"OS: {name} [global status: {summary}]{marks}")
        if variants:
            output.ToStdout(f"  Variants: [{', '.join(variants)}]")
        for line in _NodeLines(status, nodes):
            output.ToStdout(output.WithoutControls(line))
        output.ToStdout()
    return code


COMMAND = Command(
    Run,
    "Show the state of every operating system definition on every node; the exit code is 1 unless all are valid",
    (),
    (*o.SET_PRIORITY, o.OUTPUT_FORMAT),
)
