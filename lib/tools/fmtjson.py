"""fmtjson: reads JSON from standard input and writes it with an indentation and sorted keys, for people and for diff."""

from __future__ import annotations

import os
import sys
from typing import Any

from ganeti import constants, errors, serializer

_LIMIT = 256 * 1024 * 1024


def _Sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _Sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_Sorted(part) for part in value]
    return value


def _Explain(text: str) -> int:
    sys.stderr.write(f"{text}\n")
    return constants.EXIT_FAILURE


def Main() -> int:
    program, *arguments = sys.argv
    if arguments:
        return _Explain(f"Usage: {os.path.basename(program)} < FILE\nWrites JSON with an indentation and sorted keys.")
    data = sys.stdin.buffer.read(_LIMIT + 1)
    try:
        text = serializer.Dump(_Sorted(serializer.Load(data, _LIMIT)), pretty=True)
    except (errors.ParseError, RecursionError) as err:
        return _Explain(f"Standard input is not JSON that can be formatted: {err}")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever reads has seen enough; the interpreter must not complain once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # noqa: TID251 - nobody writes a file here
    return constants.EXIT_SUCCESS
