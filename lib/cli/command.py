"""What a command and a program are: the declarations from which parser, help, manual and completion follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from keyword import iskeyword
from typing import NamedTuple

from ganeti import errors
from ganeti.cli.parser import Opt, Options


class Arg(NamedTuple):
    """Positional arguments of one kind: between ``least`` and ``most`` of them, ``most`` None for any number."""

    kind: str
    least: int = 1
    most: int | None = 1
    choices: Sequence[str] = ()

    def __str__(self) -> str:
        word = "|".join(self.choices) if self.choices else self.kind
        more = "..." if self.most is None else ""
        return f"<{word}{more}>" if self.least else f"[{word}{more}]"


def One(kind: str, choices: Sequence[str] = ()) -> Arg:
    return Arg(kind, 1, 1, choices)


def AnyNumber(kind: str) -> Arg:
    return Arg(kind, 0, None)


def Some(kind: str) -> Arg:
    return Arg(kind, 1, None)


def Maybe(kind: str) -> Arg:
    return Arg(kind, 0, 1)


class Command(NamedTuple):
    """One command; ``run(options, arguments)`` returns the exit code.

    ``options`` are its own; those of every command are added.  ``args`` are in order.  ``logs``: it works without the
    master daemon, by code that logs, so the log of commands is opened for it.
    """

    run: Callable[[Options, list[str]], int]
    summary: str
    args: tuple[Arg, ...] = ()
    options: tuple[Opt, ...] = ()
    logs: bool = False

    @property
    def usage(self) -> str:
        """The part of the usage line behind the command's name."""
        return " ".join(["[options...]", *map(str, self.args)])

    def CheckCount(self, name: str, arguments: Sequence[str]) -> None:
        """Raises UsageError when there are too few or too many arguments."""
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
    """Wrong number of arguments."""


class Program(NamedTuple):
    """A ``gnt-*`` program: the names of its commands; ``aliases`` are accepted and not listed."""

    name: str
    title: str
    commands: tuple[str, ...]
    aliases: Mapping[str, str] = {}

    def Load(self, command: str) -> Command:
        """The declaration of a command; imports its module."""
        module = command.replace("-", "_")
        if iskeyword(module):
            module += "_"
        loaded: Command = import_module(f"ganeti.client.{self.name.replace('-', '_')}.{module}").COMMAND
        return loaded


# The programs there are; each is declared in ganeti.client.gnt_X.
PROGRAMS = (
    "gnt-cluster",
    "gnt-debug",
    "gnt-group",
    "gnt-instance",
    "gnt-job",
    "gnt-node",
    "gnt-os",
)


def LoadProgram(name: str) -> Program:
    loaded: Program = import_module(f"ganeti.client.{name.replace('-', '_')}").PROGRAM
    return loaded
