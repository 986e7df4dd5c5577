"""The text form of filters, as people type it (doc/reference/queries.md 4.3)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from ganeti import errors

# An only argument with one of these is a filter and no name.
_FILTER_SIGNS = frozenset("()=/!~'\"\\<> \t\n")
_GLOB_SIGNS = frozenset("*?")
MAX_TEXT = 65536


def GlobToRegex(glob: str) -> str:
    """Return a pattern: ``web*`` matches web1 and web1.example.com, never across a dot."""
    parts = []
    for char in glob:
        if char == "*":
            parts.append("[^.]*")
        elif char == "?":
            parts.append("[^.]")
        else:
            parts.append(re.escape(char))
    return "^" + "".join(parts) + r"(\..*)?$"


def _Unwrap(part: Any) -> tuple[Any, ...]:
    """Return the filter inside the groups that pyparsing puts around an operand."""
    while not isinstance(part, tuple):
        part = part[0]
    return part


# While parsing, a filter is a tuple: pyparsing takes lists apart.
def _Flatten(op: str, operands: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
    result: list[Any] = [op]
    for wrapped in operands:
        part = _Unwrap(wrapped)
        if part[0] == op:
            result.extend(part[1:])
        else:
            result.append(part)
    return tuple(result)


def _ToLists(part: Any) -> Any:
    return [_ToLists(p) for p in part] if isinstance(part, tuple) else part


def _RegexAction(tokens: Any) -> str:
    text, flags = tokens[0], "".join(sorted(set(tokens[1] if len(tokens) > 1 else "")))
    return f"(?{flags}){text}" if flags else str(text)


@lru_cache(maxsize=1)
def _Grammar() -> Any:
    """Return the parser; built at first use, as pyparsing takes a while to load."""
    import pyparsing as pp

    pp.ParserElement.enable_packrat()
    field = pp.Word(pp.alphas, pp.alphanums + "_/.")
    number = pp.Regex(r"[-+]?\d+").set_parse_action(lambda t: int(t[0]))
    # A backslash or a doubled quote hides the delimiter but stays in the value.
    string = pp.Regex(r'"(?:[^"\\\n]|\\.|"")*"|' + r"'(?:[^'\\\n]|\\.|'')*'").set_parse_action(lambda t: t[0][1:-1])
    value = string | number

    def literal(text: str) -> Any:
        return pp.Suppress(pp.Literal(text))

    word = {name: pp.Suppress(pp.Keyword(name)) for name in ("not", "and", "or", "in")}
    name = ~(pp.Keyword("not") | pp.Keyword("and") | pp.Keyword("or") | pp.Keyword("in")) + field

    regex = pp.MatchFirst(
        [pp.QuotedString(d, esc_char="\\", unquote_results=True, convert_whitespace_escapes=False) for d in "/#^|"]
    )
    pattern = (
        pp.Optional(pp.Suppress(pp.Literal("m"))) + regex + pp.Optional(pp.Regex("[is]+").leave_whitespace())
    ).set_parse_action(_RegexAction)
    operator = pp.one_of("== != <= >= < > =")
    comparison = (name + operator + value).set_parse_action(lambda t: ("==" if t[1] == "=" else t[1], t[0], t[2]))
    matches = (name + literal("=~") + pattern).set_parse_action(lambda t: ("=~", t[0], t[1]))
    differs = (name + literal("!~") + pattern).set_parse_action(lambda t: ("!", ("=~", t[0], t[1])))
    globs = (name + literal("=*") + string).set_parse_action(lambda t: ("=~", t[0], GlobToRegex(t[1])))
    no_glob = (name + literal("!*") + string).set_parse_action(lambda t: ("!", ("=~", t[0], GlobToRegex(t[1]))))
    member = (value + word["in"] + name).set_parse_action(lambda t: ("=[]", t[1], t[0]))
    no_member = (value + word["not"] + word["in"] + name).set_parse_action(lambda t: ("!", ("=[]", t[1], t[0])))
    boolean = name.copy().add_parse_action(lambda t: ("?", t[0]))

    condition = matches | differs | globs | no_glob | comparison | no_member | member | boolean
    return pp.infix_notation(
        condition,
        [
            (word["not"], 1, pp.OpAssoc.RIGHT, lambda t: ("!", _Unwrap(t[0]))),
            (word["and"], 2, pp.OpAssoc.LEFT, lambda t: _Flatten("&", t[0])),
            (word["or"], 2, pp.OpAssoc.LEFT, lambda t: _Flatten("|", t[0])),
        ],
    )


_HOW_TO_WRITE = (
    "write a condition as FIELD == VALUE, with two equals signs, a text in double quotes, and the whole filter in single"
    """ quotes for the shell, such as 'status == "running"'; --help explains all of it"""
)


def ParseFilter(text: str) -> list[Any]:
    """Return the JSON form of a filter text.

    Raises QueryFilterParseError(message, [line, marker, cause]).
    """
    import pyparsing as pp

    if len(text) > MAX_TEXT:
        raise errors.QueryFilterParseError(f"filter of {len(text)} characters is over the limit of {MAX_TEXT}", [])
    try:
        parsed: list[Any] = _ToLists(_Unwrap(_Grammar().parse_string(text, parse_all=True)))
        return parsed
    except pp.ParseBaseException as err:
        details = [err.line, " " * (err.column - 1) + "^", str(err)]
        raise errors.QueryFilterParseError(
            f"Failed to parse query filter '{text}': {err}", details, hint=_HOW_TO_WRITE
        ) from err
    except RecursionError as err:
        raise errors.QueryFilterParseError("filter is nested too deeply", []) from err


def IsFilterText(text: str) -> bool:
    return bool(_FILTER_SIGNS.intersection(text))


def _NameFilter(key: str, name: str, numeric: bool) -> list[Any]:
    if _GLOB_SIGNS.intersection(name):
        return ["=~", key, GlobToRegex(name)]
    if numeric:
        try:
            return ["==", key, int(name)]
        except ValueError as err:
            raise errors.OpPrereqError(f"Invalid job ID passed: '{name}'", errors.ECODE_INVAL) from err
    return ["==", key, name]


def MakeFilter(args: Iterable[str], force_filter: bool, key: str, numeric: bool = False) -> list[Any] | None:
    """Return the filter meant by the arguments of a list command; ``numeric``: the key field holds integers (jobs)."""
    names = list(args)
    if force_filter or (len(names) == 1 and IsFilterText(names[0])):
        if len(names) != 1:
            raise errors.OpPrereqError("Exactly one argument must be given as a filter", errors.ECODE_INVAL)
        return ParseFilter(names[0])
    if not names:
        return None
    return ["|", *(_NameFilter(key, name, numeric) for name in names)]
