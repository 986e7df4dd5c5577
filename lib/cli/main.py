"""The main program of all ``gnt-*`` commands: from the command line to the exit code (spec/cli.md 1)."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence

from ganeti import constants, errors, runtime
from ganeti.cli import jobs, output
from ganeti.cli.command import Command, LoadProgram, Program
from ganeti.cli.options import COMMON
from ganeti.cli.parser import CommandParser, Options

# The list commands whose defaults an administrator may keep in the environment.
_ENVIRONMENT_DEFAULTS = frozenset(["GNT_NODE_LIST", "GNT_INSTANCE_LIST", "GNT_GROUP_LIST"])

# Options whose values must not be written anywhere.
_PRIVATE = re.compile(r"--os-parameters-[ps]")

_USAGE_NAME_LIMIT = 60
_USAGE_WIDTH = 76


def Usage(program: Program) -> str:
    """What a program says when it is called without a command it knows."""
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
    from difflib import get_close_matches

    shown = output.WithoutControls(word[:80])
    names = [*program.commands, *program.aliases]
    # A word is often the beginning of a longer name, or a part of it, which difflib does not count as close.
    near = [name for name in names if len(word) > 2 and word in name]
    near += [name for name in get_close_matches(word, names, n=3) if name not in near]
    lines = [f"{program.name}: unknown command '{shown}'"]
    if near:
        lines.append("Did you mean " + " or ".join(f"'{name}'" for name in near[:3]) + "?")
    lines.append(f"'{program.name} --help' lists the commands.")
    return "\n".join(lines)


def Version(name: str) -> str:
    return f"{name} (ganeti {constants.VCS_VERSION}) {constants.RELEASE_VERSION}"


def MakeParser(program: Program, word: str, command: Command) -> CommandParser:
    usage = f"{program.name} {word} {command.usage}".rstrip()
    return CommandParser(program.name, usage, command.summary, (*command.options, *COMMON))


def _WithEnvironment(program: str, argv: Sequence[str]) -> list[str]:
    """Inserts the words of GNT_NODE_LIST and its siblings behind the command word."""
    name = f"{program}_{argv[0]}".replace("-", "_").upper()
    text = runtime.Environment().get(name) if name in _ENVIRONMENT_DEFAULTS else None
    if not text:
        return list(argv)
    from shlex import split

    try:
        return [argv[0], *split(text), *argv[1:]]
    except ValueError as err:
        raise errors.OpPrereqError(f"Environment variable {name} cannot be read: {err}", errors.ECODE_INVAL) from err


def RunProgram(name: str, argv: Sequence[str]) -> int:
    """Runs ``NAME ARGV``; errors of ours leave it as exceptions."""
    program = LoadProgram(name)
    if argv and argv[0] == "--version":
        output.ToStdout(Version(name))
        return constants.EXIT_SUCCESS
    word = argv[0] if argv else ""
    command_name = program.aliases.get(word, word)
    if word in ("", "-h", "--help"):
        output.ToStdout(Usage(program))
        return constants.EXIT_SUCCESS if word else constants.EXIT_FAILURE
    if command_name not in program.commands:
        output.ToStderr(UnknownCommand(program, word))
        return constants.EXIT_FAILURE
    words = _WithEnvironment(name, argv)
    command = program.Load(command_name)
    parser = MakeParser(program, word, command)
    options, arguments = parser.parse_args(words[1:])
    try:
        command.CheckCount(word, arguments)
        _StartLog(f"{name} {word}", options, [name, *words], command.logs)
        jobs.SetInvocation(name, word)
        return command.run(options, arguments)
    except errors.GenericError as err:
        err.hint = err.hint or parser.ExplainLateOption(words, arguments)
        raise


# --- log ----------------------------------------------------------------------------------------------------------------


def _StartLog(program: str, options: Options, words: Sequence[str], logs: bool) -> None:
    """Sets the log up where something may be logged: the usual command needs no log and saves the time."""
    if options.debug or logs or "logging" in sys.modules:
        _OpenLog(program, options.debug)
    if options.debug:
        import logging

        logging.debug("Command line: %s", _CommandLine(words))


def _OpenLog(program: str, debug: int = 0) -> None:
    import logging

    from ganeti import pathutils
    from ganeti.daemon import logs

    # Whoever may use the command but not the log works without it.
    try:
        logs.SetUp(program, pathutils.LOG_COMMANDS, debug=debug, terminal=logging.ERROR, console=False)
    except OSError:
        pass


def _CommandLine(words: Sequence[str]) -> str:
    """The command line without what must not be seen."""
    shown = []
    hide_next = False
    for word in words:
        option, equals, _ = word.partition("=")
        if hide_next:
            shown.append("<redacted>")
            hide_next = False
        elif _PRIVATE.match(option):
            shown.append(f"{option}=<redacted>" if equals else option)
            hide_next = not equals
        else:
            shown.append(runtime.ShellQuote(word))
    return " ".join(shown)


def _LogFailure(program: str, text: str, trace: bool = False) -> None:
    """Keeps the failure in the log of commands; the terminal was told already."""
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
    """Says what went wrong and returns the exit code."""
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
        return RunProgram(name, argv)
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        output.ToStderr(
            "Aborted. Note that if the operation created any jobs, they might have been submitted and will continue to"
            " run in the background."
        )
        return constants.EXIT_FAILURE
    except Exception as err:  # noqa: BLE001 - the last place where an administrator can be told
        return _Explain(program, err)


def Main() -> int:
    """Entry point of the start scripts."""
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
        # Nobody reads any more; the interpreter's own flush at the end must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # noqa: TID251
        return constants.EXIT_FAILURE
    return code
