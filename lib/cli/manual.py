"""The manual page of a program: its own text between parts that follow from its commands; made at build time."""

from __future__ import annotations

from collections.abc import Iterable

from ganeti import constants, pathutils
from ganeti.cli.command import Command, Program
from ganeti.cli.grammar import Escape, ForManual
from ganeti.cli.main import ENVIRONMENT_DEFAULTS
from ganeti.cli.options import COMMON
from ganeti.cli.parser import Opt

_HEAD = """\
:Manual section: 8
:Manual group: Ganeti cluster management
:Version: {version}

Synopsis
--------

**{name}** {synopsis}

"""

_GENERAL = """\
Commands run on the master node; ``gnt-cluster getmaster`` prints its name on every node.  A command that changes the cluster
submits a job, prints its log and waits for its end; with ``--submit`` it prints the job ID and does not wait.

Options come before arguments.  ``{name} COMMAND --help`` prints a short form of this page.

"""

_TAIL = """\
Exit status
-----------

0
    Success.
1
    Failure.  Standard error says what went wrong and what to do about it.
2
    The command line is invalid, or the configuration is corrupt.
13
    A question was answered with no.
14
    An unknown field was requested.

{environment}Files
-----

``{log}``
    Failures of commands; with ``-d``, details of what they do.

See also
--------

**ganeti**\\ (7)
"""

_ENVIRONMENT = """\
Environment
-----------

``{variable}``
    Options of ``{command}``, in the syntax of the shell.  They come before those of the command line.

"""


def _OptionNames(option: Opt) -> str:
    """Return ``-n NODE, --node=NODE``, as readers of manuals expect it."""
    if not option.takes_value:
        return ", ".join(option.names)
    value = option.metavar
    return ", ".join(f"{name}={value}" if name.startswith("--") else f"{name} {value}" for name in option.names)


def _Sentence(text: str) -> str:
    return Escape(text) + ("" if text[-1:] in ".?" else ".")


def _Options(options: Iterable[Opt]) -> list[str]:
    lines: list[str] = []
    for option in options:
        if not option.hidden:
            lines += [f"``{_OptionNames(option)}``", f"    {_Sentence(option.text)}", ""]
    return lines


def _CommandText(program: Program, name: str, command: Command) -> list[str]:
    lines = [name.upper(), "~" * len(name), ""] if name else []
    usage = " ".join(part for part in (program.name, name, command.usage) if part)
    lines += [f"``{usage}``", "", _Sentence(command.summary), ""]
    for paragraph in command.details.split("\n\n") if command.details else []:
        lines += [Escape(paragraph), ""]
    aliases = program.Words(name)[1:]
    if aliases:
        lines += [f"``{'``, ``'.join(aliases)}`` is another name of this command.", ""]
    return lines + _Options(command.options)


def CommandsRst(program: Program) -> str:
    """Return every command with its options, the options that all have, and the grammar of their values."""
    lines = ["Commands", "--------", ""] if program.commands else ["Options", "-------", ""]
    topics: dict[str, None] = {}
    for name, command in program.Forms():
        lines += _CommandText(program, name, command)
        topics |= {option.grammar: None for option in command.options if option.grammar and not option.hidden}
    if program.commands:
        lines += ["Options of every command", "------------------------", ""]
    lines += _Options(COMMON)
    if topics:
        lines += ["Values of options", "-----------------", ""]
        for topic in topics:
            lines += ForManual(topic)
    return "\n".join(lines) + "\n"


def _Environment(program: Program) -> str:
    variables = {
        f"{program.name} {name}".replace("-", "_").replace(" ", "_").upper(): name for name in program.commands
    }
    return "".join(
        _ENVIRONMENT.format(variable=variable, command=f"{program.name} {name}")
        for variable, name in variables.items()
        if variable in ENVIRONMENT_DEFAULTS
    )


def PageRst(program: Program, text: str) -> str:
    """Return the manual page of a program; ``text`` is its own part: the description, then sections with tasks."""
    rule, subrule = "=" * len(program.name), "-" * len(program.title)
    description, heading, tasks = text.partition("\n.. tasks\n")
    synopsis = "*command* [*options*...] [*argument*...]" if program.commands else "[*options*...] [*argument*...]"
    return "\n".join(
        [
            rule, program.name, rule, "", subrule, program.title, subrule, "",
            _HEAD.format(name=program.name, synopsis=synopsis, version=constants.RELEASE_VERSION),
            "Description", "-----------", "", description.strip(), "",
            _GENERAL.format(name=program.name) if program.commands else "",
            *(["Tasks", "-----", "", tasks.strip(), ""] if heading else []),
            CommandsRst(program),
            _TAIL.format(environment=_Environment(program), log=pathutils.LOG_COMMANDS),
        ]
    )  # fmt: skip
