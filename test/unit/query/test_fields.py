"""The fields of every kind, against release 3.1's."""

from __future__ import annotations

import json
import pathlib
import re

import pytest

from ganeti import query
from ganeti.query import base

FACTS = json.loads((pathlib.Path(__file__).parents[2] / "data" / "query_fields.json").read_text())


# doc/extensions.rst
ADDED = {
    "os": {"os_version"},
    "node": {"losses"},
    "group": {"room", "weak_nodes"},
    "cluster": {"room", "weak_nodes"},
}


@pytest.mark.parametrize("name", query.KIND_NAMES)
def test_a_kind_has_the_fields_of_the_release(name: str) -> None:
    kind = query.GetKind(name)
    fields = {n: [f.title, f.kind] for n, f in kind.fields.items()}
    assert fields.keys() - FACTS[name].keys() == ADDED.get(name, set())
    assert {n: fields[n] for n in FACTS[name]} == FACTS[name]


@pytest.mark.parametrize("name", query.KIND_NAMES)
def test_definitions_keep_the_rules(name: str) -> None:
    kind = query.GetKind(name)
    definitions = kind.Definitions(None)
    assert [d["name"] for d in definitions] == base.NiceSort(kind.fields)
    titles: dict[str, object] = {}
    for definition in definitions:
        field = kind.fields[definition["name"]]
        assert re.fullmatch(r"[a-z0-9/._]+", field.name)
        assert not re.search(r"\s", field.title)
        assert re.fullmatch(r"[A-Z'].*[^.,?!]|The '.*", field.doc), field.doc
        same = titles.setdefault(field.title.lower(), field.getter)
        assert same is field.getter, f"title {field.title} stands for two fields"
    assert set(kind.default_fields) <= kind.fields.keys()


def test_an_unknown_field_has_a_definition_too() -> None:
    (definition,) = query.GetKind("node").Definitions(["colour"])
    assert definition == {"name": "colour", "title": "colour", "kind": "unknown", "doc": definition["doc"]}
