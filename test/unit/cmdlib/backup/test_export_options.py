"""What the options of exports and imports say reaches the nodes; what another cluster says counts only with its signature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.master import KilledInPause, Master
from support.playedtransfers import Transfers
from unit.cmdlib.backup.test_export import Exporting, _Export, _ToOtherCluster
from unit.cmdlib.instance.test_importing import _Arriving, _Import
from unit.cmdlib.instance.test_mirrors import WEB, _EmptyWithFiles

from ganeti import constants, errors, opcodes, x509
from ganeti.cmdlib.backup import remote

SECRET = "the secret of both clusters"


@pytest.fixture
def three(make: Callable[..., Master]) -> Master:
    return make(3, lvm=True, change=_EmptyWithFiles)


# --- options --------------------------------------------------------------------------------------------------------------


@pytest.mark.req("D22-MOVE-03")
def test_the_compression_that_is_asked_for_is_that_of_both_ends(three: Master) -> None:
    scene = Exporting(three, up=False)
    three.Run(_Export(compress="gzip"))
    three.Run(_Import(compress="gzip-fast"))
    assert [way[3] for way in scene.transfers.done] == ["gzip", "gzip", "gzip-fast", "gzip-fast"]
    three.Run(_ToOtherCluster(three, compress="gzip-slow"))
    assert three[0].arguments["export_start"][0]["compress"] == "gzip-slow"


@pytest.mark.req("D22-MOVE-03", "D22-MOVE-15")
def test_a_guest_from_another_cluster_gets_the_options_of_its_way_and_its_rename_script(three: Master) -> None:
    Transfers(three, elsewhere=True)
    three.Run(_Arriving(three, compress="gzip", source_shutdown_timeout=1000))
    opts = three[0].arguments["import_start"][0]
    assert opts["compress"] == "gzip" and opts["connect_timeout"] > 1000
    assert three[0].renamed == [WEB], "its script learns the name that it had"


def test_the_guest_has_the_time_to_end_that_was_said(three: Master) -> None:
    Exporting(three)
    three.Run(_Export(shutdown_timeout=77))
    assert three[0].arguments["instance_shutdown"][1] == 77


@pytest.mark.parametrize("ignore", [False, True])
def test_disks_that_cannot_be_removed_after_an_export(three: Master, ignore: bool) -> None:
    Exporting(three)
    three[0].faults["blockdev_remove"] = "it is busy"
    if ignore:
        three.Run(_Export(remove_instance=True, ignore_remove_failures=True))
    else:
        with pytest.raises(errors.OpExecError, match="is complete"):
            three.Run(_Export(remove_instance=True))
    assert (three.snapshot.InstanceByName(WEB) is None) == ignore


def test_a_file_cannot_become_much_larger_than_its_disk(three: Master) -> None:
    Exporting(three)
    three.Run(_Export())
    assert three[1].arguments["import_start"][0]["limit"] == 2 * 256 + 1024


def test_a_node_that_keeps_the_file_learns_neither_parameters_nor_disks(three: Master) -> None:
    scene = Exporting(three, "drbd")
    three.Run(opcodes.OpInstanceSetParams(instance_name=WEB, osparams_private={"b": "hidden"}))
    three.Run(_Export("node3"))
    secret = scene.disks[0].logical_id[5]
    assert secret and "hidden" in str(three[0].arguments["export_start"])
    told = str(three[2].arguments["import_start"])
    assert WEB in told and "hidden" not in told and secret not in told
    assert secret not in str(three[2].arguments["finalize_export"])


# --- before anything is stopped -------------------------------------------------------------------------------------------


@pytest.mark.req("D20-OS-03")
def test_a_system_without_an_export_script_is_noticed_while_the_guest_runs(three: Master) -> None:
    scene = Exporting(three)

    def lacks(required: bool, name: str, checks: list[str], params: dict[str, Any], force_variant: bool) -> bool:
        if "export" in checks:
            raise errors.RpcCallError("OS debian has no export script")
        return True

    three[0].stand_ins["os_validate"] = lacks
    three[0].Stop()
    three[0].Start()
    with pytest.raises(errors.OpPrereqError, match="has no export script"):
        three.Run(_Export())
    assert scene.Runs() and "instance_shutdown" not in three[0].calls


def _Unsigned(op: opcodes.OpBackupExport) -> None:
    op.target_node = [["203.0.113.9", 4433, "magic-text", "0" * 40, "0" * 16], *op.target_node[1:]]


def _SignedByOthers(op: opcodes.OpBackupExport) -> None:
    op.target_node = [remote.MakeDiskInfo("another secret", n, "203.0.113.9", 4433, "magic-text") for n in range(2)]


def _OneDisk(op: opcodes.OpBackupExport) -> None:
    op.target_node = op.target_node[:1]


def _ForeignCa(op: opcodes.OpBackupExport) -> None:
    _, certificate = x509.MakeSelfSigned("thief.example.net", 3600)
    op.destination_x509_ca = x509.Sign(certificate, "another secret")


def _ForeignKey(op: opcodes.OpBackupExport) -> None:
    op.x509_key_name = remote.MakeKeyName("another secret", op.x509_key_name[0])


@pytest.mark.req("D22-MOVE-11", "D22-X509-10")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_Unsigned, "The address for disk 0 does not match its HMAC.*different domain secrets"),
        (_SignedByOthers, "The address for disk 0 does not match its HMAC.*different domain secrets"),
        (_OneDisk, "disks"),
        (_ForeignCa, "The certificate of the other cluster is not valid"),
        (_ForeignKey, "The name of the X509 key.* does not match its HMAC.*different domain secrets"),
    ],
)
def test_disks_go_only_where_the_other_cluster_has_signed(
    three: Master, change: Callable[[opcodes.OpBackupExport], None], words: str
) -> None:
    """What says where passes through the hands of a client."""
    scene = Exporting(three)
    op = _ToOtherCluster(three)
    change(op)
    with pytest.raises(errors.OpPrereqError, match=words):
        three.Run(op)
    assert scene.Runs() and not {"instance_shutdown", "export_start"} & set(three[0].calls)


# --- ended by an administrator --------------------------------------------------------------------------------------------


def test_an_export_that_is_ended_leaves_the_guest_and_nothing_else(three: Master) -> None:
    scene = Exporting(three)
    scene.transfers.looks = 10**6
    with pytest.raises(errors.OpExecError, match="gnt-job cancel --kill"):
        three.Run(_Export(), KilledInPause())
    assert scene.Runs() and scene.Volumes() == scene.before
    assert scene.transfers.programs == {} and scene.Exports()[1] == []


def test_a_move_that_is_ended_leaves_the_guest_where_it_was(three: Master) -> None:
    scene = Exporting(three)
    scene.transfers.looks = 10**6
    with pytest.raises(errors.OpExecError, match="gnt-job cancel --kill"):
        three.Run(opcodes.OpInstanceMove(instance_name=WEB, target_node="node2"), KilledInPause())
    assert scene.Runs() and scene.web.admin_state == constants.ADMINST_UP and scene.transfers.programs == {}
    assert scene.Volumes() == scene.before and sorted(three[1].lvm.Volumes()) == []


# --- a node that only keeps exports ---------------------------------------------------------------------------------------


def test_exports_on_a_node_that_runs_no_instances_can_be_removed(three: Master) -> None:
    scene = Exporting(three)
    three.Run(opcodes.OpNodeSetParams(node_name="node2", vm_capable=False))
    three.Run(_Export())
    assert scene.Exports()[1] == [WEB]
    three.Run(opcodes.OpBackupRemove(instance_name=WEB))
    assert scene.Exports()[1] == []
