"""Options and parsers: optparse with our value types and the layout of help (spec/cli.md 1.1, 3.1)."""

from __future__ import annotations

import math
import optparse
from collections.abc import Callable, Sequence
from typing import Any

from ganeti import constants, errors
from ganeti.cli import values

Options = optparse.Values

# What completes the value of an option or an argument.
COMPLETE_NODE = "node"
COMPLETE_INSTANCE = "instance"
COMPLETE_GROUP = "group"
COMPLETE_NETWORK = "network"
COMPLETE_OS = "os"
COMPLETE_IALLOCATOR = "iallocator"
COMPLETE_NODE_PAIR = "node pair"
COMPLETE_FILE = "file"
COMPLETE_JOB = "job"


def _Parsed(parse: Callable[[str], Any]) -> Callable[[Any, str, str], Any]:
    """A value type whose errors say "option X: TEXT" and end with exit code 2."""

    def check(_option: Any, name: str, text: str) -> Any:
        try:
            return parse(text)
        except (errors.UnitParseError, ValueError) as err:
            raise optparse.OptionValueError(f"option {name}: {err}") from err

    return check


def _Unit(text: str) -> int:
    from ganeti.utils.text import ParseUnit

    try:
        return ParseUnit(text)
    except errors.UnitParseError:
        unit = text.strip().lstrip("0123456789. ")
        is_number = text.strip()[:1].isdigit()
        raise errors.UnitParseError(
            f"Unknown unit: {unit}" if is_number and unit.isalpha() else "Invalid format"
        ) from None


def _MaybeFloat(text: str) -> float | str:
    if text == constants.VALUE_DEFAULT:
        return text
    return _Float(text)


def _Float(text: str) -> float:
    """A number proper: JSON knows neither infinity nor what is no number."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"invalid floating-point value: '{text}'")
    return number


def _Json(text: str) -> Any:
    from ganeti import serializer

    try:
        return serializer.Load(text)
    except errors.ParseError as err:
        raise ValueError(str(err)) from err


def _FilterAction(text: str) -> Any:
    words = text.split()
    if len(words) == 2 and words[0] == "RATE_LIMIT" and words[1].isdigit():
        return [words[0], int(words[1])]
    return text


class GntOption(optparse.Option):
    """An option with our value types; ``completion`` tells what its value names."""

    TYPES = (
        *optparse.Option.TYPES,
        "unit",
        "bool",
        "list",
        "keyval",
        "keyprivateval",
        "identkeyval",
        "multilistidentkeyval",
        "maybefloat",
        "json",
        "filteraction",
    )
    TYPE_CHECKER = {
        **optparse.Option.TYPE_CHECKER,
        "float": _Parsed(_Float),
        "unit": _Parsed(_Unit),
        "bool": lambda option, name, text: values.ParseBool(text),
        "list": lambda option, name, text: values.ParseList(text),
        "keyval": lambda option, name, text: values.ParseKeyVal(name, text),
        "keyprivateval": lambda option, name, text: values.ParseKeyVal(name, text),
        "identkeyval": lambda option, name, text: values.ParseIdentKeyVal(name, text),
        "multilistidentkeyval": lambda option, name, text: values.ParseMultiListIdentKeyVal(name, text),
        "maybefloat": _Parsed(_MaybeFloat),
        "json": _Parsed(_Json),
        "filteraction": lambda option, name, text: _FilterAction(text),
    }


class Opt:
    """The declaration of an option in the catalogue; shared by commands, so never changed.

    A ``hidden`` option is accepted, so that scripts written for 3.1 get the answer of the cluster instead of a syntax
    error; as it has no use in this release, help, manuals and completion leave it out.
    """

    __slots__ = ("completion", "hidden", "names", "settings")

    def __init__(self, *names: str, completion: str | None = None, hidden: bool = False, **settings: Any):
        self.names = names
        self.settings = settings
        self.completion = completion
        self.hidden = hidden

    def Make(self) -> GntOption:
        settings = {**self.settings, "help": optparse.SUPPRESS_HELP} if self.hidden else self.settings
        return GntOption(*self.names, **settings)

    @property
    def takes_value(self) -> bool:
        return self.settings.get("action", "store") in ("store", "append")

    def Hidden(self) -> Opt:
        """Return the same option, accepted but not shown."""
        return Opt(*self.names, completion=self.completion, hidden=True, **self.settings)


def Flag(*names: str, dest: str, text: str) -> Opt:
    return Opt(*names, dest=dest, action="store_true", default=False, help=text)


def Value(
    *names: str,
    dest: str,
    text: str,
    type: str = "string",  # noqa: A002 - optparse's word
    default: Any = None,
    metavar: str | None = None,
    choices: Sequence[str] | None = None,
    completion: str | None = None,
) -> Opt:
    """An option with one value; the last one given counts."""
    more: dict[str, Any] = {"choices": list(choices), "type": "choice"} if choices is not None else {"type": type}
    return Opt(*names, dest=dest, default=default, metavar=metavar, help=text, completion=completion, **more)


def Values(
    *names: str,
    dest: str,
    text: str,
    type: str = "string",  # noqa: A002
    metavar: str | None = None,
    choices: Sequence[str] | None = None,
    completion: str | None = None,
) -> Opt:
    """An option that may be given several times; without it an empty list."""
    more: dict[str, Any] = {"choices": list(choices), "type": "choice"} if choices is not None else {"type": type}
    return Opt(
        *names, dest=dest, action="append", default=[], metavar=metavar, help=text, completion=completion, **more
    )


class _HelpFormatter(optparse.TitledHelpFormatter):
    """Underlined headings, long option forms first, help from column 24."""

    def __init__(self) -> None:
        super().__init__(indent_increment=0, max_help_position=24, width=79, short_first=False)


class CommandParser(optparse.OptionParser):
    """Parser of one command: options end at the first argument, errors look as in 3.1."""

    def __init__(self, program: str, usage: str, description: str, options: Sequence[Opt]):
        super().__init__(
            prog=program,
            usage=usage,
            description=description,
            option_class=GntOption,
            formatter=_HelpFormatter(),
            add_help_option=False,
        )
        self.disable_interspersed_args()
        for option in options:
            self.add_option(option.Make())
        # A list made by one parse must not be filled by the next.
        for name, default in self.defaults.items():
            if default == []:
                self.defaults[name] = []

    def ExplainLateOption(self, words: Sequence[str], arguments: Sequence[str]) -> str | None:
        """What somebody should know whose option was taken for an argument; None when there is none."""
        for word in () if "--" in words else arguments[1:]:
            if word.startswith("-") and self.has_option(word.partition("=")[0]):
                return f"'{word}' was taken for an argument: options go before the first argument"
        return None
