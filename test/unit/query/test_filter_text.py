"""Filters as people type them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti import errors
from ganeti.query import filters, text


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("mfree < 2048 and not offline", ["&", ["<", "mfree", 2048], ["!", ["?", "offline"]]]),
        ("be/vcpus == 4 or be/vcpus == 8", ["|", ["==", "be/vcpus", 4], ["==", "be/vcpus", 8]]),
        (
            '"prod" in tags and pnode =* "rack7-*"',
            ["&", ["=[]", "tags", "prod"], ["=~", "pnode", "^rack7\\-[^.]*(\\..*)?$"]],
        ),
        ("(a or b) and c", ["&", ["|", ["?", "a"], ["?", "b"]], ["?", "c"]]),
        ("not os =~ m/^debian/i", ["!", ["=~", "os", "(?i)^debian"]]),
        ("a and b and c", ["&", ["?", "a"], ["?", "b"], ["?", "c"]]),
        ("a or b and c", ["|", ["?", "a"], ["&", ["?", "b"], ["?", "c"]]]),
        ("not not a", ["!", ["!", ["?", "a"]]]),
        ("name = 'x'", ["==", "name", "x"]),
        ("name != \"it''s\"", ["!=", "name", "it''s"]),
        ('name == "a""b"', ["==", "name", 'a""b']),
        ('name == "a\\"b"', ["==", "name", 'a\\"b']),
        ("mfree >= -5", [">=", "mfree", -5]),
        ("5 not in x.y", ["!", ["=[]", "x.y", 5]]),
        ("name =~ m/a\\\\.b/", ["=~", "name", "a\\.b"]),
        ("name =~ #a/b#is", ["=~", "name", "(?is)a/b"]),
        ("name !~ |x|", ["!", ["=~", "name", "x"]]),
        ("name !* 'web?'", ["!", ["=~", "name", "^web[^.](\\..*)?$"]]),
        ("(((a)))", ["?", "a"]),
        ("nodes_in == 1", ["==", "nodes_in", 1]),
    ],
)
def test_a_typed_filter_becomes_json(typed: str, expected: list) -> None:
    assert text.ParseFilter(typed) == expected


@pytest.mark.parametrize("typed", ["", "a ==", "== 3", "(a", "a b", "a and", "name =~ 'x'", "1", "name == m/x/", "not"])
def test_a_wrong_filter_is_refused_with_the_place(typed: str) -> None:
    with pytest.raises(errors.QueryFilterParseError) as caught:
        text.ParseFilter(typed)
    message, details = caught.value.args
    assert typed in message
    assert any("^" in line for line in details)
    assert """'status == "running"'""" in str(caught.value.hint)


@given(st.text(max_size=40))
def test_any_text_is_parsed_or_refused(typed: str) -> None:
    try:
        parsed = text.ParseFilter(typed)
    except errors.QueryFilterParseError:
        return
    assert isinstance(parsed[0], str)


@given(st.from_regex(r"[a-z*?.-]{1,12}", fullmatch=True), st.from_regex(r"[a-z.-]{0,12}", fullmatch=True))
def test_a_glob_never_crosses_a_dot(glob: str, name: str) -> None:
    expected = re.fullmatch(
        "".join({"*": "[^.]*", "?": "[^.]"}.get(c, re.escape(c)) for c in glob) + r"(\.[^\n]*)?", name
    )
    assert (re.search(text.GlobToRegex(glob), name) is not None) == (expected is not None)


def test_arguments_of_a_list_command() -> None:
    assert text.MakeFilter([], False, "name") is None
    assert text.MakeFilter(["web1"], False, "name") == ["|", ["==", "name", "web1"]]
    assert text.MakeFilter(["web*", "db"], False, "name") == [
        "|",
        ["=~", "name", r"^web[^.]*(\..*)?$"],
        ["==", "name", "db"],
    ]
    assert text.MakeFilter(["name == 'x'"], False, "name") == ["==", "name", "x"]
    assert text.MakeFilter(["offline"], True, "name") == ["?", "offline"]
    assert text.MakeFilter(["17"], False, "id", numeric=True) == ["|", ["==", "id", 17]]
    with pytest.raises(errors.OpPrereqError):
        text.MakeFilter(["a", "b"], True, "name")
    with pytest.raises(errors.OpPrereqError, match="Invalid job ID passed: 'x'"):
        text.MakeFilter(["x"], False, "id", numeric=True)


def test_names_requested() -> None:
    assert filters.RequestedNames(["|", ["==", "name", "b"], ["|", ["=", "name", "a"]]], "name") == ["b", "a"]
    assert filters.RequestedNames(["==", "name", "a"], "name") == ["a"]
    for other in (
        None,
        ["&", ["==", "name", "a"]],
        ["|", ["==", "name", "a"], ["?", "offline"]],
        ["|"],
        ["==", "uuid", "a"],
    ):
        assert filters.RequestedNames(other, "name") is None
