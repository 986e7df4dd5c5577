"""The part of a program's manual page that follows from its commands: reStructuredText, made at build time."""

from __future__ import annotations

from collections.abc import Iterable

from ganeti.cli.command import Command, Program
from ganeti.cli.options import COMMON
from ganeti.cli.parser import Opt


def _Escape(text: str) -> str:
    for char in "\\*`|_":
        text = text.replace(char, "\\" + char)
    return text


def _OptionNames(option: Opt) -> str:
    """``-n NODE, --node=NODE`` as readers of manuals expect it."""
    metavar = option.settings.get("metavar") or str(option.settings.get("dest", "")).upper()
    names = []
    for name in option.names:
        if not option.takes_value:
            names.append(name)
        else:
            names.append(f"{name}={metavar}" if name.startswith("--") else f"{name} {metavar}")
    return ", ".join(names)


def _OptionText(option: Opt) -> str:
    text = str(option.settings.get("help", ""))
    choices = option.settings.get("choices")
    if choices and len(choices) <= 12 and not any(str(choice) in text for choice in choices):
        text += f" (one of {', '.join(choices)})"
    default = option.settings.get("default")
    if isinstance(default, (int, float)) and not isinstance(default, bool) and option.takes_value:
        text += f" (default: {default:g})"
    elif isinstance(default, str) and default and option.takes_value:
        text += f" (default: {default})"
    return text


def _Options(options: Iterable[Opt]) -> list[str]:
    lines: list[str] = []
    for option in options:
        if option.hidden:
            continue
        text = _OptionText(option)
        lines += [f"``{_OptionNames(option)}``", f"    {_Escape(text)}" + ("" if text[-1:] in ".?" else "."), ""]
    return lines


def _CommandText(program: Program, name: str, command: Command) -> list[str]:
    aliases = [alias for alias, meant in program.aliases.items() if meant == name]
    title = name.upper()
    lines = [title, "~" * len(title), "", f"``{program.name} {name} {command.usage}``".replace(" ``", "``"), ""]
    lines += [f"{_Escape(command.summary)}.", ""]
    if aliases:
        lines += [f"``{'``, ``'.join(aliases)}`` is another name of this command.", ""]
    return lines + _Options(command.options)


def CommandsRst(program: Program) -> str:
    """Every command with its options, and the options that all have."""
    lines = ["Commands", "--------", ""]
    for name in sorted(program.commands):
        lines += _CommandText(program, name, program.Load(name))
    lines += ["Options of every command", "------------------------", "", *_Options(COMMON)]
    return "\n".join(lines) + "\n"
