"""gnt-cluster watcher: the pause of the watcher."""

from __future__ import annotations

import time

from ganeti import constants, errors, runtime
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, Maybe, One
from ganeti.cli.parser import Options
from ganeti.utils.text import ParseTimespec


def _Invalid(text: str, hint: str | None = None) -> errors.OpPrereqError:
    return errors.OpPrereqError(text, errors.ECODE_INVAL, hint=hint)


def Run(options: Options, arguments: list[str]) -> int:
    command = arguments[0]
    client = jobs.GetClient()
    if command == "continue":
        client.SetWatcherPause(None)
        output.ToStdout("The watcher is no longer paused.")
    elif command == "pause":
        if len(arguments) < 2:
            raise _Invalid("Missing pause duration", "such as 'gnt-cluster watcher pause 30m'")
        until = client.SetWatcherPause(runtime.Time() + ParseTimespec(arguments[1]))
        output.ToStdout(f"The watcher is paused until {time.ctime(until)}.")
    elif command == "info":
        until = client.QueryConfigValues(["watcher_pause"])[0]
        if options.output:
            output.PrintJson({"watcher_pause": until})
        elif until is None or until < runtime.Time():
            output.ToStdout("The watcher is not paused.")
        else:
            output.ToStdout(f"The watcher is paused until {time.ctime(until)}.")
    else:
        raise _Invalid(f"Command '{command}' is not valid.")
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Pause the watcher for a while (such as 30m or 2h), end the pause, or show it",
    (One("command", ("pause", "continue", "info")), Maybe("timespec")),
    (o.OUTPUT_FORMAT,),
)
