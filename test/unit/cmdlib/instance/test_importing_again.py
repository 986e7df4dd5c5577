"""What of an export becomes a new instance's own, and what does not (doc/design-transfers.rst)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.master import Callbacks, Master
from unit.cmdlib.instance.test_importing import CONTENT, COPY, EXPORT, Exported, _Edit, _Import
from unit.cmdlib.instance.test_mirrors import WEB, _EmptyWithFiles

from ganeti import errors
from ganeti.cmdlib import LU_MAPPING
from ganeti.params import exported, hv


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_EmptyWithFiles)


@pytest.mark.parametrize("removed", [False, True])
def test_a_node_that_went_away_before_the_locks_were_held(three: Master, removed: bool) -> None:
    """The job says so, rather than that the node could not be asked."""
    Exported(three)
    op = _Import(pnode="node3")
    plain = LU_MAPPING[op.OP_ID]

    class Late(plain):  # type: ignore[misc, valid-type]
        def CheckPrereq(self) -> None:
            with three.Elsewhere():
                node = three.snapshot.nodes[three.nodes[1]]
                if removed:
                    three.cfg.RemoveNode(node.uuid)
                else:
                    three.cfg.Update(node.Replace(offline=True, master_candidate=False))
            super().CheckPrereq()

    with pytest.raises(errors.OpPrereqError, match="which has the export, was removed or is offline now"):
        three.Run(op, units={op.OP_ID: Late})
    assert three.snapshot.InstanceByName(COPY) is None and "export_start" not in three[1].calls


def test_private_parameters_of_the_system_come_with_the_export(three: Master) -> None:
    scene = Exported(three, osparams={"mirror": "there"}, osparams_private={"a": "hush", "b": "old"})
    three.Run(_Import(osparams_private={"b": "new"}))
    copied = three.Instance(COPY)
    assert dict(scene.original.osparams_private) == {"a": "hush", "b": "old"}
    assert dict(copied.osparams_private) == {"a": "hush", "b": "new"}
    assert dict(copied.osparams) == {"mirror": "there"}


def test_a_copy_of_another_name_never_takes_over_the_address(three: Master) -> None:
    """The original may come back any time, from the same export."""
    scene = Exported(three)
    scene.Remove()
    three.Run(_Import(nics=[{"mac": "auto"}]))
    three.Run(_Import(WEB, nics=[{"mac": "auto"}]))
    copied, again = three.Instance(COPY), three.Instance(WEB)
    assert again.nics[0].mac == scene.original.nics[0].mac != copied.nics[0].mac


def test_a_copy_of_another_name_beside_the_original(three: Master) -> None:
    scene = Exported(three)
    three.Run(_Import(nics=[{}]))
    assert three.Instance(COPY).nics[0].mac != scene.original.nics[0].mac


def test_what_the_export_has_is_imported_though_one_disk_is_missing(three: Master) -> None:
    scene = Exported(three)
    lines = three[1].Read(f"{EXPORT}/config.ini").decode().splitlines()
    kept = [line for line in lines if not line.startswith("disk0_dump")]
    three[1].Write(f"{EXPORT}/config.ini", "\n".join(kept))
    cbs = Callbacks()
    three.Run(_Import(start=True), cbs)
    assert "* disk 0 stays empty: the export does not have its content" in cbs.messages
    assert scene.Contents(COPY, 0) == [b"", CONTENT[1]] and COPY in three[0].guests


def test_what_only_the_cluster_can_set_is_not_read_from_an_export(three: Master) -> None:
    """Releases before 2.1 let each instance have its own."""
    Exported(three)
    for name, value in (("migration_port", "8200"), ("migration_bandwidth", "99"), ("migration_mode", "live")):
        assert name in hv.GLOBALS
        _Edit(three, "hypervisor", f"{name} = {value}")
    cbs = Callbacks()
    three.Run(_Import(), cbs)
    assert not hv.GLOBALS & three.Instance(COPY).hvparams.keys()
    assert not [text for text in cbs.messages if "migration_" in text], "it was never meant for one instance"
    read = exported.Parse(three[1].Read(f"{EXPORT}/config.ini").decode())
    assert not hv.GLOBALS & read.hvparams.keys() and read.name == WEB
