"""Files with sections of ``name = value``, as Python's configparser writes and reads them (doc/reference/interfaces.md f.4).

The format drops blanks at the edges of lines, takes some lines for comments, and cannot tell an absent value from the text
``None``.  A value that it would change is written once more, as JSON, in a section of its own, which older readers ignore; our
reader prefers it.  So everything that is written is read back as it was.

The reader is not configparser's: that one expands ``%(name)s``, and takes quadratic time for some lines.
"""

from __future__ import annotations

from collections.abc import Mapping

from ganeti import errors, ht, serializer

Sections = dict[str, dict[str, str | None]]

_EXACT, _EXACT_KEY = "exact", "values"
_EXACT_SHAPE = ht.TDictOf(ht.TString, ht.TDictOf(ht.TString, ht.TMaybe(ht.TString)))
_NONE = "None"


def Dump(sections: Mapping[str, Mapping[str, str | None]]) -> str:
    """Return the text of a file; None is an absent value."""
    exact: Sections = {}
    parts = []
    for section, values in sections.items():
        lines = [f"[{section}]"]
        seen: set[str] = set()
        for name, value in values.items():
            option = _Option(name, value)
            read = _ReadBack(option)
            # Other readers do not tell upper and lower case of names apart, and reject a name that comes twice.
            if read.keys() == {name} and name.lower() not in seen:
                lines.append(option)
                seen.add(name.lower())
            else:
                read = {}
            if read != {name: value}:
                exact.setdefault(section, {})[name] = value
        parts.append("\n".join(lines) + "\n")
    if exact:
        parts.append(f"[{_EXACT}]\n{_Option(_EXACT_KEY, serializer.Dump(exact))}\n")
    return "\n".join(parts)


def _Option(name: str, value: str | None) -> str:
    text = _NONE if value is None else value.replace("%", "%%").replace("\n", "\n\t")
    # A lone surrogate can stand in JSON, but in no file.
    return f"{name} = {text}".encode("utf-8", "replace").decode("utf-8")


def _ReadBack(option: str) -> Mapping[str, str | None]:
    try:
        read = _Parse(f"[x]\n{option}\n")
    except errors.ParseError:
        return {}
    return read["x"] if read.keys() == {"x"} else {}


def Load(text: str) -> Sections:
    """Return the values of a file by section; raise ParseError, whose text names the line, on anything malformed."""
    sections = _Parse(text)
    for section, values in _ExactValues(sections.pop(_EXACT, {})).items():
        sections.setdefault(section, {}).update(values)
    return sections


def _ExactValues(values: Mapping[str, str | None]) -> Sections:
    text = values.get(_EXACT_KEY)
    if text is None:
        return {}
    try:
        found = serializer.Load(text)
    except errors.ParseError as err:
        raise errors.ParseError(f"section [{_EXACT}]: {err}") from err
    if not _EXACT_SHAPE(found):
        raise errors.ParseError(f"section [{_EXACT}]: expected texts by section and name")
    sections: Sections = found
    return sections


class _Reader:
    """What was read so far; ``lines`` are those of the value that may go on."""

    def __init__(self) -> None:
        self.sections: Sections = {}
        self._section: dict[str, str | None] | None = None
        self._name = ""
        self._lines: list[str] | None = None
        self._indent = 0

    def EndValue(self) -> None:
        if self._lines is not None and self._section is not None:
            value = "\n".join(self._lines).rstrip().replace("%%", "%")
            self._section[self._name] = None if value == _NONE else value
        self._lines = None

    def Line(self, line: str) -> None:
        """Read one line; raise ValueError with what is wrong with it."""
        stripped = line.strip()
        indent = len(line) - len(line.lstrip())
        if not stripped or stripped[0] in "#;":
            if not stripped and self._lines is not None:
                self._lines.append("")
        elif self._lines is not None and indent > self._indent:
            self._lines.append(stripped)
        else:
            self.EndValue()
            if stripped[0] == "[" and stripped[-1] == "]":
                self._BeginSection(stripped[1:-1])
            else:
                self._BeginValue(stripped, indent)

    def _BeginSection(self, name: str) -> None:
        if name in self.sections:
            raise ValueError(f"section [{name[:40]}] appears twice")
        self._section = self.sections[name] = {}

    def _BeginValue(self, text: str, indent: int) -> None:
        ends = [place for place in (text.find("="), text.find(":")) if place >= 0]
        name = text[: min(ends)].strip() if ends else ""
        if not name:
            raise ValueError(f"expected 'name = value', found {text[:40]!r}")
        if self._section is None:
            raise ValueError(f"'{name[:40]}' stands before the first section")
        if name in self._section:
            raise ValueError(f"'{name[:40]}' appears twice in its section")
        self._section[name] = None
        self._name, self._lines, self._indent = name, [text[min(ends) + 1 :].strip()], indent


def _Parse(text: str) -> Sections:
    reader = _Reader()
    for number, line in enumerate(text.split("\n"), 1):
        try:
            reader.Line(line)
        except ValueError as err:
            raise errors.ParseError(f"line {number}: {err}") from err
    reader.EndValue()
    return reader.sections
