"""Secret values on command lines: read from elsewhere, and taken out of what other users see in the process list."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from ganeti import errors, runtime
from ganeti.cli import values

_OPTION = re.compile(r"--os-parameters-[ps]")
_LIMIT = 1024 * 1024
_FILE, _STANDARD_INPUT = "@", "@-"
# Fields of /proc/self/stat after the program's name: where the words of the command line begin and end.
_ARG_START, _ARG_END = 45, 46


def ParseKeyVal(option: str, text: str) -> dict[str, Any]:
    """Return the pairs of ``k=v,k=v``, or of ``@FILE`` (``@-``: standard input), which has one pair on each line."""
    if not text.startswith(_FILE):
        return values.ParseKeyVal(option, text)
    result = {}
    for number, line in enumerate(_Read(option, text).splitlines(), 1):
        if not line.strip():
            continue
        key, equals, value = line.partition("=")
        key = key.strip()
        if not equals or not key:
            # The line itself may be the secret.
            raise errors.ParameterError(f"Option {option}: line {number} of the file is not KEY=VALUE")
        if key in result:
            raise errors.ParameterError(f"Duplicate key '{key}' in option {option}")
        result[key] = value
    return result


def _Read(option: str, text: str) -> str:
    path = text.removeprefix(_FILE)
    try:
        data = sys.stdin.buffer.read(_LIMIT + 1) if text == _STANDARD_INPUT else runtime.ReadFile(path, _LIMIT)
        if len(data) > _LIMIT:
            raise runtime.FileTooLarge(path, _LIMIT)
        return data.decode("utf-8")
    except (OSError, UnicodeDecodeError, runtime.FileTooLarge) as err:
        reason = err.strerror if isinstance(err, OSError) and err.strerror else err
        raise errors.ParameterError(f"Option {option}: file '{path}' cannot be read: {reason}") from err


def Split(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Return each word as what may be shown of it and the secret that follows; one of the two may be empty."""
    secret_next = False
    for word in words:
        option, equals, value = word.partition("=")
        if secret_next:
            yield ("", word)
            secret_next = False
        elif _OPTION.match(option):
            secret_next = not equals
            yield (option + equals, value)
        else:
            yield (word, "")


def Hide(words: Sequence[str]) -> None:
    """Overwrite secret words where ``ps`` reads them; what cannot be overwritten stays as it is.

    The command may wait for hours for its job.  A value that was seen in the moment before is no longer secret: a file
    is the better way.
    """
    secrets = [secret for _, secret in Split(words) if secret and not secret.startswith(_FILE)]
    if not secrets:
        return
    try:
        fields = runtime.ReadText("/proc/self/stat").rpartition(")")[2].split()
        start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(start)
            line = memory.read(end - start)
            for secret in secrets:
                raw = secret.encode("utf-8", "surrogateescape")
                line = line.replace(raw + b"\0", b"*".ljust(len(raw)) + b"\0")
            memory.seek(start)
            memory.write(line)
    except (OSError, ValueError, IndexError):
        return
