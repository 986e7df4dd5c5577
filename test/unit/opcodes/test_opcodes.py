"""What clients may send, and what becomes of it."""

from __future__ import annotations

import json
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti import errors, opcodes, serializer

FACTS = json.loads((pathlib.Path(__file__).parents[2] / "data" / "opcodes.json").read_text())

# What doc/extensions.rst adds to the release.
ADDED = {
    "OP_CLUSTER_RENEW_CRYPTO": {"cluster_certificate", "confd_hmac_key"},
    "OP_INSTANCE_ACTIVATE_DISKS": {"behind", "ignore_consistency"},
    "OP_INSTANCE_FAILOVER": {"if_primary"},
    "OP_INSTANCE_MIGRATE": {"if_primary", "keep_node", "keep_node_uuid"},
    "OP_INSTANCE_REINSTALL": {"check_only"},
    "OP_INSTANCE_REPLACE_DISKS": {"if_primary"},
    "OP_NODE_EVACUATE": {"emptying"},
    "OP_REPAIR_NODE_STORAGE": {"missing"},
}
ADDED_OPCODES = {"OP_CLUSTER_RAPI_TOKEN_ADD", "OP_CLUSTER_RAPI_TOKEN_REMOVE", "OP_INSTANCE_SETTLE_MIRRORS"}

VALUES = {
    "bool": st.booleans(),
    "int": st.integers(-(2**40), 2**40),
    "int>=0": st.integers(0, 2**40),
    "int>0": st.integers(1, 2**40),
    "float": st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-1000, 1000)),
    "str": st.text(max_size=20),
    "str+": st.text(min_size=1, max_size=20),
    "dict": st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
    "list": st.lists(st.integers(), max_size=3),
    "any": st.one_of(st.none(), st.integers(), st.text(max_size=5)),
    "private": st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
    "secret": st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
    "idx": st.integers(0, 15),
    "list[str]": st.lists(st.text(max_size=5), max_size=3),
    "list[str+]": st.lists(st.text(min_size=1, max_size=5), max_size=3),
    "ip4": st.just("192.0.2.1"),
    "ip4net": st.just("192.0.2.0/24"),
    "ip6": st.just("2001:db8::1"),
    "ip6net": st.just("2001:db8::/64"),
    "@dt": st.sampled_from(["plain", "drbd", "diskless"]),
    "@hv": st.sampled_from(["kvm", "fake"]),
    "DISK": st.just({"size": 1024}),
    "list[DISK]": st.just([{"size": "10g", "mode": "ro"}]),
    "list[NIC]": st.just([{"mac": "auto", "ip": None}]),
    "@icm": st.just("create"),
    "@nicmode": st.just("bridged"),
    "@repl": st.just("replace_auto"),
    "@reboot": st.just("hard"),
    "@evac": st.just("all"),
    "@export": st.just("local"),
    "@tagkind": st.just("cluster"),
    "@oob": st.just("health"),
    "@qtype": st.just("node"),
    "@st": st.just("lvm-vg"),
    "@iadir": st.just("in"),
    "@iamode": st.just("allocate"),
    "TARGET": st.just("node2"),
}

# Parameters with fewer values than in the release (doc/compatibility.rst).
NARROWER = {("OP_TEST_ALLOCATOR", "count"): st.integers(0, 1000)}


def _ValueFor(kind: str) -> st.SearchStrategy | None:
    if kind.startswith("?"):
        inner = _ValueFor(kind[1:])
        return None if inner is None else st.one_of(st.none(), inner)
    return VALUES.get(kind)


def test_every_opcode_and_parameter_of_the_release_is_there_and_no_other() -> None:
    assert opcodes.OP_MAPPING.keys() == FACTS.keys() | ADDED_OPCODES
    for op_id, facts in FACTS.items():
        cls = opcodes.OP_MAPPING[op_id]
        own = {n: s for n, s in cls.OP_PARAMS.items() if n not in opcodes.COMMON_PARAMS}
        assert cls.__name__ == facts["class"]
        assert (facts["dsc"], facts["hook"]) == (cls.OP_DSC_FIELD, cls.OP_HOOK), op_id
        assert own.keys() == facts["params"].keys() | ADDED.get(op_id, set()), op_id
        for name, (kind, default) in facts["params"].items():
            spec = own[name]
            if default == "req":
                assert spec.required, (op_id, name)
            else:
                assert spec.default == json.loads(default), (op_id, name)
                assert spec.type(spec.default), (op_id, name)
            assert spec.type(None) == (kind.startswith("?") or kind == "any"), (op_id, name)
            assert spec.doc


@given(st.data())
def test_what_is_written_reads_back_equal(data: st.DataObject) -> None:
    op_id = data.draw(st.sampled_from(sorted(FACTS)))
    wire = {"OP_ID": op_id}
    for name, (kind, default) in FACTS[op_id]["params"].items():
        narrower = NARROWER.get((op_id, name))
        values = _ValueFor(kind) if narrower is None else narrower
        if default == "req" or (values is not None and data.draw(st.booleans())):
            assert values is not None, f"no example for {kind}"
            wire[name] = data.draw(values)
    op = opcodes.OpCode.FromDict(wire)
    op.Validate()
    again = opcodes.OpCode.FromDict(serializer.Load(serializer.Dump(op.ToDict())))
    assert again == op
    assert type(again) is type(op)
    assert again.Summary() == op.Summary()


def test_nobody_asks_an_allocator_for_a_million_instances() -> None:
    wire = {"OP_ID": "OP_TEST_ALLOCATOR", "direction": "in", "mode": "multi-allocate", "name": "x"}
    opcodes.OpCode.FromDict({**wire, "count": 1000})
    for count in (1001, 10**30, -1):
        with pytest.raises(errors.ParseError, match=f"'count'.*0 to 1000, got {count}"):
            opcodes.OpCode.FromDict({**wire, "count": count})


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_rubbish_is_refused_in_words(rubbish: object) -> None:
    for value in (rubbish, {"OP_ID": rubbish}, {"OP_ID": "OP_TEST_DELAY", "duration": rubbish}):
        try:
            op = opcodes.OpCode.FromDict(value)
        except errors.ParseError as err:
            assert str(err)
        else:
            assert isinstance(op, opcodes.OpTestDelay)
            assert isinstance(rubbish, int)
            assert not isinstance(rubbish, bool)


@pytest.mark.parametrize(
    ("wire", "text"),
    [
        ({"OP_ID": "OP_NOT_THERE"}, "Unknown opcode 'OP_NOT_THERE'"),
        ({"OP_ID": "OP_TEST_DELAY"}, "OP_TEST_DELAY: required parameter 'duration' is missing"),
        ({"OP_ID": "OP_TEST_DELAY", "duration": "1"}, "parameter 'duration': expected a number, got '1'"),
        ({"OP_ID": "OP_TEST_DELAY", "duration": 1, "colour": 1}, "unknown parameter 'colour'"),
        ({"OP_ID": "OP_TEST_DELAY", "duration": 1, "priority": 5}, "parameter 'priority'"),
        ({"OP_ID": "OP_TEST_DELAY", "duration": 1, "on_master": 1}, "parameter 'on_master'"),
        (
            {"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "a", "nics": [["add", -1, {"colour": "red"}]]},
            "parameter 'nics'",
        ),
    ],
)
def test_the_error_names_the_parameter(wire: dict, text: str) -> None:
    with pytest.raises(errors.ParseError) as caught:
        opcodes.OpCode.FromDict(wire)
    assert text in str(caught.value)


def test_secrets_are_neither_shown_nor_stored() -> None:
    secret = {"password": "sesame-open"}
    op = opcodes.OpInstanceReinstall(
        instance_name="web1", osparams_secret=secret, osparams_private={"key": "hidden-key"}
    )
    assert "sesame" not in repr(op)
    assert "hidden-key" not in repr(op)
    stored = op.ToDict(redact=True)
    assert stored["osparams_secret"] == {"password": "<redacted>"}
    assert stored["osparams_private"] == {"key": "hidden-key"}
    assert op.Secrets() == {"osparams_secret": secret}
    assert op.ToDict()["osparams_secret"] == secret
    with pytest.raises(errors.ParseError) as caught:
        opcodes.OpCode.FromDict({"OP_ID": "OP_TEST_OS_PARAMS", "osparams_secret": "sesame-open"})
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize("name", ["osparams_private", "osparams_secret"])
def test_several_instances_at_once_have_no_secrets(name: str) -> None:
    """The job that creates them would store and show them."""
    one = {"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "a", name: {}}
    assert opcodes.OpCode.FromDict({"OP_ID": "OP_INSTANCE_MULTI_ALLOC", "instances": [one]})
    one[name] = {"password": "sesame-open"}
    with pytest.raises(errors.ParseError) as caught:
        opcodes.OpCode.FromDict({"OP_ID": "OP_INSTANCE_MULTI_ALLOC", "instances": [{}, one]})
    assert f"item 1, '{name}': only allowed when an instance is created by itself" in str(caught.value)
    assert "sesame" not in str(caught.value)


def test_a_default_list_belongs_to_one_opcode() -> None:
    first, second = opcodes.OpTestDelay(duration=1.0), opcodes.OpTestDelay(duration=1.0)
    first.on_nodes.append("node1")
    assert second.on_nodes == []
    assert first.ToDict()["on_nodes"] == ["node1"]


def test_summaries() -> None:
    assert opcodes.OpInstanceStartup(instance_name="web1").Summary() == "INSTANCE_STARTUP(web1)"
    assert opcodes.OpTestDelay(duration=2.5).Summary() == "TEST_DELAY(2500000000 ns)"
    assert opcodes.OpClusterVerify().Summary() == "CLUSTER_VERIFY"
    assert opcodes.OpTagsGet(kind="cluster").Summary() == "TAGS_GET(None)"


def test_a_generated_opcode_inherits_from_the_one_that_made_it() -> None:
    parent = opcodes.OpClusterVerify(debug_level=2, priority=-10, reason=[["gnt:user", "why", 1]])
    child = opcodes.OpClusterVerifyConfig(reason=[["own", "", 2]])
    chosen = opcodes.OpClusterVerifyConfig(priority=10, comment="mine")
    for op in (child, chosen):
        opcodes.InheritFromParent(op, parent)
    assert (child.debug_level, child.priority, child.comment) == (2, -10, "Submitted by OP_CLUSTER_VERIFY")
    assert child.reason == [["own", "", 2], ["gnt:user", "why", 1]]
    assert (chosen.priority, chosen.comment) == (10, "mine")


def test_results_are_checked_against_the_declared_type() -> None:
    op = opcodes.OpInstanceCreate(instance_name="a", disks=[], nics=[], mode="create")
    op.CheckResult(["node1"])
    with pytest.raises(errors.OpResultError, match="OP_INSTANCE_CREATE"):
        op.CheckResult({"node": 1})
