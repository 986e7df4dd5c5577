"""What one transfer is to do, and the names of the files in its directory."""

from __future__ import annotations

import dataclasses
import posixpath

IMPORT, EXPORT = "import", "export"
MODES = (IMPORT, EXPORT)

STATUS_FILE, PID_FILE, CA_FILE = "status", "pid", "ca"

DEFAULT_COMPRESSION = "gzip"
DEFAULT_CONNECT_TIMEOUT = 60
# In place of a size: the program at the prefix writes it to the descriptor that this variable names.
SIZE_FROM_DESCRIPTOR = "fd"
SIZE_VARIABLE = "EXP_SIZE_FD"


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """The values of the command line (doc/reference/tools.md 10).

    ``family``: 4 or 6, None if nobody said; ``expected_size``: MiB, SIZE_FROM_DESCRIPTOR or None; ``prefix`` and ``suffix`` stand before
    and behind the transport in a shell's line; ``unasked_timeout``: seconds, None if it goes on unasked.
    """

    mode: str
    status_file: str
    key_file: str
    cert_file: str
    ca_file: str
    host: str = ""
    port: int = 0
    bind: str | None = None
    family: int | None = None
    connect_retries: int = 0
    connect_timeout: float = DEFAULT_CONNECT_TIMEOUT
    compress: str = DEFAULT_COMPRESSION
    expected_size: int | str | None = None
    magic: str | None = None
    prefix: str = ""
    suffix: str = ""
    unasked_timeout: float | None = None

    @property
    def sent_magic(self) -> bytes:
        """What stands before the data, as far as it is not compressed."""
        return b"" if self.magic is None else f"M={self.magic}".encode()

    @property
    def pid_file(self) -> str:
        """Its time is that of the last question for the status."""
        return posixpath.join(posixpath.dirname(posixpath.abspath(self.status_file)), PID_FILE)
