"""Files with sections: what is written is read back as it was, and Python's configparser reads most of it alike."""

from __future__ import annotations

import configparser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ganeti import errors
from ganeti.utils import inifile

# Lone surrogates too, which JSON can carry.
_TEXT = st.text(st.characters(), max_size=12) | st.text("ab=:#;%[] \t\n\r\\\"'", max_size=12)
_VALUES = st.dictionaries(_TEXT, st.none() | _TEXT, max_size=4)
_SECTIONS = st.dictionaries(st.sampled_from(["export", "instance", "os"]), _VALUES, min_size=1)


@given(_SECTIONS)
@example({"os": {"none": "None", "null": None, "exact": "[os]", "values": "{}"}})
@example({"os": {"a": "x\n#y\n\n  z\n", "b": "%(a)s 100%", "A": "other case", "z": ""}})
@example({"os": {"a": "\ud800", "b": "\u2028x\x0b"}})
def test_what_is_written_is_read_back(sections: inifile.Sections) -> None:
    text = inifile.Dump(sections)
    assert inifile.Load(text) == sections
    text.encode("utf-8")  # a file can hold it


@given(_SECTIONS)
@example({"os": {"name": "1", "Name": "2"}})
def test_other_readers_accept_it(sections: inifile.Sections) -> None:
    """3.1 reads it with configparser, which rejects a whole file for one line."""
    parser = configparser.ConfigParser()
    parser.read_string(inifile.Dump(sections))
    for section in parser.sections():
        dict(parser[section])  # expands each value


def test_other_readers_see_plain_values() -> None:
    parser = configparser.ConfigParser()
    values: dict[str, str | None] = {"a": "50% of x = y", "b": "a # b ; c", "c": "ä\n\nsecond line", "d": "", "e": None}
    parser.read_string(inifile.Dump({"os": values}))
    assert dict(parser["os"]) == {**values, "e": "None"}


@given(st.text(st.sampled_from("ab=:#;[] \t\n\r"), max_size=60))
@example("[a]\n  a = 1\n  b = 2\n   c\n")
def test_every_file_is_read_as_configparser_reads_it(text: str) -> None:
    """As far as both accept it; ours does not expand anything, and tells upper and lower case apart."""
    parser = configparser.ConfigParser(interpolation=None, default_section="\0")
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    try:
        ours = inifile.Load(text)
        parser.read_string(text)
    except (errors.ParseError, configparser.Error):
        return
    assert {section: dict(parser[section]) for section in parser.sections()} == ours


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = 1", "line 1: 'a' stands before the first section"),
        ("[x]\n= 1", "line 2: expected 'name = value', found '= 1'"),
        ("[x]\nno value", "line 2: expected 'name = value', found 'no value'"),
        ("[x]\na = 1\na = 2", "line 3: 'a' appears twice"),
        ("[x]\n[x]", r"line 2: section \[x\] appears twice"),
        ("[exact]\nvalues = {", r"section \[exact\]"),
        ("[exact]\nvalues = []", r"section \[exact\]: expected texts"),
        ('[exact]\nvalues = {"x": {"y": 1}}', r"section \[exact\]: expected texts"),
        ("[exact]\nvalues = " + "[" * 100000, r"section \[exact\]"),
    ],
)
def test_a_malformed_file_is_an_error_that_names_the_line(text: str, problem: str) -> None:
    with pytest.raises(errors.ParseError, match=problem):
        inifile.Load(text)


@pytest.mark.parametrize(
    "line", [" " * 500000 + "x", "a" * 500000, "[" * 500000, "a =" + " " * 500000 + "b", "\n " * 250000]
)
def test_a_long_line_takes_no_long_time(line: str) -> None:
    """That of configparser grows with the square of some lines."""
    try:
        inifile.Load(f"[x]\n{line}\n")
    except errors.ParseError:
        pass
