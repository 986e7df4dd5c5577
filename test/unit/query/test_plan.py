"""From a filter to rows: what is asked of the nodes, and what is answered."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti import errors
from ganeti.query.base import BOOL, NODATA, NUMBER, OFFLINE, OTHER, TEXT, UNAVAIL, Field, Kind
from ganeti.query.engine import Plan

LIVE: dict[str, Any] = {}


def _Item(**values: Any) -> dict[str, Any]:
    return {"name": "a", "uuid": None, "size": 1, "up": True, "tags": [], **values}


KIND = Kind(
    "thing",
    "name",
    [
        Field("name", "Name", TEXT, "Name", lambda _, i: i["name"], hostname=True),
        Field("size", "Size", NUMBER, "Size", lambda _, i: i["size"]),
        Field("up", "Up", BOOL, "Up", lambda _, i: i["up"]),
        Field("tags", "Tags", OTHER, "Tags", lambda _, i: i["tags"]),
        Field("when", "When", OTHER, "When", lambda _, i: i.get("when", UNAVAIL), seconds=True),
        Field("free", "Free", NUMBER, "Free", lambda ctx, i: ctx["live"].get(i["name"], NODATA), live="node"),
    ],
    items=lambda ctx: ctx["items"],
    item_name=lambda i: i["name"],
    item_uuid=lambda i: i["uuid"],
)


def _Rows(items: list[dict], fields: str, qfilter: Any = None, live: dict | None = None, **kw: Any) -> list:
    return Plan(KIND, fields.split(), qfilter, {"items": items, "live": live or {}}, **kw).Rows()


def test_rows_come_in_natural_order_unless_names_are_asked_for() -> None:
    items = [_Item(name=n) for n in ("node10", "node9", "node1")]
    assert _Rows(items, "name") == [[(0, "node1")], [(0, "node9")], [(0, "node10")]]
    asked = ["|", ["==", "name", "node9"], ["==", "name", "node1"], ["==", "name", "node9"]]
    assert [r[0][1] for r in _Rows(items, "name", asked)] == ["node9", "node1", "node9"]
    scanned = ["&", ["|", ["==", "name", "node9"], ["==", "name", "node1"]]]
    assert [r[0][1] for r in _Rows(items, "name", scanned)] == ["node1", "node9"]


def test_names_may_be_short_and_must_exist() -> None:
    items = [_Item(name="web.example.com"), _Item(name="web2.example.com"), _Item(name="db.a"), _Item(name="db.b")]
    assert [r[0][1] for r in _Rows(items, "name", ["==", "name", "web"])] == ["web.example.com"]
    with pytest.raises(errors.OpPrereqError, match="name mail not found"):
        _Rows(items, "name", ["==", "name", "mail"])
    with pytest.raises(errors.OpPrereqError, match="ambiguous"):
        _Rows(items, "name", ["==", "name", "db"])


def test_the_classic_calls_also_take_uuids_and_forgive_unknown_names() -> None:
    items = [_Item(name="b", uuid="u-b"), _Item(name="a.x", uuid="u-a")]
    plan = Plan(KIND, ["name"], None, {"items": items, "live": {}}, names=["u-b", "a", "nobody"])
    assert plan.ClassicRows() == [["a.x"], ["b"]]
    with pytest.raises(errors.OpPrereqError, match="'colour'"):
        Plan(KIND, ["colour"], None, {"items": items, "live": {}}, names=[]).ClassicRows()


def test_live_data_is_asked_for_only_when_needed_and_only_for_items_that_may_pass() -> None:
    items = [_Item(name="a", size=1), _Item(name="b", size=5)]
    context = {"items": items, "live": {}}
    assert Plan(KIND, ["name"], None, context).parts == frozenset()
    plan = Plan(KIND, ["name"], ["&", [">", "size", 3], ["<", "free", 100]], context)
    assert plan.parts == {"node"}
    assert [i["name"] for i in plan.items] == ["b"]
    context["live"] = {"b": 50}
    assert plan.Rows() == [[(0, "b")]]
    context["live"] = {"b": 500}
    assert plan.Rows() == []


def test_values_that_are_not_there_have_a_status_and_pass_comparisons() -> None:
    items = [_Item(name="a"), _Item(name="b")]
    live = {"a": OFFLINE}
    assert _Rows(items, "free colour", None, live) == [[(4, None), (1, None)], [(2, None), (1, None)]]
    assert len(_Rows(items, "name", ["<", "free", 1], live)) == 2
    assert _Rows(items, "name", ["!", ["<", "free", 1]], live) == []


@pytest.mark.parametrize(
    ("qfilter", "names"),
    [
        (["?", "up"], ["a.x"]),
        (["!", ["?", "up"]], ["b"]),
        (["=[]", "tags", "prod"], ["b"]),
        (["=~", "name", "^a"], ["a.x"]),
        (["=~", "name", "(?i)^A"], ["a.x"]),
        (["!=", "name", "a"], ["b"]),
        ([">=", "size", 2], ["b"]),
        (["<", "name", "b"], ["a.x"]),
        (["==", "when", 100], ["a.x", "b"]),
        (["&"], ["a.x", "b"]),
        (["|"], []),
        (["&", None], ["a.x", "b"]),
    ],
)
def test_operators(qfilter: list, names: list[str]) -> None:
    items = [_Item(name="a.x", size=1, up=True, when=[100, 7]), _Item(name="b", size=2, up=False, tags=["prod"])]
    assert [r[0][1] for r in _Rows(items, "name", qfilter)] == names


@pytest.mark.parametrize(
    "qfilter",
    [
        "text", [], [1], ["&", 5], ["nonsense", "name"], ["==", "name"], ["==", "colour", 1], ["==", "size", "1"],
        ["<", "up", 1], ["?", "size"], ["=~", "name", "("], ["=~", "size", "1"], ["=[]", "size", 1], ["!", ["?", "up"], 1],
        ["==", "name", {}], ["?", ["up"]],
    ],
)  # fmt: skip
def test_a_wrong_filter_is_a_parameter_error(qfilter: Any) -> None:
    with pytest.raises(errors.ParameterError) as caught:
        _Rows([_Item()], "name", qfilter)
    assert str(caught.value)


def test_a_misspelled_field_of_a_filter_is_answered_with_the_nearest() -> None:
    with pytest.raises(errors.ParameterError, match="Unknown field 'nmae'") as caught:
        _Rows([_Item()], "name", ["==", "nmae", "x"])
    assert caught.value.hint == "Did you mean 'name'?"


def test_no_filter_can_stop_the_daemon() -> None:
    deep: list = ["?", "up"]
    for _ in range(100_000):
        deep = ["!", deep]
    with pytest.raises(errors.ParameterError, match="nested"):
        _Rows([_Item()], "name", deep)
    with pytest.raises(errors.ParameterError, match="takes too long"):
        _Rows([_Item(name="a" * 40 + "!")], "name", ["=~", "name", "^(a|a)*$"])


LEAVES = st.one_of(
    st.tuples(st.sampled_from(["<", ">", "==", "!="]), st.sampled_from(["size", "free"]), st.integers(0, 3)),
    st.just(("?", "up")),
)
FILTERS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.just("!"), inner),
        st.lists(inner, max_size=3).map(lambda x: ("&", *x)),
        st.lists(inner, max_size=3).map(lambda x: ("|", *x)),
    ),
    max_leaves=12,
)
ITEMS = st.lists(
    st.builds(_Item, name=st.sampled_from("abc"), size=st.integers(0, 3), up=st.booleans()),
    max_size=3,
    unique_by=lambda i: i["name"],
)


def _Model(part: Any, item: dict, live: dict) -> bool:
    """The meaning of a filter, written down once more in the plainest way."""
    op, *rest = part
    if op == "&":
        return all(_Model(p, item, live) for p in rest)
    if op == "|":
        return any(_Model(p, item, live) for p in rest)
    if op == "!":
        return not _Model(rest[0], item, live)
    if op == "?":
        return item["up"]
    found = live.get(item["name"]) if rest[0] == "free" else item["size"]
    if found is None:
        return True
    return {"<": found < rest[1], ">": found > rest[1], "==": found == rest[1], "!=": found != rest[1]}[op]


@given(FILTERS, ITEMS, st.dictionaries(st.sampled_from("abc"), st.integers(0, 3)))
def test_picking_early_never_loses_a_row(qfilter: Any, items: list[dict], live: dict) -> None:
    context: dict = {"items": items, "live": {}}
    plan = Plan(KIND, ["name"], qfilter, context)
    context["live"] = live
    assert [r[0][1] for r in plan.Rows()] == sorted(i["name"] for i in items if _Model(qfilter, i, live))
