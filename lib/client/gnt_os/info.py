"""gnt-os info: versions, variants and parameters of operating system definitions."""

from __future__ import annotations

from typing import Any

from ganeti import constants
from ganeti.cli import info, jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Options
from ganeti.opcodes import OpOsDiagnose

_FIELDS = [
    "name", "valid", "variants", "parameters", "api_versions", "blacklisted", "hidden", "os_hvp", "osparams", "trusted",
    "os_version",
]  # fmt: skip


def _Listed(title: str, items: list[str]) -> list[str]:
    return [f"  - {title}:", *(f"    - {item}" for item in items)]


def _Lines(row: dict[str, Any]) -> list[str]:
    lines = [f"{row['name']}:"]
    lines += [f"  - {key}: {row[key]}" for key in ("valid", "hidden", "blacklisted")]
    versions = sorted({version or "none" for version in row["os_version"].values()})
    if versions not in ([], ["none"]):
        differ = len(versions) > 1
        lines.append(f"  - version: {', '.join(versions)}" + (" (differs between nodes)" if differ else ""))
    if row["valid"]:
        lines += _Listed("API versions", [str(version) for version in sorted(row["api_versions"])])
        lines += _Listed("variants", list(row["variants"]))
        lines += _Listed("parameters", [f"{name}: {text}" for name, text, *_ in row["parameters"]])
    return [*lines, f"  - trusted: {row['trusted']}"]


def _OnlyParameters(name: str, facts: dict[str, Any]) -> info.Pairs | None:
    """Return the parameters stored for an operating system that no node has; None if there are none."""
    hypervisor, parameters = facts["os_hvp"].get(name), facts["osparams"].get(name)
    if hypervisor is None and parameters is None:
        return None
    return info.Pairs(
        [(name, info.Pairs([
            ("OS-specific hypervisor parameters", hypervisor or {}),
            ("OS parameters", parameters or {}),
        ]))]
    )  # fmt: skip


def Run(options: Options, arguments: list[str]) -> int:
    answer = jobs.SubmitOpCode(OpOsDiagnose(output_fields=_FIELDS, names=[]), options)
    rows = [dict(zip(_FIELDS, values, strict=True)) for values in answer]
    known = {row["name"]: row for row in rows}
    for name in arguments:
        if name not in known:
            output.ToStderr(f"Warning: no node has an operating system '{name}'")
    if options.output:
        output.PrintJson([known[name] for name in arguments or known if name in known])
        return constants.EXIT_SUCCESS
    facts = jobs.GetClient().QueryClusterInfo() if set(arguments) - known.keys() else {}
    for name in arguments or known:
        if name in known:
            for line in _Lines(known[name]):
                output.ToStdout(output.WithoutControls(line))
        else:
            kept = _OnlyParameters(name, facts)
            if kept is None:
                output.ToStdout(f"{name}: ")
            else:
                info.PrintInfo(kept)
        output.ToStdout()
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Show versions, variants and parameters of operating system definitions",
    (AnyNumber("name"),),
    (*o.SET_PRIORITY, o.OUTPUT_FORMAT),
)
