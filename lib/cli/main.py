"""The main program of all ``gnt-*`` commands: from the command line to the exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ganeti import constants, errors, runtime
from ganeti.cli import jobs, output, secrets
from ganeti.cli.command import Command, LoadProgram, Program, UsageError
from ganeti.cli.options import COMMON
from ganeti.cli.parser import CommandParser, Options

# List commands whose default options an administrator may keep in the environment.
ENVIRONMENT_DEFAULTS = frozenset(["GNT_NODE_LIST", "GNT_INSTANCE_LIST", "GNT_GROUP_LIST"])

_USAGE_NAME_LIMIT = 60
_USAGE_WIDTH = 76


def Usage(program: Program) -> str:
    """Return the list of a program's commands."""
    names = sorted(program.commands)
    width = min(max(len(name) for name in names), _USAGE_NAME_LIMIT)
    lines = [
        f"Usage: {program.name} {{command}} [options...] [argument...]",
        f"{program.name} <command> --help to see details, or man {program.name}",
        "",
        "Commands:",
    ]
    from textwrap import wrap

    for name in names:
        text = wrap(program.Load(name).summary, _USAGE_WIDTH - width) or [""]
        lines.append(f" {name:<{width}} - {text[0]}")
        lines += [f" {'':<{width}}   {line}" for line in text[1:]]
    return "\n".join(lines) + "\n"


def UnknownCommand(program: Program, word: str) -> str:
    """Return the answer to a command word that does not exist, with the names it may have meant."""
    from ganeti.utils.text import Suggestion

    shown = output.WithoutControls(word[:80])
    suggestion = Suggestion(word, [*program.commands, *program.aliases])
    lines = [f"{program.name}: unknown command '{shown}'", suggestion, f"'{program.name} --help' lists the commands."]
    return "\n".join(line for line in lines if line)


def Version(name: str) -> str:
    return f"{name} (ganeti {constants.VCS_VERSION}) {constants.RELEASE_VERSION}"


def MakeParser(program: Program, word: str, command: Command) -> CommandParser:
    """Return the parser of a command; ``word`` is what it was called by, empty in a program without command words."""
    usage = " ".join(part for part in (program.name, word, command.usage) if part)
    return CommandParser(program.name, usage, command.summary, (*command.options, *COMMON), command.details)


def _WithEnvironment(program: str, argv: Sequence[str]) -> list[str]:
    """Insert the words of GNT_NODE_LIST and its siblings after the command word."""
    name = f"{program}_{argv[0]}".replace("-", "_").upper()
    text = runtime.Environment().get(name) if name in ENVIRONMENT_DEFAULTS else None
    if not text:
        return list(argv)
    from shlex import split

    try:
        return [argv[0], *split(text), *argv[1:]]
    except ValueError as err:
        raise errors.OpPrereqError(f"Environment variable {name} cannot be read: {err}", errors.ECODE_INVAL) from err


def RunProgram(program: Program, argv: Sequence[str]) -> int:
    """Run a program with these arguments; errors of the cluster leave it as exceptions."""
    if argv and argv[0] == "--version":
        output.ToStdout(Version(program.name))
        return constants.EXIT_SUCCESS
    if program.command is not None:
        return _RunCommand(program, "", program.command, argv)
    word = argv[0] if argv else ""
    if word in ("", "-h", "--help"):
        output.ToStdout(Usage(program))
        return constants.EXIT_SUCCESS if word else constants.EXIT_FAILURE
    name = program.aliases.get(word, word)
    if name not in program.commands:
        output.ToStderr(UnknownCommand(program, word))
        return constants.EXIT_FAILURE
    return _RunCommand(program, word, program.Load(name), _WithEnvironment(program.name, argv)[1:])


def _RunCommand(program: Program, word: str, command: Command, words: Sequence[str]) -> int:
    secrets.Hide(words)
    parser = MakeParser(program, word, command)
    options, arguments = parser.parse_args(list(words))
    called = f"{program.name} {word}".rstrip()
    try:
        command.CheckCount(word or program.name, arguments)
        _StartLog(called, options, [*called.split(), *words], command.logs)
        jobs.SetInvocation(program.name, word)
        return command.run(options, arguments)
    except errors.GenericError as err:
        err.hint = err.hint or parser.ExplainLateOption(words, arguments)
        if isinstance(err, UsageError) and not err.hint:
            err.hint = f"Usage: {called} {command.usage}"
        raise


# --- log ----------------------------------------------------------------------------------------------------------------


def _StartLog(program: str, options: Options, words: Sequence[str], logs: bool) -> None:
    """Open the log if something may be logged; most commands log nothing and save the time."""
    if options.debug or logs or "logging" in sys.modules:
        _OpenLog(program, options.debug)
    if options.debug:
        import logging

        logging.debug("Command line: %s", _CommandLine(words))


def _OpenLog(program: str, debug: int = 0) -> None:
    import logging

    from ganeti import pathutils
    from ganeti.daemon import logs

    # A user who may run the command but not write the log works without it.
    try:
        logs.SetUp(program, pathutils.LOG_COMMANDS, debug=debug, terminal=logging.ERROR, console=False)
    except OSError:
        pass


def _CommandLine(words: Sequence[str]) -> str:
    """Return the command line without secret values."""
    shown = []
    for word, secret in secrets.Split(words):
        shown.append(f"{word}<redacted>" if secret else runtime.ShellQuote(word))
    return " ".join(shown)


def _LogFailure(program: str, text: str, trace: bool = False) -> None:
    """Record the failure in the log of commands; it was printed already."""
    import logging

    from ganeti import pathutils
    from ganeti.daemon import logs

    try:
        logs.SetUp(program, pathutils.LOG_COMMANDS, console=False)
    except OSError:
        return
    logging.error("%s", text, exc_info=trace)


# --- errors -------------------------------------------------------------------------------------------------------------


def _Explain(program: str, err: Exception) -> int:
    """Print what went wrong and return the exit code."""
    if isinstance(err, jobs.JobSubmitted):
        output.ToStderr(f"JobID: {err.job_id}")
        return constants.EXIT_SUCCESS
    if isinstance(err, errors.GenericError):
        from ganeti.cli.failures import FormatError

        code, text = FormatError(err)
        output.ToStderr(text)
        _LogFailure(program, text)
        return code
    if isinstance(err, OSError) and err.filename is not None:
        text = f"Failure: {err.filename}: {err.strerror}"
        output.ToStderr(text)
        _LogFailure(program, text)
        return constants.EXIT_FAILURE
    from ganeti import pathutils

    text = f"Failure: internal error: {type(err).__name__}: {err}"
    output.ToStderr(f"{text}\nDetails are in {pathutils.LOG_COMMANDS}")
    _LogFailure(program, text, trace=True)
    return constants.EXIT_FAILURE


def _Guarded(name: str, argv: Sequence[str]) -> int:
    program = f"{name} {argv[0]}" if argv else name
    try:
        return RunProgram(LoadProgram(name), argv)
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        output.ToStderr(
            "Aborted. Note that if the operation created any jobs, they might have been submitted and will continue to"
            " run in the background."
        )
        return constants.EXIT_FAILURE
    except Exception as err:  # noqa: BLE001 - the last chance to explain anything
        return _Explain(program, err)


def Main() -> int:
    """Run the program that the start script is named after; return its exit code."""
    if sys.stdout is None:  # the caller closed it
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    try:
        try:
            code = _Guarded(os.path.basename(sys.argv[0]), sys.argv[1:])
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader has gone; the interpreter's own flush at exit must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # noqa: TID251
        return constants.EXIT_FAILURE
    return code
