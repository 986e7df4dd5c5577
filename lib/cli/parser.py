"""Options and parsers: optparse with the value types and the help layout of the ``gnt-*`` programs."""

from __future__ import annotations

import math
import optparse
from collections.abc import Callable, Sequence
from typing import Any

from ganeti import constants, errors
from ganeti.cli import secrets, values

Options = optparse.Values

# Kinds of names that complete the value of an option or an argument.
COMPLETE_NODE = "node"
COMPLETE_INSTANCE = "instance"
COMPLETE_GROUP = "group"
COMPLETE_NETWORK = "network"
COMPLETE_OS = "os"
COMPLETE_IALLOCATOR = "iallocator"
COMPLETE_NODE_PAIR = "node pair"
COMPLETE_FILE = "file"
COMPLETE_JOB = "job"
COMPLETE_RULE = "rule"


def _Parsed(parse: Callable[[str], Any]) -> Callable[[Any, str, str], Any]:
    """Return the checker of a value type whose errors read "option X: TEXT" and end with exit code 2."""

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
            f"Unknown unit: {unit}; write m, g or t"
            if is_number and unit.isalpha()
            else f"Invalid format: '{text}' is not a size such as 512m or 20g"
        ) from None


def _MaybeFloat(text: str) -> float | str:
    if text == constants.VALUE_DEFAULT:
        return text
    return _Float(text)


def _Float(text: str) -> float:
    """Return a finite number, as JSON can express neither infinity nor NaN."""
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
    """An option of optparse with the value types of the ``gnt-*`` programs."""

    TYPES = (
        *optparse.Option.TYPES,
        "unit",
        "bool",
        "list",
        "names",
        "uidpool",
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
        "names": lambda option, name, text: values.ParseNames(text),
        "uidpool": lambda option, name, text: values.ParseUidPool(text) if text else [],
        "keyval": lambda option, name, text: values.ParseKeyVal(name, text),
        "keyprivateval": lambda option, name, text: secrets.ParseKeyVal(name, text),
        "identkeyval": lambda option, name, text: values.ParseIdentKeyVal(name, text),
        "multilistidentkeyval": lambda option, name, text: values.ParseMultiListIdentKeyVal(name, text),
        "maybefloat": _Parsed(_MaybeFloat),
        "json": _Parsed(_Json),
        "filteraction": lambda option, name, text: _FilterAction(text),
    }


# Longer lists of choices stand in the help text, not in the place of the value.
_SHORT_CHOICES = 24

Choices = Sequence[str] | Callable[[], Sequence[str]]


def ElementsOf(type_name: str) -> Callable[[], Sequence[str]]:
    """Return the values of an enumeration of ``ganeti.opcodes.types``, which is imported when they are needed."""

    def elements() -> Sequence[str]:
        from ganeti.opcodes import types

        return sorted(getattr(types, type_name).Schema()["enum"])

    return elements


class Opt:
    """The declaration of an option; shared by commands, so never changed.

    ``grammar`` names the topic of ``cli.grammar`` that explains the value.  A ``hidden`` option is accepted, so that
    scripts written for 3.1 get the answer of the cluster instead of a syntax error; as it has no use in this release,
    help, manuals and completion leave it out.
    """

    __slots__ = ("_choices", "completion", "grammar", "hidden", "names", "settings")

    def __init__(
        self,
        *names: str,
        completion: str | None = None,
        hidden: bool = False,
        choices: Choices | None = None,
        grammar: str | None = None,
        **settings: Any,
    ):
        self.names = names
        self.settings = settings
        self.completion = completion
        self.hidden = hidden
        self.grammar = grammar
        self._choices = choices

    def Make(self) -> GntOption:
        """Return the option for a parser."""
        more: dict[str, Any] = {"help": optparse.SUPPRESS_HELP if self.hidden else self.text}
        if self.takes_value:
            more["metavar"] = self.metavar
        if self._choices is not None:
            more |= {"type": "choice", "choices": self.choices}
        return GntOption(*self.names, **{**self.settings, **more})

    def Hidden(self) -> Opt:
        """Return the same option, accepted but not shown."""
        return self._With(hidden=True)

    def But(self, **settings: Any) -> Opt:
        """Return the same option with other settings, for a command in which its value or its text differs."""
        return self._With(**settings)

    def _With(self, **changes: Any) -> Opt:
        own = {name: getattr(self, name) for name in ("completion", "hidden", "grammar")}
        return Opt(*self.names, **{**self.settings, **own, "choices": self._choices, **changes})

    @property
    def takes_value(self) -> bool:
        return self.settings.get("action", "store") in ("store", "append")

    @property
    def choices(self) -> list[str]:
        """The allowed values, empty if they cannot be listed."""
        if self.settings.get("type") == "bool":
            return ["yes", "no"]
        found = self._choices() if callable(self._choices) else self._choices
        return list(found or ())

    @property
    def metavar(self) -> str:
        """The word for the value in help and manuals: the choices themselves where they are short."""
        shown = "|".join(self.choices)
        if shown and len(shown) <= _SHORT_CHOICES:
            return shown
        return str(self.settings.get("metavar") or self.settings["dest"].upper())

    @property
    def text(self) -> str:
        """The explanation in help and manuals, with the choices and the default that do not stand elsewhere."""
        text = str(self.settings.get("help", ""))
        if self.choices and not self.grammar and self.metavar != "|".join(self.choices):
            text += f": {', '.join(self.choices[:-1])} or {self.choices[-1]}"
        default = self.settings.get("default")
        if self.takes_value and not isinstance(default, bool) and (default == 0 or default):
            text += f" (default: {default:g})" if isinstance(default, (int, float)) else f" (default: {default})"
        return text


def Flag(*names: str, dest: str, text: str) -> Opt:
    """Declare an option without a value; false unless it is given."""
    return Opt(*names, dest=dest, action="store_true", default=False, help=text)


def Off(*names: str, dest: str, text: str) -> Opt:
    """Declare an option that switches off what is on by default: ``dest`` is true unless it is given."""
    return Opt(*names, dest=dest, action="store_false", default=True, help=text)


def Value(
    *names: str,
    dest: str,
    text: str,
    type: str = "string",  # noqa: A002 - optparse's word
    default: Any = None,
    metavar: str | None = None,
    choices: Choices | None = None,
    completion: str | None = None,
    grammar: str | None = None,
) -> Opt:
    """Declare an option with one value; the last one given counts."""
    return Opt(
        *names, dest=dest, default=default, metavar=metavar, help=text, type=type, choices=choices,
        completion=completion, grammar=grammar,
    )  # fmt: skip


def FileValue(*names: str, dest: str, text: str, metavar: str = "FILE") -> Opt:
    """Declare an option whose value is a path of this machine, which shells complete."""
    return Value(*names, dest=dest, text=text, metavar=metavar, completion=COMPLETE_FILE)


def Values(*names: str, dest: str, text: str, **more: Any) -> Opt:
    """Declare an option that may be given several times; without it the value is an empty list."""
    return Value(*names, dest=dest, text=text, **more).But(action="append", default=[])


class _HelpFormatter(optparse.TitledHelpFormatter):
    """Lays help out with underlined headings, long forms of options first, and texts from column 24."""

    def __init__(self) -> None:
        super().__init__(indent_increment=0, max_help_position=24, width=79, short_first=False)


class CommandParser(optparse.OptionParser):
    """The parser of one command: options end at the first argument, errors look as in 3.1."""

    def __init__(self, program: str, usage: str, description: str, options: Sequence[Opt], details: str = ""):
        super().__init__(
            prog=program,
            usage=usage,
            description=description,
            option_class=GntOption,
            formatter=_HelpFormatter(),
            add_help_option=False,
        )
        self.disable_interspersed_args()
        self._details = details
        self._topics = list(dict.fromkeys(option.grammar for option in options if option.grammar and not option.hidden))
        for option in options:
            self.add_option(option.Make())
        # A list made by one parse must not be filled by the next.
        for name, default in self.defaults.items():
            if default == []:
                self.defaults[name] = []

    def format_description(self, formatter: optparse.HelpFormatter) -> str:
        from textwrap import fill

        paragraphs = [self.description or "", *self._details.split("\n\n")]
        return "".join(f"{fill(' '.join(text.split()), formatter.width)}\n\n" for text in paragraphs if text)[:-1]

    def format_epilog(self, formatter: optparse.HelpFormatter) -> str:
        """Return what the values of the command's options may be made of."""
        if not self._topics:
            return ""
        from ganeti.cli import grammar

        return "\n" + "\n".join(grammar.ForHelp(topic) for topic in self._topics)

    def ExplainLateOption(self, words: Sequence[str], arguments: Sequence[str]) -> str | None:
        """Return a hint if an option was taken for an argument, else None."""
        for word in () if "--" in words else arguments[1:]:
            if word.startswith("-") and self.has_option(word.partition("=")[0]):
                return f"'{word}' was taken for an argument: options go before the first argument"
        return None
