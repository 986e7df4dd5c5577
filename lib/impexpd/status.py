"""The status file of a transfer (doc/reference/interfaces.md f.1)."""

from __future__ import annotations

import logging
from collections import deque
from typing import Any

from ganeti import runtime, serializer
from ganeti.utils.text import Printable

_MODE = 0o400
_LINES, _LINE_LENGTH = 20, 500
LIMIT = 1024 * 1024
"""No status has more bytes."""


class StatusFile:
    """What the transfer says of itself; ``values`` has every key of the file but the times and the output."""

    def __init__(self, path: str):
        self._path = path
        self._made = runtime.Time()
        self._output: deque[str] = deque(maxlen=_LINES)
        self._complained = False
        self.values: dict[str, Any] = {
            "listen_port": None,
            "connected": False,
            "progress_mbytes": None,
            "progress_throughput": None,
            "progress_eta": None,
            "progress_percent": None,
            "exit_status": None,
            "error_message": None,
        }

    def Note(self, line: str) -> None:
        """Add a line of a program's output; it is in the file after the next ``Write``."""
        self._output.append(Printable(line[:_LINE_LENGTH]))

    @property
    def last_line(self) -> str:
        return self._output[-1] if self._output else ""

    def Write(self, **changes: Any) -> bool:
        """Set these values and write the file; return False if it cannot be written, which is logged once."""
        self.values.update(changes)
        content = {
            **self.values,
            "recent_output": list(self._output),
            "ctime": self._made,
            "mtime": runtime.Time(),
        }
        try:
            runtime.WriteFile(self._path, serializer.DumpBytes(content), mode=_MODE, sync=False)
        except OSError as err:
            if not self._complained:
                logging.error("Status file %s cannot be written: %s", self._path, err.strerror)
            self._complained = True
            return False
        return True
