"""The declarations of programs and commands, from which parser, help, manual and completion follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from keyword import iskeyword
from typing import NamedTuple

from ganeti import errors
from ganeti.cli.parser import Opt, Options


class Arg(NamedTuple):
    """Describes positional arguments of one kind: ``least`` to ``most`` of them, ``most`` is None for any number."""

    kind: str
    least: int = 1
    most: int | None = 1
    choices: Sequence[str] = ()

    def __str__(self) -> str:
        word = "|".join(self.choices) if self.choices else self.kind
        more = "..." if self.most is None else ""
        return f"<{word}{more}>" if self.least else f"[{word}{more}]"


def One(kind: str, choices: Sequence[str] = ()) -> Arg:
    """Declare exactly one argument."""
    return Arg(kind, 1, 1, choices)


def AnyNumber(kind: str) -> Arg:
    """Declare any number of arguments, or none."""
    return Arg(kind, 0, None)


def Some(kind: str) -> Arg:
    """Declare one argument or more."""
    return Arg(kind, 1, None)


def Maybe(kind: str) -> Arg:
    """Declare an argument that may be left out."""
    return Arg(kind, 0, 1)


class Command(NamedTuple):
    """Describes one command; ``run(options, arguments)`` returns the exit code.

    ``summary`` is one sentence without a full stop, ``details`` are further paragraphs for help and manual.  ``options``
    are the command's own; those of every command are added.  ``args`` are in order.  ``logs``: the command works without
    the master daemon, by code that logs, so the log of commands is opened for it.
    """

    run: Callable[[Options, list[str]], int]
    summary: str
    args: tuple[Arg, ...] = ()
    options: tuple[Opt, ...] = ()
    logs: bool = False
    details: str = ""

    @property
    def usage(self) -> str:
        """The part of the usage line after the command's name."""
        return " ".join(["[options...]", *map(str, self.args)])

    def CheckCount(self, name: str, arguments: Sequence[str]) -> None:
        """Raise UsageError if there are too few or too many arguments."""
        least = sum(arg.least for arg in self.args)
        most = None if any(arg.most is None for arg in self.args) else sum(arg.most or 0 for arg in self.args)
        count = len(arguments)
        if most == 0 and count:
            raise UsageError(f"Command {name} expects no arguments")
        if most == least and count != least:
            raise UsageError(f"Command {name} expects {least} argument(s)")
        if most is not None and count > most:
            raise UsageError(f"Command {name} expects only {most} argument(s)")
        if count < least:
            raise UsageError(f"Command {name} expects at least {least} argument(s)")


class UsageError(errors.GenericError):
    """The number of arguments is wrong."""


class Program(NamedTuple):
    """Describes a program: the names of its commands, or the only thing it does.

    ``aliases`` are other names of commands, accepted and not listed.  A program without command words has its ``command``
    instead.
    """

    name: str
    title: str
    commands: tuple[str, ...] = ()
    aliases: Mapping[str, str] = {}
    command: Command | None = None

    def Load(self, name: str) -> Command:
        """Import and return the declaration of a command."""
        module = name.replace("-", "_")
        if iskeyword(module):
            module += "_"
        loaded: Command = import_module(f"ganeti.client.{self.name.replace('-', '_')}.{module}").COMMAND
        return loaded

    def Forms(self) -> Iterator[tuple[str, Command]]:
        """Yield every command with its name, which is empty in a program without command words."""
        if self.command is not None:
            yield "", self.command
        for name in self.commands:
            yield name, self.Load(name)

    def Words(self, name: str) -> list[str]:
        """Return the words that stand for a command: its name and its aliases."""
        return [name, *(alias for alias, meant in self.aliases.items() if meant == name)]


# All programs; each is declared in ganeti.client.gnt_X.
PROGRAMS = (
    "gnt-backup",
    "gnt-cluster",
    "gnt-debug",
    "gnt-filter",
    "gnt-group",
    "gnt-instance",
    "gnt-job",
    "gnt-network",
    "gnt-node",
    "gnt-os",
    "gnt-storage",
)


def LoadProgram(name: str) -> Program:
    """Import and return the declaration of a program."""
    loaded: Program = import_module(f"ganeti.client.{name.replace('-', '_')}").PROGRAM
    return loaded
