"""Output of the programs: results on stdout, everything else on stderr."""

from __future__ import annotations

import os
import stat
import sys
from typing import Any, TextIO

from ganeti import errors, serializer
from ganeti.utils.text import Printable


def _Write(stream: TextIO, text: str, keep: str = "") -> None:
    """Write ``text``, which may hold words of a node, a guest or a script: it must not steer the terminal."""
    text = Printable(text, "\n\t" + keep)
    try:
        stream.write(text)
    except UnicodeEncodeError:
        # The terminal has another encoding: an escape is better than no output.
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


def ToStdout(text: str = "", keep: str = "") -> None:
    """Write one line, or several, of the result; ``keep``: controls that the user asked for, such as a separator."""
    _Write(sys.stdout, text + "\n", keep)


def ToStderr(text: str = "") -> None:
    """Print one or more lines for the user, after everything that was printed on stdout before."""
    sys.stdout.flush()
    _Write(sys.stderr, text + "\n")
    sys.stderr.flush()


def ToStdoutAndFlush(text: str) -> None:
    """Print a line that is needed at once, such as progress."""
    ToStdout(text)
    sys.stdout.flush()


def KeepToOwner() -> None:
    """Take a file that stdout was redirected to away from all but its owner: secrets follow; OpPrereqError if it cannot be.

    The shell made it with its umask, which lets everybody read.
    """
    handle = sys.stdout.fileno()
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        return
    try:
        os.fchmod(handle, 0o600)
    except OSError as err:
        raise errors.OpPrereqError(
            f"The file for the output cannot be protected: {err.strerror}",
            errors.ECODE_ENVIRON,
            hint="choose a file of yours on a file system with permissions",
        ) from err


def PrintJson(value: Any) -> None:
    """Print the result for programs (``--output json``)."""
    ToStdout(serializer.Dump(value, pretty=True).rstrip("\n"))


def SafeEncode(text: str) -> str:
    """Return ``text`` in printable ASCII: logs and data of nodes must not control the terminal."""
    parts = []
    for char in text:
        if char == "\t":
            parts.append("\\t")
        elif char == "\n":
            parts.append("\\n")
        elif char == "\r":
            parts.append("\\r")
        elif " " <= char <= "~":
            parts.append(char)
        else:
            code = ord(char)
            parts.append(f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    return "".join(parts)


def WithoutControls(text: str) -> str:
    """Return ``text`` as one line that steers nothing, in its own alphabet: for cells and values from elsewhere."""
    return Printable(text)
