"""gnt-debug metad: there is no metadata daemon to talk to."""

from __future__ import annotations

from ganeti import errors
from ganeti.cli.command import Command, Some
from ganeti.cli.parser import Options


def Run(options: Options, arguments: list[str]) -> int:
    raise errors.OpPrereqError("There is no metadata daemon in this release", errors.ECODE_STATE)


COMMAND = Command(Run, "Talks to the metadata daemon (not part of this release)", (Some("text"),))
