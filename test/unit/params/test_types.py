"""How values from requests come to their type (doc/reference/parameters.md 0)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti import errors, objects, params
from ganeti.params import be, disk, hv, hv_kvm, ipolicy, nd, nic, types
from ganeti.params.types import BOOL, FLOAT, INT, MAYBE_STRING, SIZE, STRING, ForceDictType, MakeTable, Param
from ganeti.utils import text

_TABLE = MakeTable(
    Param("b", BOOL, True),
    Param("i", INT, 0),
    Param("f", FLOAT, 0.0),
    Param("z", SIZE, 0),
    Param("s", STRING, ""),
    Param("m", MAYBE_STRING, None),
)


@pytest.mark.parametrize(
    ("name", "given_value", "stored"),
    [
        ("b", True, True),
        ("b", "true", True),
        ("b", "TRUE", True),
        ("b", "False", False),
        ("b", "", False),
        ("b", 0, False),
        ("b", 7, True),
        ("b", None, False),
        ("b", [], False),
        ("i", 5, 5),
        ("i", "5", 5),
        ("i", "-5", -5),
        ("i", 5.0, 5),
        ("i", True, 1),
        ("f", 1, 1.0),
        ("f", "1.5", 1.5),
        ("z", 512, 512),
        ("z", "512", 512),
        ("z", "1g", 1024),
        ("z", "0.5T", 524288),
        ("z", 1, 4),
        ("z", "1.5", 4),
        ("s", "x", "x"),
        ("s", False, ""),
        ("m", None, None),
        ("m", "x", "x"),
        ("m", False, ""),
    ],
)
def test_accepted_values(name: str, given_value: Any, stored: Any) -> None:
    result = ForceDictType({name: given_value}, _TABLE)
    assert result == {name: stored}
    assert type(result[name]) is type(stored)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("b", "yes"),
        ("b", "1"),
        ("i", "x"),
        ("i", "1.5"),
        ("i", 1.5),
        ("i", ""),
        ("i", None),
        ("i", [1]),
        ("i", float("inf")),
        ("i", "٣"),
        ("i", "9" * 5000),
        ("f", "x"),
        ("f", "nan"),
        ("f", "inf"),
        ("f", None),
        ("z", "1x"),
        ("z", "-1"),
        ("z", True),
        ("z", None),
        ("z", "9" * 100),
        ("s", True),
        ("s", 5),
        ("s", None),
        ("s", ["x"]),
        ("m", 5),
    ],
)
def test_refused_values_name_parameter_and_type(name: str, value: Any) -> None:
    with pytest.raises(errors.TypeEnforcementError) as caught:
        ForceDictType({name: value}, _TABLE)
    assert f"'{name}'" in str(caught.value)
    assert f"expected {types.WORDS[_TABLE[name].type]}" in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.req("D21-PARAM-11")
def test_unknown_names_are_refused() -> None:
    with pytest.raises(errors.TypeEnforcementError, match="Unknown parameter 'colour'") as caught:
        ForceDictType({"colour": 1}, _TABLE)
    assert caught.value.hint == "known are: b, f, i, m, s, z"
    with pytest.raises(errors.TypeEnforcementError, match="Unknown parameter 'kvm_flga'") as caught:
        ForceDictType({"kvm_flga": "enabled"}, hv.Table("kvm"))
    assert caught.value.hint == "Did you mean 'kvm_flag' or 'kvm_path'?"
    with pytest.raises(errors.TypeEnforcementError, match="Expected a dictionary"):
        ForceDictType([("b", True)], _TABLE)


_OF_CATEGORY = {
    "hypervisors": list(hv.TABLES.values()),
    "back end": [be.TABLE],
    "NICs": [nic.TABLE],
    "nodes": [nd.TABLE],
    "disks": [template.params for template in disk.TEMPLATES.values()],
    "policies": [ipolicy.SPEC_TABLE, ipolicy.RATIO_TABLE],
}


@pytest.mark.req("D21-PARAM-12")
def test_a_name_has_one_meaning() -> None:
    """What two tables call the same belongs to one category and has one type there."""
    meanings: dict[str, set[tuple[str, str]]] = {}
    for category, tables in _OF_CATEGORY.items():
        for table in tables:
            for name, param in table.items():
                meanings.setdefault(name, set()).add((category, param.type))
    assert {name: found for name, found in meanings.items() if len(found) > 1} == {}
    assert len(meanings) > 100


def test_values_that_reset_pass_only_where_allowed() -> None:
    request = {"i": "default", "b": "true", "s": None}
    assert ForceDictType(request, _TABLE, allowed_values=("default", None)) == {"i": "default", "b": True, "s": None}
    assert request["b"] == "true", "the request itself stays as it is"
    with pytest.raises(errors.TypeEnforcementError):
        ForceDictType(request, _TABLE)


@given(
    st.dictionaries(st.sampled_from(list(_TABLE)), st.none() | st.booleans() | st.integers() | st.floats() | st.text())
)
def test_any_value_is_typed_or_refused(values: dict[str, Any]) -> None:
    try:
        result = ForceDictType(values, _TABLE)
    except errors.TypeEnforcementError:
        return
    assert types.TypeProblems(result, _TABLE) == []
    assert ForceDictType({k: v for k, v in result.items() if k != "z"}, _TABLE) == {
        k: v for k, v in result.items() if k != "z"
    }


@pytest.mark.parametrize(
    ("given_text", "size"),
    [
        ("0", 0),
        ("4", 4),
        ("5", 8),
        ("0.5g", 512),
        ("1.5", 4),
        ("10 MiB", 12),
        ("2gb", 2048),
        ("1 TB", 1048576),
        (".5g", 512),
    ],
)
def test_sizes_with_units(given_text: str, size: int) -> None:
    assert text.ParseUnit(given_text) == size


@pytest.mark.parametrize("given_text", ["", "g", "1q", "1 g b", "-4", "1,5", "0x10", "1e3", "1ib", "٤"])
def test_sizes_that_are_none(given_text: str) -> None:
    with pytest.raises(errors.UnitParseError):
        text.ParseUnit(given_text)


@pytest.mark.req("D20-PAR-11")
def test_reset_and_set() -> None:
    """A value stays although it equals the default, until it is reset."""
    old = {"vcpus": 1, "minmem": 128}
    assert params.GetUpdatedParams(old, {"vcpus": 1, "maxmem": 128}) == {"vcpus": 1, "minmem": 128, "maxmem": 128}
    assert params.GetUpdatedParams(old, {"vcpus": "default"}) == {"minmem": 128}
    assert params.GetUpdatedParams(old, {"vcpus": None}, use_none=True) == {"minmem": 128}
    assert params.GetUpdatedParams(old, {"vcpus": None}) == {"vcpus": None, "minmem": 128}
    assert params.GetUpdatedParams({}, {"vcpus": "default"}) == {}
    assert old == {"vcpus": 1, "minmem": 128}


def _AllParams() -> list[tuple[str, Param]]:
    tables: dict[str, types.Table] = {
        "be": be.TABLE,
        "nic": nic.TABLE,
        "nd": nd.TABLE,
        "spec": ipolicy.SPEC_TABLE,
        "ratio": ipolicy.RATIO_TABLE,
        "hv_state": nd.HV_STATE_TABLE,
        "disk_state": nd.DISK_STATE_TABLE,
    }
    tables |= {f"hv {name}": table for name, table in hv.TABLES.items()}
    tables |= {f"disk {name}": template.params for name, template in disk.TEMPLATES.items()}
    return [(family, param) for family, table in tables.items() for param in table.values()]


@pytest.mark.parametrize(("family", "param"), _AllParams(), ids=lambda v: v if isinstance(v, str) else v.name)
def test_every_declaration_makes_sense(family: str, param: Param) -> None:
    assert param.type in types.TYPES
    assert types.IsOfType(param.type, param.default), "the default is of the type"
    assert param.Problem(param.default) is None, "the default is allowed"
    assert param.doc or family.startswith(("hv", "disk")), "help has something to say"
    assert param.since[0] in "23"
    assert isinstance(param.allowed, str)
    for choice in param.check.choices if param.check else ():
        assert param.Problem(choice) is None or (param.required and not choice)


@pytest.mark.req("D20-PAR-06")
def test_null_is_a_default_of_maybe_types_only() -> None:
    may_be_null = {param.name for _, param in _AllParams() if param.type == MAYBE_STRING}
    assert may_be_null == {"root_path", "ovs_name", "ovs_link"}
    assert all(param.default is not None for _, param in _AllParams())


@pytest.mark.req("D20-PAR-03", "D20-PAR-04")
def test_backend_parameters() -> None:
    names = {getattr(be, name) for name in dir(be) if name.startswith("BE_")}
    assert names - {be.BE_MEMORY} == be.BES_PARAMETERS == set(be.TABLE)
    assert be.DEFAULTS == {
        "minmem": 128, "maxmem": 128, "vcpus": 1, "auto_balance": True, "always_failover": False, "spindle_use": 1,
    }  # fmt: skip
    typed = ForceDictType({"memory": "1g"}, be.INPUT_TABLE)
    assert be.UpgradeMemory(typed) == {"minmem": 1024, "maxmem": 1024}
    assert be.UpgradeMemory({"memory": 512, "minmem": 128}) == {"minmem": 128, "maxmem": 512}
    assert be.SyntaxProblems({"vcpus": -1}) == ["backend parameter 'vcpus': found '-1', allowed is 1 or more"]


@pytest.mark.req("D20-PAR-01")
def test_a_parameter_belongs_to_one_class() -> None:
    families = [set(hv.ALL_NAMES), set(be.TABLE), set(nd.TABLE)]
    assert len(set().union(*families)) == sum(map(len, families))
    proper = set(objects.Instance.FIELDS) | set(objects.NIC.FIELDS) | set(objects.Disk.FIELDS)
    assert not proper & set().union(*families)


def test_kvm_defaults_of_this_release() -> None:
    """Spot checks of values that changed between releases."""
    table = hv_kvm.TABLE
    assert (table["disk_discard"].default, table["vhost_net"].default) == ("ignore", True)
    assert "io_uring" in table["disk_aio"].check.choices  # type: ignore[union-attr]
    assert "default" not in table["disk_discard"].check.choices  # type: ignore[union-attr]
    assert [len(hv.TABLES[name]) for name in ("kvm", "xen-pvm", "xen-hvm", "lxc", "fake", "chroot")] == [
        65,
        17,
        24,
        7,
        1,
        1,
    ]
    assert not any("xen_cmd" in known for known in hv.TABLES.values())
