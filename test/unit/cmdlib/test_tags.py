"""Tags of every kind of object."""

from __future__ import annotations

import pytest
from support.master import Master

from ganeti import errors, opcodes


def test_a_tag_comes_and_goes(master: Master) -> None:
    web = "web.example.org"
    assert master.Run(opcodes.OpTagsGet(kind="instance", name="web")) == ["prod"]
    serial = master.snapshot.serial_no
    master.Run(opcodes.OpTagsSet(kind="instance", name=web, tags=["b", "a"]))
    assert master.Run(opcodes.OpTagsGet(kind="instance", name=web, use_locking=True)) == ["a", "b", "prod"]
    assert master.snapshot.serial_no == serial + 1
    master.Run(opcodes.OpTagsDel(kind="instance", name=web, tags=["prod", "a"]))
    assert list(master.snapshot.InstanceByName(web).tags) == ["b"]
    with pytest.raises(errors.OpPrereqError, match="Tag\\(s\\) 'prod', 'x' not found") as caught:
        master.Run(opcodes.OpTagsDel(kind="instance", name=web, tags=["x", "b", "prod"]))
    assert caught.value.args[1] == errors.ECODE_NOENT


@pytest.mark.parametrize("kind", ["cluster", "node", "nodegroup"])
def test_other_kinds(master: Master, kind: str) -> None:
    name = {"cluster": None, "node": "node2", "nodegroup": "default"}[kind]
    master.Run(opcodes.OpTagsSet(kind=kind, name=name, tags=["x:y"]))
    assert master.Run(opcodes.OpTagsGet(kind=kind, name=name)) == ["x:y"]
    found = master.Run(opcodes.OpTagsSearch(pattern="^x:"))
    path = {"cluster": "/cluster", "node": "/nodes/node2.example.org", "nodegroup": "/nodegroup/default"}[kind]
    assert found == [[path, "x:y"]]


def test_what_is_no_tag_is_refused(master: Master) -> None:
    for tag in ("", "a b", "x" * 129):
        with pytest.raises(errors.OpPrereqError) as caught:
            master.Run(opcodes.OpTagsSet(kind="cluster", tags=["fine", tag]))
        assert caught.value.args[1] == errors.ECODE_INVAL
    assert list(master.snapshot.cluster.tags) == []
    with pytest.raises(errors.OpPrereqError, match="Invalid search pattern"):
        master.Run(opcodes.OpTagsSearch(pattern="("))
    with pytest.raises(errors.OpPrereqError, match="'nobody' not known"):
        master.Run(opcodes.OpTagsGet(kind="node", name="nobody"))
