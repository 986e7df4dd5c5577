"""What manual pages say of the options of tools, from what the tools themselves parse or print."""

from __future__ import annotations

import importlib
import optparse
import re
from collections.abc import Iterable

from ganeti.cli.grammar import Escape

_SHELL_OPTION = re.compile(r"^  (-[\w-]+(?:, -[\w-]+)*)  +(\S.*)$", re.MULTILINE)


def OptionsRst(module: str) -> str:
    """Return the options of a tool as a definition list; ``module``: its own, which has a function ``MakeParser``."""
    parser: optparse.OptionParser = importlib.import_module(module).MakeParser()
    return _List((_Spelling(option), _Text(parser, option)) for option in parser.option_list if _IsShown(option))


def ShellOptionsRst(program: str) -> str:
    """Return the same of a program in shell, from the text that it prints; ``program``: its source."""
    usage = program.partition("\nOptions:\n")[2].partition("\nTEXT\n")[0]
    return _List(_SHELL_OPTION.findall(usage))


def _IsShown(option: optparse.Option) -> bool:
    return option.help != optparse.SUPPRESS_HELP


def _Spelling(option: optparse.Option) -> str:
    names = (*option._short_opts, *option._long_opts)
    if not option.takes_value():
        return ", ".join(names)
    value = option.metavar or str(option.dest).upper()
    return ", ".join(f"{name}={value}" if name.startswith("--") else f"{name} {value}" for name in names)


def _Text(parser: optparse.OptionParser, option: optparse.Option) -> str:
    formatter = parser.formatter
    formatter.set_parser(parser)
    text = formatter.expand_default(option)
    return text[:1].upper() + text[1:]


def _List(options: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"``{spelling}``\n    {Escape(text)}." for spelling, text in options)
