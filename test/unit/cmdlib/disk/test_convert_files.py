"""Conversions to and from files: what is left in the directory of the instance, and what is said of it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from support.creation import OnDisks
from support.dying import DiesAt, Killed
from support.master import Master
from support.simnode import FILE_FOLDER
from unit.cmdlib.instance.test_mirrors import WEB, _EmptyWithFiles

from ganeti import errors, opcodes, runtime
from ganeti.cmdlib.instance.modify import LUInstanceSetParams

FOLDER = f"{FILE_FOLDER}/{WEB}"


@pytest.fixture
def filed(make: Callable[..., Master]) -> Master:
    return make(2, lvm=True, change=_EmptyWithFiles, prepare=_Add)


def _Add(master: Master) -> None:
    master.Run(OnDisks(WEB, {"size": 8}, disk_template="plain", start=False))


def _Convert(template: str) -> opcodes.OpCode:
    return opcodes.OpInstanceSetParams(instance_name=WEB, disk_template=template)


def _Strays(master: Master) -> list[str]:
    master.Run(opcodes.OpClusterVerifyGroup(group_name="default", error_codes=True))
    return [text for text in master.last.messages if "belongs to no disk" in text]


def test_the_copies_of_a_conversion_whose_master_died_are_named_with_the_command_that_removes_them(
    filed: Master,
) -> None:
    op = _Convert("file")
    with pytest.raises(Killed):
        filed.Run(op, units={op.OP_ID: DiesAt(LUInstanceSetParams, "ReplaceInstanceDisks")})
    [left] = filed[0].Names(FOLDER)
    [text] = _Strays(filed)
    assert f"ERROR:ENODEORPHANLV:instance:{WEB}:{FOLDER}/{left} on node node1" in text
    [command] = re.findall(r"run 'rm -r (\S+)' there", text)
    filed.Run(op)
    assert len(filed[0].Names(FOLDER)) == 2 and len(_Strays(filed)) == 1, "the disk itself is no stray"
    filed[0].Call(runtime.RemoveFile, command)
    assert _Strays(filed) == []
    filed.Run(_Convert("plain"))
    assert WEB not in filed[0].Names(FILE_FOLDER), "the directory went with the file"


def test_a_conversion_that_fails_leaves_no_directory(filed: Master) -> None:
    filed[0].faults["blockdev_convert"] = "the disk is broken"
    with pytest.raises(errors.OpExecError, match="the disk is broken"):
        filed.Run(_Convert("file"))
    assert filed[0].Names(FILE_FOLDER) == []


def test_the_file_of_a_disk_is_no_stray_where_a_move_of_it_was_cut_off(filed: Master) -> None:
    filed.Run(_Convert("file"))
    [disk] = filed.snapshot.InstanceDisks(filed.Instance(WEB))
    filed.Run(opcodes.OpInstanceSetParams(instance_name=WEB, disks=[["detach", 0, {}]], ignore_ipolicy=True))
    name = disk.logical_id[1].rpartition("/")[2]
    filed[0].Call(runtime.MakeDirs, FOLDER)
    # The master died after the file had been moved back.
    filed[0].Call(runtime.Rename, f"{FILE_FOLDER}/{name}", f"{FOLDER}/{name}")
    assert _Strays(filed) == []
