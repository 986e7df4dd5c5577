"""What both commands ask the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ganeti.cli import jobs, output
from ganeti.cli.parser import Options
from ganeti.opcodes import OpExtStorageDiagnose


def Ask(options: Options, fields: Sequence[str]) -> list[dict[str, Any]]:
    """Return these fields of every provider; say so on standard error if no node has one."""
    answer = jobs.SubmitOpCode(OpExtStorageDiagnose(output_fields=list(fields), names=[]), options)
    if not answer:
        output.ToStderr(
            "No node has a storage provider; install one in the same directory of every node ('gnt-cluster info' shows"
            " the search path)"
        )
    return [dict(zip(fields, row, strict=True)) for row in answer]
