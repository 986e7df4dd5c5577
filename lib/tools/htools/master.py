"""The master daemon on this machine, as the programs reach it."""

from __future__ import annotations

from ganeti import errors
from ganeti.luxi import client, protocol
from ganeti.tools.htools.output import Streams


class MasterClient(client.Client):
    """Says so while a master daemon that does not answer is tried again or waited for, as the gnt-* commands do.

    ``path``: of its socket, "" or None for the usual one.
    """

    def __init__(self, path: str | None, streams: Streams):
        super().__init__(path or None)
        self._streams = streams

    def Retrying(self, seconds: float) -> None:
        self._streams.Err(client.RetryingText(seconds))

    def Late(self, seconds: float) -> None:
        self._streams.Err(client.LateText(seconds))


def Explain(err: errors.GenericError) -> str:
    """Return an error of a call in words; those that name nothing but the socket say what is wrong with it."""
    if not isinstance(err, (protocol.NoMasterError, protocol.PermissionError)):
        return str(err)
    what = "No master daemon listens" if isinstance(err, protocol.NoMasterError) else "No permission to connect"
    return f"{what} on socket {err}{f'; {err.hint}' if err.hint else ''}"
