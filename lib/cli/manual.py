"""The part of a program's manual page that follows from its commands: reStructuredText, made at build time."""

from __future__ import annotations

from collections.abc import Iterable

from ganeti.cli.command import Command, Program
from ganeti.cli.grammar import Escape, ForManual
from ganeti.cli.options import COMMON
from ganeti.cli.parser import Opt


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
