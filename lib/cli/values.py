"""Parsers of option values: texts in, plain values out.

Wrong syntax is a ParameterError (exit code 1) or an OptionValueError of the parser (exit code 2), as in 3.1.
"""

from __future__ import annotations

from typing import Any

from ganeti import errors
from ganeti.utils.text import SplitEscaped

NO_PREFIX = "no_"
UNSET_PREFIX = "-"

_TRUE = frozenset(["true", "yes"])
_FALSE = frozenset(["false", "no"])


def ParseList(text: str) -> list[str]:
    """Return the elements of a comma list; an empty text is an empty list."""
    return SplitEscaped(text) if text else []


def ParseNames(text: str) -> list[str]:
    """Return the names of a comma list without the blanks around them; an empty text is an empty list."""
    return [word.strip() for word in text.split(",")] if text else []


def ParseBool(text: str) -> bool:
    lowered = text.lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise errors.ParameterError(f"Invalid boolean value '{text}'", hint="write yes or no")


def ParseKeyVal(option: str, text: str, prefixes: bool = True) -> dict[str, Any]:
    """Parse ``k=v,k=v``; with ``prefixes``, ``no_k`` is false, ``-k`` is null, a bare ``k`` is true."""
    result: dict[str, Any] = {}
    for element in ParseList(text):
        key, equals, value = element.partition("=")
        parsed: Any = value
        if not equals:
            if not prefixes:
                raise errors.ParameterError(f"Missing value for key '{key}' in option {option}")
            if key.startswith(NO_PREFIX):
                key, parsed = key[len(NO_PREFIX) :], False
            elif key.startswith(UNSET_PREFIX):
                key, parsed = key[len(UNSET_PREFIX) :], None
            else:
                parsed = True
        if key in result:
            raise errors.ParameterError(f"Duplicate key '{key}' in option {option}")
        result[key] = parsed
    return result


def ParseIdentKeyVal(option: str, text: str) -> tuple[str, Any]:
    """Parse ``ident:k=v,...`` as (ident, dict), ``no_ident`` as (ident, False), ``-ident`` as (ident, None).

    ``-1`` is an index, not a removal.
    """
    ident, colon, rest = text.partition(":")
    removal: bool | None
    if ident.startswith(NO_PREFIX):
        removed, removal = ident[len(NO_PREFIX) :], False
    elif ident.startswith(UNSET_PREFIX) and not (len(ident) > 1 and ident[1].isdigit()):
        removed, removal = ident[len(UNSET_PREFIX) :], None
    else:
        return (ident, ParseKeyVal(option, rest) if colon else {})
    if rest:
        raise errors.ParameterError(f"Cannot pass options when removing parameter groups: {text}")
    return (removed, removal)


def ParseMultiListIdentKeyVal(option: str, text: str) -> list[dict[str, dict[str, Any]]] | str:
    """Parse sets separated by ``//`` of sections ``ident:k=v,...`` separated by ``/``; leave ``default`` as it is."""
    if text == "default":
        return text
    result = []
    for group in text.split("//"):
        sections: dict[str, dict[str, Any]] = {}
        for section in group.split("/"):
            ident, _, rest = section.partition(":")
            if not ident or not rest:
                raise errors.ParameterError(f"Empty section '{section}' in option {option}")
            if ident in sections:
                raise errors.ParameterError(f"Duplicated parameter '{ident}' in parsing {option}: {text}")
            sections[ident] = ParseKeyVal(option, rest, prefixes=False)
        result.append(sections)
    return result


def ParseUidPool(text: str) -> list[tuple[int, int]]:
    """Return the ranges of ``1000-2000,3000``; raise OpPrereqError for anything else."""
    ranges = []
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        try:
            first = int(low)
            last = int(high) if dash else first
        except ValueError:
            raise errors.OpPrereqError(f"Invalid user-id range '{part}'", errors.ECODE_INVAL) from None
        if first > last:
            raise errors.OpPrereqError(
                f"Lower boundary higher than upper boundary in range '{part}'", errors.ECODE_INVAL
            )
        ranges.append((first, last))
    return ranges


def ParseNodePair(text: str) -> tuple[str, str | None]:
    """Split ``primary:secondary`` at the first colon."""
    primary, colon, secondary = text.partition(":")
    return (primary, secondary if colon else None)


def ParseFields(text: str | None, default: list[str]) -> list[str]:
    """Return the columns of ``-o``: a comma list, which a leading ``+`` adds to the default ones."""
    if text is None:
        return list(default)
    if text.startswith("+"):
        return default + text[1:].split(",")
    return text.split(",")
