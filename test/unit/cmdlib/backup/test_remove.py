"""Exports of a name go from all nodes; a node that fails keeps nobody else's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.master import Callbacks, Master

from ganeti import errors, locking, opcodes, pathutils, runtime

WEB = "web.example.org"
GONE = "gone.example.org"


@pytest.fixture
def four(make: Callable[..., Master]) -> Master:
    """Four nodes; the example's instance is on the first two.  Nobody has an export yet."""
    return make(4)


def _Furnish(master: Master, **exports: str) -> None:
    """Makes directories as exports leave them: node2="a b.new"."""
    for node, names in exports.items():
        for name in names.split():
            path = f"{pathutils.EXPORT_DIR}/{name}"
            master[int(node[4:]) - 1].Call(lambda path=path: runtime.MakeDirs(path, 0o750))
            master[int(node[4:]) - 1].Write(f"{path}/config.ini", "")


def _Remove(master: Master, name: str = WEB, **values: Any) -> list[str]:
    """Runs the unit and returns what the log says."""
    callbacks = Callbacks()
    assert master.Run(opcodes.OpBackupRemove(instance_name=name, **values), callbacks) is None
    return callbacks.messages


def _Found(master: Master, number: int) -> list[str]:
    return [name for name in master[number - 1].Names(pathutils.EXPORT_DIR) if not name.startswith(".")]


def _SetNode(master: Master, number: int, **values: Any) -> None:
    master.cfg.Update(master.snapshot.nodes[master.nodes[number - 1]].Replace(**values))


def _Name(master: Master, number: int) -> str:
    return master[number - 1].name


def test_complete_and_unfinished_exports_go_from_all_nodes(four: Master) -> None:
    _Furnish(four, node1=f"{WEB} other", node3=f"{WEB}.new", node4=f"other {WEB} {WEB}.new")
    log = _Remove(four, "web")
    assert [_Found(four, number) for number in (1, 3, 4)] == [["other"], [], ["other"]]
    assert [f"Removed export {WEB} from node {_Name(four, number)}" in log for number in (1, 2, 3, 4)] == [
        True,
        False,
        True,
        True,
    ]
    # A node that never had a directory of exports has nothing that could be left.
    assert not any("may still have" in line for line in log)
    assert "export_remove" not in four[1].calls


def test_the_instance_need_not_exist_any_more(four: Master) -> None:
    _Furnish(four, node2=GONE)
    assert _Remove(four, GONE) == [f"Removed export {GONE} from node {_Name(four, 2)}"]
    assert _Found(four, 2) == []


@pytest.mark.parametrize(("name", "hint"), [("gone", "fully qualified name; see 'gnt-backup list'"), (WEB, None)])
def test_an_export_that_nobody_has(four: Master, name: str, hint: str | None) -> None:
    _Furnish(four, node2=f"{GONE} a")
    with pytest.raises(errors.OpPrereqError, match=f"No export of '{name}' was found") as caught:
        _Remove(four, name)
    assert caught.value.args[1] == errors.ECODE_NOENT
    assert caught.value.hint is None if hint is None else hint in str(caught.value.hint)
    assert _Found(four, 2) == ["a", GONE]


@pytest.mark.parametrize("name", ["../other", "a/b", ".lock", "", "."])
def test_a_name_that_is_none_is_one_that_nobody_has(four: Master, name: str) -> None:
    _Furnish(four, node2="other .lock")
    with pytest.raises(errors.OpPrereqError, match=r"No export of .* was found"):
        _Remove(four, name)


# --- nodes that fail ----------------------------------------------------------------------------------------------------


def test_a_node_that_is_down_does_not_keep_the_exports_of_the_others(four: Master) -> None:
    _Furnish(four, node1=WEB, node3=WEB)
    four[1].Stop()
    _SetNode(four, 4, offline=True)
    log = _Remove(four)
    assert _Found(four, 1) == _Found(four, 3) == []
    assert any(f"Node {_Name(four, 2)} did not list its exports: " in line for line in log)
    left = f"nodes {_Name(four, 2)}, {_Name(four, 4)} may still have an export of {WEB}"
    assert any(left in line for line in log)
    assert any(f"'gnt-backup remove {WEB}' tries again" in line for line in log)


def test_nodes_that_could_not_be_asked_are_named_where_nothing_was_found(four: Master) -> None:
    _Furnish(four, node1="other")
    four[2].Stop()
    with pytest.raises(
        errors.OpPrereqError, match=f"No export of '{GONE}' was found; node {_Name(four, 3)} could not be asked"
    ):
        _Remove(four, GONE)


def test_an_export_that_cannot_be_removed_is_named(four: Master) -> None:
    _Furnish(four, node1=WEB, node3=WEB)
    four[2].faults["export_remove"] = "disk on fire"
    log = _Remove(four)
    assert _Found(four, 1) == []
    assert any(f"Could not remove export {WEB} on node {_Name(four, 3)}: disk on fire" in line for line in log)
    assert any(f"node {_Name(four, 3)} may still have an export of {WEB}" in line for line in log)


@pytest.mark.parametrize("path", [f"{pathutils.EXPORT_DIR}/{WEB}", pathutils.EXPORT_DIR])
def test_an_export_that_goes_meanwhile_was_gone(four: Master, path: str) -> None:
    """Nodes may share their directory of exports, which somebody may even remove by hand."""
    _Furnish(four, node1=WEB, node3=WEB)
    four[0].watch = lambda name: four[2].Call(lambda: runtime.RemoveTree(path)) if name == "export_remove" else None
    log = _Remove(four)
    assert f"Export {WEB} was already gone from node {_Name(four, 3)}" in log
    assert not any("may still have" in line for line in log)


def test_a_job_that_removed_nothing_fails(four: Master) -> None:
    _Furnish(four, node3=WEB)
    four[2].faults["export_remove"] = "disk on fire"
    with pytest.raises(
        errors.OpExecError, match=f"No export of {WEB} was removed; node {_Name(four, 3)} may still have one"
    ):
        _Remove(four)


def test_a_node_that_sends_anything_else_has_not_answered(four: Master) -> None:
    _Furnish(four, node1=WEB)
    four[2].answers["export_list"] = {WEB: 1}
    assert any(f"node {_Name(four, 3)} may still have an export" in line for line in _Remove(four))


# --- locks --------------------------------------------------------------------------------------------------------------


def _Held(master: Master, name: str) -> dict[int, set[str]]:
    """The locks that are held when a node is asked to remove something."""
    seen: list[dict[int, set[str]]] = []

    def look(procedure: str, args: tuple[Any, ...]) -> None:
        if procedure == "export_remove":
            rows = [row for row in master.glm.QueryLocks() if row.owner]
            seen.append(
                {level: {row.name for row in rows if row.name.startswith(prefix)} for level, prefix in _PREFIXES}
            )

    for node in master.all:
        node.before = look
    _Remove(master, name)
    return seen[0]


_PREFIXES = ((locking.LEVEL_INSTANCE, "instance/"), (locking.LEVEL_NODE, "node/"))


def test_nobody_exports_the_instance_meanwhile(four: Master) -> None:
    for name in (WEB, f"{WEB}.new"):
        _Furnish(four, node1=name)
        held = _Held(four, name)
        assert held[locking.LEVEL_INSTANCE] == {f"instance/{WEB}"}
        assert {f"node/{uuid}" for uuid in four.nodes} <= held[locking.LEVEL_NODE]


def test_nodes_are_shared_with_everybody_who_uses_them(four: Master) -> None:
    """A removal waits for nobody's start or migration, and nobody waits for it; the nodes only stay what they are."""
    modes: dict[str, str] = {}

    def look(procedure: str, _args: tuple[Any, ...]) -> None:
        if procedure == "export_remove":
            modes.update({row.name: row.mode for row in four.glm.QueryLocks() if row.owner})

    _Furnish(four, node3=WEB)
    four[2].before = look
    _Remove(four)
    nodes = [name for name in modes if name.startswith("node")]
    assert len(nodes) >= 4 and {modes[name] for name in nodes} == {"shared"}, modes
    assert modes[f"instance/{WEB}"] == "exclusive"


def test_a_name_that_is_no_instance_locks_none(four: Master) -> None:
    _Furnish(four, node1=GONE)
    assert _Held(four, GONE)[locking.LEVEL_INSTANCE] == set()


def test_the_expected_instance_is_checked(four: Master) -> None:
    _Furnish(four, node1=WEB)
    with pytest.raises(errors.OpPrereqError, match="the request expected x"):
        _Remove(four, WEB, instance_uuid="x")
    assert _Found(four, 1) == [WEB]
