"""Types: what fits, and how a misfit is described to people."""

from __future__ import annotations

from typing import Any

import pytest

from ganeti import errors, ht, opcodes
from ganeti.opcodes import types

_RULE = ht.TStrictDict({"name": ht.TNonEmptyString}, {"mode": ht.TElemOf(("ro", "rw")), "many": ht.TListOf(ht.TInt)})

MISFITS: list[tuple[ht.Type, Any, str]] = [
    (ht.TInt, "5", "expected a whole number, got '5'"),
    (ht.TInt, True, "expected a whole number, got true"),
    (ht.TPositiveInt, 0, "expected a whole number above 0, got 0"),
    (ht.TNonEmptyString, None, "expected a text that is not empty, got nothing"),
    (ht.TMaybe(ht.TPositiveInt), -1, "expected a whole number above 0, got -1"),
    (ht.TElemOf(("ro", "rw")), "xx", "expected ro or rw, got 'xx'"),
    (ht.TElemOf([10, 0, -10]), 3, "expected 10, 0 or -10, got 3"),
    (ht.TListOf(ht.TInt), "x", "expected a list, got 'x'"),
    (ht.TListOf(ht.TInt), [1, "x", None], "item 1: expected a whole number, got 'x'"),
    (ht.TSetOf(ht.TString), [1], "item 0: expected a text, got 1"),
    (ht.TItems(ht.TInt, ht.TString), [1], "expected a list of 2 items (a whole number; a text), got [1]"),
    (ht.TItems(ht.TInt, ht.TString), [1, 2], "item 1: expected a text, got 2"),
    (ht.TDictOf(ht.TString, ht.TInt), {"a": "b"}, "'a': expected a whole number, got 'b'"),
    (ht.TDictOf(ht.TNonEmptyString, ht.TInt), {"": 1}, "a key: expected a text that is not empty, got ''"),
    (ht.TDictOf(ht.TString, ht.TInt), 7, "expected names with values, got 7"),
    (_RULE, {}, "'name' is missing"),
    (_RULE, {"name": "n", "mode": "xx"}, "'mode': expected ro or rw, got 'xx'"),
    (_RULE, {"name": "n", "many": [1, "2"]}, "'many', item 1: expected a whole number, got '2'"),
    (_RULE, {"name": "n", "colour": 1}, "unknown key 'colour', known are many, mode, name"),
    (ht.TOr(ht.TInt, ht.TListOf(ht.TInt)), "x", "expected a whole number or a list, got 'x'"),
    (ht.TOr(ht.TInt, ht.TListOf(ht.TInt)), ["x"], "item 0: expected a whole number, got 'x'"),
    (ht.TAnd(ht.TString, ht.TNonEmptyString), "", "expected a text that is not empty, got ''"),
    (ht.TUuid, "x", "expected a UUID in lower case, got 'x'"),
    (ht.TListOf(types.TDisk), [{"size": 1024, "mode": "xx"}], "item 0, 'mode': expected ro or rw, got 'xx'"),
    (types.TModifications(types.TNic), [["add", -1, {"mac": 5}]],
     "item 0, item 2, 'mac': expected a text that is not empty, got 5"),
    (ht.TInt, 2**63, "9223372036854775808 does not fit into 64 bits"),
    (ht.TNonNegativeInt, -1, "expected a whole number, 0 or more, got -1"),
    (ht.TString, 10**200, "expected a text, got 1" + "0" * 79 + "..."),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "text"), MISFITS, ids=[text for _, _, text in MISFITS])
def test_a_misfit_names_the_part_and_what_is_expected_there(kind: ht.Type, value: Any, text: str) -> None:
    assert not kind(value)
    assert kind.Problem(value) == text


def test_every_parameter_of_every_opcode_can_say_what_is_wrong() -> None:
    """Whatever it is given; and nothing of the notation of documents reaches people."""
    for cls in opcodes.OP_MAPPING.values():
        for spec in cls.OP_PARAMS.values():
            for value in (None, True, 5, -1, "x", "", [], ["x"], [["x", 5, {}]], {}, {"x": object()}):
                if not spec.type(value):
                    text = spec.type.Problem(value)
                    assert not {"?int", "str+", "list[", "dict[", "int>"} & set(text.split()), text


def test_values_of_secret_parameters_are_kept_where_they_belong() -> None:
    """What is private or secret is declared with the type, and holds for what is made of it."""
    create = opcodes.OpInstanceCreate.OP_PARAMS
    assert [(create[n].private, create[n].secret) for n in ("osparams", "osparams_private", "osparams_secret")] == [
        (False, False), (True, False), (True, True)
    ]  # fmt: skip
    cluster = opcodes.OpClusterSetParams.OP_PARAMS["osparams_private_cluster"]
    assert (cluster.private, cluster.secret) == (True, False)
    assert ht.TListOf(ht.TOr(ht.TInt, types.TSecret)).privacy == ht.SECRET
    assert not any(spec.private for spec in opcodes.OpInstanceStartup.OP_PARAMS.values())
    with pytest.raises(errors.ParseError) as caught:
        opcodes.OpCode.FromDict({"OP_ID": "OP_INSTANCE_CREATE", "osparams_secret": "hunter2"})
    assert "hunter2" not in str(caught.value)
    assert "'osparams_secret'" in str(caught.value)
