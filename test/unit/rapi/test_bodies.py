"""From bodies, arguments and paths to opcodes (doc/reference/rapi.md 6.3 to 6.5, 7)."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.rapi import WRITER, Site
from support.rapicalls import NAMES, Act, Find, JobMethods, MakeCall, NotingMaster

from ganeti import opcodes
from ganeti.rapi.declared import BodyUse, Job
from ganeti.rapi.requests import bodies
from ganeti.rapi.requests.call import HttpError

CREATION = {"__version__": 1, "name": "web1", "mode": "create", "disks": [], "nics": []}


def _Refused(path: str, verb: str, body: Any, code: int = 400, **more: Any) -> str:
    with pytest.raises(HttpError) as info:
        Act(path, verb, body, **more)
    assert info.value.code == code
    return str(info.value)


def _Op(path: str, verb: str, *body: Any, **more: Any) -> dict[str, Any]:
    """The parameters of the opcode that a request becomes, as far as they are not their defaults."""
    _, master = Act(path, verb, *body, **more)
    [op] = master.ops
    cls = opcodes.OP_MAPPING[op["OP_ID"]]
    op.pop("reason")
    return {n: v for n, v in op.items() if n == "OP_ID" or cls.OP_PARAMS[n].required or v != cls.OP_PARAMS[n].default}


# --- names ------------------------------------------------------------------------------------------------------------


def _WithBodies() -> list[tuple[str, str]]:
    uses = (BodyUse.OPTIONAL, BodyUse.REQUIRED)
    return [(path, verb) for path, verb in JobMethods() if Find(path).methods[verb].body in uses]


def _Example(path: str, verb: str) -> dict[str, Any]:
    return dict(Find(path).methods[verb].example or {})


@pytest.mark.parametrize(("path", "verb"), _WithBodies())
def test_example_becomes_a_job(path: str, verb: str):
    number, master = Act(path, verb, _Example(path, verb))
    assert number == 4711
    opcodes.OpCode.FromDict(json.loads(json.dumps(master.ops[0])))


@pytest.mark.req("D21-REPAIR-11")
def test_a_node_is_evacuated_by_an_allocator() -> None:
    sent = {"mode": "secondary-only", "iallocator": "hail", "early_release": True}
    made = _Op("/2/nodes/{name}/evacuate", "POST", sent)
    assert made.items() >= {**sent, "OP_ID": "OP_NODE_EVACUATE", "node_name": NAMES["name"]}.items()


@pytest.mark.parametrize(("path", "verb"), _WithBodies())
def test_unknown_name_is_rejected(path: str, verb: str):
    assert "'wrongname'" in _Refused(path, verb, {**_Example(path, verb), "wrongname": 1})


# doc/reference/rapi.md 6.5
FIXED = {
    ("/2/instances", "POST"): "dry_run",
    ("/2/instances-multi-alloc", "POST"): "dry_run",
    ("/2/groups", "POST"): "dry_run",
    ("/2/networks", "POST"): "dry_run",
    ("/2/instances/{name}", "DELETE"): "instance_name ignore_failures dry_run",
    ("/2/instances/{name}/reboot", "POST"): "instance_name reboot_type ignore_secondaries dry_run",
    ("/2/instances/{name}/shutdown", "PUT"): "instance_name no_remember dry_run",
    ("/2/instances/{name}/disk/{index}/grow", "POST"): "instance_name disk",
    ("/2/instances/{name}/reinstall", "POST"): "instance_name",
    ("/2/instances/{name}/replace-disks", "POST"): "instance_name",
    ("/2/instances/{name}/recreate-disks", "POST"): "instance_name",
    ("/2/instances/{name}/export", "PUT"): "instance_name",
    ("/2/instances/{name}/migrate", "PUT"): "instance_name",
    ("/2/instances/{name}/failover", "PUT"): "instance_name",
    ("/2/instances/{name}/rename", "PUT"): "instance_name",
    ("/2/instances/{name}/modify", "PUT"): "instance_name",
    ("/2/nodes/{name}/powercycle", "POST"): "node_name force",
    ("/2/nodes/{name}/evacuate", "POST"): "node_name dry_run",
    ("/2/nodes/{name}/migrate", "POST"): "node_name",
    ("/2/nodes/{name}/modify", "POST"): "node_name",
    ("/2/groups/{name}/rename", "PUT"): "group_name dry_run",
    ("/2/groups/{name}/assign-nodes", "PUT"): "group_name dry_run force",
    ("/2/groups/{name}/modify", "PUT"): "group_name",
    ("/2/networks/{name}", "DELETE"): "network_name dry_run",
    ("/2/networks/{name}/connect", "PUT"): "network_name dry_run",
    ("/2/networks/{name}/disconnect", "PUT"): "network_name dry_run",
    ("/2/networks/{name}/rename", "PUT"): "network_name dry_run",
    ("/2/networks/{name}/modify", "PUT"): "network_name",
    ("/2/modify", "PUT"): "",
    ("/2/redistribute-config", "PUT"): "",
}


def test_table_of_fixed_parameters_is_complete():
    assert FIXED.keys() == set(_WithBodies())


@pytest.mark.parametrize(("path", "verb"), FIXED)
def test_fixed_parameters_are_rejected_and_all_others_are_known(path: str, verb: str):
    fixed = {*FIXED[path, verb].split(), "reason"}
    job = Find(path).methods[verb].action
    assert isinstance(job, Job)
    for name in job.opcode.OP_PARAMS:
        body = {**_Example(path, verb), name: None}
        try:
            Act(path, verb, body)
        except HttpError as err:
            if name in fixed:
                assert f"Can't overwrite static parameters: '{name}'" in str(err)
            elif name not in job.forbidden:
                assert "static" not in str(err)
        else:
            assert name not in fixed


def test_alias_and_its_parameter_together_are_rejected():
    text = _Refused("/2/instances", "POST", {**CREATION, "instance_name": "web1"})
    assert "'instance_name'" in text
    assert "'name'" in text
    _Refused("/2/instances/{name}/modify", "PUT", {"custom_beparams": {}, "beparams": {}})


def test_missing_parameter_is_named_with_its_alias():
    text = _Refused("/2/instances", "POST", {"__version__": 1})
    assert "'instance_name' (or 'name')" in text
    assert "'disks'" in text


# --- types ------------------------------------------------------------------------------------------------------------

_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def _Parameters() -> list[tuple[str, str, str]]:
    found = []
    for path, verb in _WithBodies():
        job = Find(path).methods[verb].action
        assert isinstance(job, Job)
        fixed = {*FIXED[path, verb].split(), "reason", *job.forbidden}
        names = [name for name in job.opcode.OP_PARAMS if name not in fixed]
        found += [(path, verb, name) for name in [*names, *job.aliases]]
    return found


# One of each type of JSON, and one level deeper.
_VALUES: list[Any] = [None, True, -1, 2.5, "~", [], [[]], ["~"], [{}], {}, {"~": "~"}, {"~": []}]


@pytest.mark.parametrize(("path", "verb"), FIXED)
def test_each_parameter_with_each_wrong_type_is_400_and_submits_nothing(tmp_path: Path, path: str, verb: str):
    """The whole way of a request, for everything that a body may hold."""
    job = Find(path).methods[verb].action
    assert isinstance(job, Job)
    master = NotingMaster()
    site = Site(str(tmp_path / "users"), master)
    place = re.sub(r"\{(\w+)\}", lambda match: NAMES[match[1]], path)
    tried = set()
    for name in (name for known_path, known_verb, name in _Parameters() if (known_path, known_verb) == (path, verb)):
        target = job.aliases.get(name, name)
        body = {n: v for n, v in _Example(path, verb).items() if job.aliases.get(n, n) != target}
        for value in _VALUES:
            # Disks to be replaced may be a text of numbers, which this is not.
            if job.opcode.OP_PARAMS[target].type(value) or (path, name, value) == ("/2/networks", "tags", None):
                continue
            answer = site.Ask(verb, place, {**body, name: value}, WRITER)
            assert (answer.status, name in answer.value["message"]) == (400, True), (name, value, answer)
            tried.add(name)
    assert tried >= {"debug_level", "priority", "depends"}
    assert [call for call in master.calls if call[0] == "SubmitJob"] == []


def _IgnoringJobs() -> list[tuple[str, str]]:
    return [(path, verb) for path, verb in JobMethods() if Find(path).methods[verb].body is BodyUse.IGNORED]


def test_what_counts_of_a_body_that_is_ignored_otherwise_has_its_type_too():
    assert len(_IgnoringJobs()) > 10
    for path, verb in _IgnoringJobs():
        for name in bodies.OF_ALL_JOBS:
            for value in _VALUES:
                if not opcodes.COMMON_PARAMS[name].type(value):
                    assert f"'{name}'" in _Refused(path, verb, {name: value})


@pytest.mark.parametrize(
    ("path", "verb"), [("/2/filters", "POST"), ("/2/filters/{uuid}", "PUT"), ("/2/nodes/{name}/role", "PUT")]
)
def test_bodies_of_other_changes_have_their_types(tmp_path: Path, path: str, verb: str):
    master = NotingMaster()
    site = Site(str(tmp_path / "users"), master)
    place = re.sub(r"\{(\w+)\}", lambda match: NAMES[match[1]], path)
    names = ("priority", "predicates", "action", "reason", "wrongname") if "filters" in path else ()
    right: list[Any] = [{}, {"predicates": []}, {"reason": []}] if names else []
    for body in [*_VALUES, *({name: value} for name in names for value in _VALUES)]:
        if body not in right:
            assert site.Ask(verb, place, body, WRITER).status == 400, body
    assert master.calls == []


@given(data=st.data())
def test_wrong_type_is_rejected_and_names_the_parameter(data: st.DataObject):
    path, verb, name = data.draw(st.sampled_from(_Parameters()))
    job = Find(path).methods[verb].action
    assert isinstance(job, Job)
    spec = job.opcode.OP_PARAMS[job.aliases.get(name, name)]
    value = data.draw(_ANYTHING)
    body = {n: v for n, v in _Example(path, verb).items() if job.aliases.get(n, n) != job.aliases.get(name, name)}
    body[name] = value
    fits = spec.type(value)
    if (name, value) == ("tags", None) and path == "/2/networks":
        fits = True
    if path == "/2/instances-multi-alloc" and name == "instances":
        fits = value == []
    if name == "disks" and isinstance(value, str):
        return  # a text of numbers, see below
    try:
        Act(path, verb, body)
    except HttpError as err:
        assert err.code == 400
        assert not fits or "replace" in path
        assert f"'{name}'" in str(err)
    else:
        assert fits


@pytest.mark.parametrize("body", [[], "x", 1, True, 1.5])
def test_body_must_be_an_object(body: Any):
    for path, verb in _WithBodies():
        assert "'dict' is expected" in _Refused(path, verb, body)


def test_null_is_no_parameters():
    for path in ("/2/instances/{name}/startup", "/2/instances/{name}/shutdown", "/2/instances/{name}/migrate"):
        assert _Op(path, "PUT", None) == _Op(path, "PUT")


def test_private_values_are_not_repeated():
    text = _Refused("/2/instances", "POST", {**CREATION, "osparams_secret": "marked-value"})
    assert "'osparams_secret'" in text
    assert "marked-value" not in text


# --- what all have ----------------------------------------------------------------------------------------------------


def _Needed(path: str, verb: str) -> dict[str, Any]:
    """The arguments without which there is no opcode."""
    values = {"storage_type": "lvm-vg", "mode": "local"}
    return {a.name: values[a.name] for a in Find(path).methods[verb].arguments if a.required and a.name in values}


@pytest.mark.parametrize(("path", "verb"), [k for k in JobMethods() if "role" not in k[0]])
def test_dependencies_are_taken_from_every_body(path: str, verb: str):
    depends = [[-1, ["success"]]]
    call = MakeCall(path, verb, {**_Example(path, verb), "depends": depends}, **_Needed(path, verb))
    job = call.method.action
    assert isinstance(job, Job)
    assert bodies.Fill(job, call).depends == depends


def _WithIgnoredBodies() -> list[tuple[str, str]]:
    return [(path, verb) for path, verb in JobMethods() if Find(path).methods[verb].body is BodyUse.IGNORED]


@pytest.mark.parametrize(("path", "verb"), _WithIgnoredBodies())
@pytest.mark.parametrize(("argument", "value"), [(False, True), (True, False), (True, True), (False, False)])
def test_dry_run_in_an_ignored_body_is_one(path: str, verb: str, argument: bool, value: bool):
    """3.1 ignores it, and makes the change."""
    body = {"dry_run": value, "priority": 10, "comment": "night", "nonsense": 1}
    call = MakeCall(path, verb, body, dry_run=argument, **_Needed(path, verb))
    assert isinstance(call.method.action, Job)
    op = bodies.Fill(call.method.action, call)
    assert (op.dry_run, op.priority, op.comment) == (argument or value, 10, "night")


def test_ignored_body_is_ignored_apart_from_what_all_jobs_have():
    assert _Op("/2/instances/{name}/startup", "PUT", {"force": True, "nonsense": 1}) == {
        "OP_ID": "OP_INSTANCE_STARTUP",
        "instance_name": "thing1",
        "dry_run": False,
    }
    for wrong in ({"depends": "x"}, {"dry_run": 1}, {"priority": "high"}):
        _Refused("/2/instances/{name}/startup", "PUT", wrong)
    assert _Op("/2/tags", "PUT", ["whatever"], tag=["a"])["tags"] == ["a"]


def test_reason_trail():
    _, master = Act("/2/instances/{name}/modify", "PUT", {"beparams": {"vcpus": 2}}, reason="too slow", caller="jack")
    [op] = master.ops
    times = {entry.pop() for entry in op["reason"]}
    assert op["reason"] == [
        ["gnt:user", "too slow"],
        ["gnt:library:rlib2:instances_name_modify", ""],
        ["gnt:rapi:user", "jack"],
    ]
    [nanoseconds] = times
    assert 10**18 < nanoseconds < 4 * 10**18
    _, master = Act("/2/instances/{name}/modify", "PUT", {"beparams": {"vcpus": 2}}, reason="")
    assert [entry[:2] for entry in master.ops[0]["reason"]] == [["gnt:library:rlib2:instances_name_modify", ""]]


@pytest.mark.parametrize(("path", "verb"), [("/2/filters", "POST"), ("/2/filters/{uuid}", "PUT")])
def test_filter_says_who_made_it(path: str, verb: str):
    def trail(caller: str | None) -> list[Any]:
        master = NotingMaster(ReplaceFilter="uuid")
        Act(path, verb, {"reason": [["me", "because", 1]]}, master=master, caller=caller)
        [(_, _, *values, reason)] = master.calls
        assert values == [0, [], "CONTINUE"]
        return [entry[:2] for entry in reason]

    assert trail("jack") == [["me", "because"], ["gnt:rapi:user", "jack"]]
    assert trail(None) == [["me", "because"]]


@pytest.mark.parametrize(("path", "verb"), [("/2/filters", "POST"), ("/2/filters/{uuid}", "PUT")])
@pytest.mark.parametrize(
    "entry",
    [["gnt:rapi:user", "admin", 1], ["gnt:rapi:x", "", 1], ["me", "a\nb", 1], ["\x1b[2J", "", 1], ["me", "\u202e", 1]],
)
def test_nobody_else_can_be_named_in_a_filter(path: str, verb: str, entry: list[Any]):
    master = NotingMaster(ReplaceFilter="uuid")
    with pytest.raises(HttpError) as caught:
        Act(path, verb, {"reason": [["me", "because", 1], entry]}, master=master, caller="jack")
    assert caught.value.code == 400 and not master.calls


@pytest.mark.parametrize("body", [{"beparams": {}, "dry_run": True}, {"beparams": {}}])
def test_dry_run_is_one_wherever_it_is_asked_for(body: Any):
    """3.1 ignores the argument where a body may have the parameter, and makes the change."""
    assert _Op("/2/instances/{name}/modify", "PUT", body, dry_run=True)["dry_run"] is True
    assert _Op("/2/nodes/{name}/migrate", "POST", {"mode": "live"}, dry_run=True)["dry_run"] is True
    assert _Op("/2/instances/{name}/startup", "PUT", dry_run=True)["dry_run"] is True
    assert "dry_run" not in _Op("/2/instances/{name}/modify", "PUT", {"beparams": {}})


# --- single resources -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 2, "1", None, True, 1.0, [1]])
def test_creation_of_another_version(version: Any):
    assert "__version__" in _Refused("/2/instances", "POST", {**CREATION, "__version__": version})
    body = {k: v for k, v in CREATION.items() if k != "__version__"}
    assert "__version__" in _Refused("/2/instances", "POST", body)


def test_creation():
    body = {**CREATION, "os": "debian", "hvparams": {"usb_devices": "tablet mouse"}, "group_name": None}
    assert _Op("/2/instances", "POST", body, dry_run=True) == {
        "OP_ID": "OP_INSTANCE_CREATE",
        "instance_name": "web1",
        "mode": "create",
        "disks": [],
        "nics": [],
        "os_type": "debian",
        "hvparams": {"usb_devices": "tablet,mouse"},
        "dry_run": True,
    }


def test_usb_devices_of_a_change_with_the_older_name():
    op = _Op("/2/instances/{name}/modify", "PUT", {"custom_hvparams": {"usb_devices": "a b"}})
    assert op["hvparams"] == {"usb_devices": "a,b"}


def test_several_instances_at_once():
    one = {k: v for k, v in CREATION.items() if k != "__version__"}
    [inner] = _Op("/2/instances-multi-alloc", "POST", {"instances": [one], "iallocator": "hail"})["instances"]
    assert inner["OP_ID"] == "OP_INSTANCE_CREATE"
    assert inner["instance_name"] == "web1"
    assert "item 0" in _Refused("/2/instances-multi-alloc", "POST", {"instances": [{**one, "__version__": 1}]})
    assert "item 1" in _Refused("/2/instances-multi-alloc", "POST", {"instances": [one, {"name": "x"}]})


def test_secrets_of_several_instances_are_not_accepted_as_the_job_file_would_keep_them():
    one = {**CREATION, "osparams_secret": {"k": "v"}}
    del one["__version__"]
    assert "osparams_secret" in _Refused("/2/instances-multi-alloc", "POST", {"instances": [one]}, code=403)


ROLES = {
    "regular": {"master_candidate": False, "offline": False, "drained": False},
    "master-candidate": {"master_candidate": True},
    "drained": {"drained": True},
    "offline": {"offline": True},
}


@pytest.mark.parametrize("role", ROLES)
def test_role_of_a_node(role: str):
    op = _Op("/2/nodes/{name}/role", "PUT", role, force=True, auto_promote=True)
    assert op == {
        "OP_ID": "OP_NODE_SET_PARAMS",
        "node_name": "thing1",
        "force": True,
        "auto_promote": True,
        **ROLES[role],
    }


@pytest.mark.parametrize("role", ["master", "M", "", None, {}, ["offline"], 1])
def test_role_that_cannot_be_set(role: Any):
    _Refused("/2/nodes/{name}/role", "PUT", role)


@pytest.mark.req("D21-REPAIR-10")
def test_migration_of_a_node_in_old_words():
    path = "/2/nodes/{name}/migrate"
    assert _Op(path, "POST", live=True)["mode"] == "live"
    assert _Op(path, "POST", {"mode": "live"}, live=False)["mode"] == "non-live"
    assert _Op(path, "POST", mode="non-live")["mode"] == "non-live"
    _Refused(path, "POST", None, mode="quick")
    _Refused(path, "POST", None, mode="live", live=True)
    assert _Op(path, "POST", {"target_node": "n2"}, reason="x")["target_node"] == "n2"


def test_evacuation_needs_a_mode():
    assert "'mode'" in _Refused("/2/nodes/{name}/evacuate", "POST", {})


def test_storage_of_a_node():
    path = "/2/nodes/{name}/storage"
    op = _Op(path, "GET", storage_type="lvm-vg", output_fields=["name", "free"])
    assert (op["nodes"], op["storage_type"], op["output_fields"]) == (["thing1"], "lvm-vg", ["name", "free"])
    assert "storage_type" not in _Op(path, "GET", output_fields=["name"])
    _Refused(path, "GET", None, storage_type="tape", output_fields=["name"])
    path += "/modify"
    assert _Op(path, "PUT", storage_type="lvm-pv", name="/dev/sda", allocatable=False)["changes"] == {
        "allocatable": False
    }
    assert _Op(path, "PUT", storage_type="lvm-pv", name="/dev/sda")["changes"] == {}


@pytest.mark.req("D21-REPAIR-08")
def test_replacing_disks():
    path = "/2/instances/{name}/replace-disks"
    assert _Op(path, "POST", {"mode": "replace_auto", "disks": "0, 1"})["disks"] == [0, 1]
    assert _Op(path, "POST", {"mode": "replace_auto", "disks": [2]})["disks"] == [2]
    old = _Op(path, "POST", mode="replace_on_primary", disks="3", remote_node=None)
    assert (old["mode"], old["disks"]) == ("replace_on_primary", [3])
    assert "disks" not in _Op(path, "POST", {"mode": "replace_auto"}, disks="1")
    for wrong in ("x", "", "1,", "-1", "1;2", "9" * 30):
        _Refused(path, "POST", {"mode": "replace_auto", "disks": wrong})


def _Reinstalled(*body: Any, **more: Any) -> list[dict[str, Any]]:
    return Act("/2/instances/{name}/reinstall", "POST", *body, **more)[1].ops


def test_reinstallation():
    ids = ["OP_INSTANCE_REINSTALL", "OP_INSTANCE_SHUTDOWN", "OP_INSTANCE_REINSTALL", "OP_INSTANCE_STARTUP"]
    ops = _Reinstalled({"os": "debian", "osparams": {"a": "b"}}, reason="new")
    assert [op["OP_ID"] for op in ops] == ids
    assert {op["instance_name"] for op in ops} == {"thing1"}
    assert [op.get("check_only") for op in ops] == [True, None, None, None], "checked before the guest is stopped"
    for step in (0, 2):
        assert (ops[step]["os_type"], ops[step]["osparams"]) == ("debian", {"a": "b"})
    assert all(op["reason"][0][:2] == ["gnt:user", "new"] for op in ops)
    assert [op["OP_ID"] for op in _Reinstalled({"start": False})] == ids[:3]
    assert [op["OP_ID"] for op in _Reinstalled(nostartup=True)] == ids[:3]
    ops = _Reinstalled(os="debian")
    assert [op["OP_ID"] for op in ops] == ids
    assert ops[2]["os_type"] == "debian"
    path = "/2/instances/{name}/reinstall"
    for wrong in ({"start": 1}, {"os": ""}, {"osparams": []}, []):
        _Refused(path, "POST", wrong)
    assert "Can't combine" in _Refused(path, "POST", {"os": "x"}, os="y")


@pytest.mark.parametrize(("body", "arguments"), [({"dry_run": True}, {}), (None, {"dry_run": True})])
def test_dry_run_of_a_reinstallation_changes_nothing(body: Any, arguments: dict[str, Any]):
    """3.1 ignores it, and installs."""
    assert [op["dry_run"] for op in _Reinstalled(body, **arguments)] == [True, True, True]


def test_reinstallation_waits_before_its_first_step_and_is_bound_until_the_guest_is_stopped():
    secret = {"password": "marked-value"}
    body = {"depends": [[17, ["success"]]], "priority": 10, "comment": "night", "osparams_secret": secret}
    version = "ab3ef36a-0b9c-4a6a-8f0c-8f6a3bd2b3a1-7"
    ops = _Reinstalled({**body, "if_match": version})
    assert [op.get("depends") for op in ops] == [body["depends"], None, None, None]
    assert [op.get("if_match") for op in ops] == [version, version, None, None]
    assert [(op["priority"], op["comment"]) for op in ops] == [(10, "night")] * 4
    assert [op.get("osparams_secret") for op in ops] == [secret, None, secret, None]
    first, *others = _Reinstalled({**body, "dry_run": True})
    assert (first["OP_ID"], first["depends"]) == ("OP_INSTANCE_SHUTDOWN", body["depends"])
    assert all(op.get("depends") is None for op in others)
    call = MakeCall("/2/instances/{name}/reinstall", "POST")
    call.if_match = version
    asyncio.run(call.method.action(call))
    assert [op.get("if_match") for op in call.master.ops] == [version, version, None, None]
    _Refused("/2/instances/{name}/reinstall", "POST", {"check_only": True}, code=403)


def test_compression_tools_are_not_for_rapi():
    _Refused("/2/modify", "PUT", {"compression_tools": ["gzip"]}, code=403)


def test_network_without_tags():
    body = {"name": "lan", "network": "192.0.2.0/24", "tags": None}
    op = _Op("/2/networks", "POST", body)
    assert op["network_name"] == "lan"
    assert "tags" not in op


def test_reboot():
    assert _Op("/2/instances/{name}/reboot", "POST")["reboot_type"] == "hard"
    assert _Op("/2/instances/{name}/reboot", "POST", {}, type="full")["reboot_type"] == "full"
    assert "reboot_type" in _Refused("/2/instances/{name}/reboot", "POST", None, type="gentle")


def test_disk_of_a_path():
    path = "/2/instances/{name}/disk/{index}/grow"
    assert _Op(path, "POST", {"amount": 1})["disk"] == 1
    _Refused(path, "POST", {"amount": 1}, names={"index": "16"})


@pytest.mark.parametrize(
    ("path", "kind", "name"), [("/2/tags", "cluster", None), ("/2/groups/{name}/tags", "nodegroup", "thing1")]
)
def test_tags(path: str, kind: str, name: str | None):
    for verb, op_id in (("PUT", "OP_TAGS_SET"), ("DELETE", "OP_TAGS_DEL")):
        _, master = Act(path, verb, tag=["a", "b"], dry_run=True)
        [op] = master.ops
        assert (op["OP_ID"], op["kind"], op.get("name"), op["tags"], op["dry_run"]) == (
            op_id,
            kind,
            name,
            ["a", "b"],
            True,
        )
    assert Act(path, "PUT")[1].ops[0]["tags"] == []
