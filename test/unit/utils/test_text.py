"""Natural order and sizes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ganeti import errors
from ganeti.utils.text import NiceSort, ParseUnit, Shortened, Suggestion


def test_numbers_in_names_count_as_numbers() -> None:
    names = ["node10", "node9", "node1", "node1b", "a2b10", "a2b9", "", "7", "node"]
    assert NiceSort(names) == ["", "7", "a2b9", "a2b10", "node", "node1", "node1b", "node9", "node10"]


@given(st.lists(st.text(st.sampled_from("a1٣²0.-") | st.characters(), max_size=6)))
def test_any_names_can_be_sorted(names: list[str]) -> None:
    assert sorted(NiceSort(names)) == sorted(names)


def test_endless_digits_are_sorted_too() -> None:
    assert NiceSort(["1" * 9000, "2"]) == ["2", "1" * 9000]


@given(st.text(max_size=12))
def test_any_text_is_a_size_or_refused(text: str) -> None:
    try:
        size = ParseUnit(text)
    except errors.UnitParseError:
        return
    assert size >= 0
    assert size % 4 == 0


def test_a_misspelled_name_is_answered_with_the_nearest() -> None:
    names = ["name", "status", "admin_state", "admin_up", "admin_state_source", "oper_state", "be/vcpus"]
    assert Suggestion("nmae", names) == "Did you mean 'name'?"
    assert Suggestion("vcpus", names) == "Did you mean 'be/vcpus'?"
    assert Suggestion("state", names) == "Did you mean 'admin_state' or 'admin_state_source' or 'oper_state'?"
    assert Suggestion("colour", names) == Suggestion("", names) == ""
    assert Suggestion("x" * 10**7, names) == ""


def test_a_long_text_keeps_its_ends() -> None:
    assert Shortened("short", 9) == "short"
    text = Shortened("cluster: " + "x" * 1000 + " is not a node", 60)
    assert len(text) <= 60
    assert text.startswith("cluster: ") and text.endswith("is not a node") and " ... " in text
