"""What the tools share: -d, -v, messages on stderr, errors as one line."""

from __future__ import annotations

import logging
import optparse
import sys
from collections.abc import Callable
from typing import Any

from ganeti import constants, errors, pathutils
from ganeti.daemon import pidfile
from ganeti.daemon.main import ErrorText
from ganeti.utils.text import Printable

_DAEMONS = (constants.NODED, constants.CONFD, constants.MASTERD, constants.RAPI)


def Parser(usage: str, version: bool = True) -> optparse.OptionParser:
    """Return a parser with the options every tool knows."""
    release = f"%prog (ganeti) {constants.RELEASE_VERSION}" if version else None
    parser = optparse.OptionParser(usage=usage, version=release)
    parser.add_option("-d", "--debug", dest="debug", action="count", default=0, help="Increase debugging level")
    parser.add_option("-v", "--verbose", dest="verbose", action="count", default=0, help="Verbose output")
    return parser


class _Lines(logging.Formatter):
    """``YYYY-MM-DD HH:MM:SS,mmm: TEXT``; names of files and words of others do not steer the terminal."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        return Printable(super().format(record), "\n\t")


def LogToStderr(debug: int, verbose: int) -> None:
    """Log errors only; with -v also what is done, with -d everything."""
    handler: logging.StreamHandler[Any] = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.DEBUG if debug else logging.INFO if verbose else logging.ERROR)


def RunTool(action: Callable[[], int]) -> int:
    """Run the body of a tool; an error of ours, or of the machine such as a full disk, becomes one log line and its exit code."""
    try:
        return action()
    except errors.GenericError as err:
        logging.error("%s", ErrorText(err))
        return err.exit_code
    except OSError as err:
        logging.error("%s", MachineProblem(err))
        return constants.EXIT_FAILURE
    except KeyboardInterrupt:
        logging.error("Aborted")
        return constants.EXIT_FAILURE


def MachineProblem(err: OSError) -> str:
    """Return ``/var/lib/ganeti/x: No space left on device``."""
    return f"{err.filename}: {err.strerror}" if err.filename else str(err)


def CheckStopped() -> None:
    """Raise OpPrereqError if a daemon runs on this node."""
    running = [name for name in _DAEMONS if pidfile.Running(name) is not None]
    if running:
        raise errors.OpPrereqError(
            f"{', '.join(running)} is running on this node",
            errors.ECODE_STATE,
            hint=f"stop the daemons of all nodes first, the master's last: '{pathutils.DAEMON_UTIL} stop-all'",
        )
