"""What a verification says of real node daemons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.master import Master

from ganeti import constants, opcodes, pathutils, runtime


@pytest.fixture
def five(make: Callable[..., Master]) -> Master:
    """Five nodes, three of them candidates; the first of the others is drained, the second offline."""
    return make(5, candidates=3, prepare=_Mark)


def _Mark(master: Master) -> None:
    for number, flag in ((3, "drained"), (4, "offline")):
        master.cfg.Update(master.snapshot.nodes[master.nodes[number]].Replace(**{flag: True}))


def _Verify(master: Master, **values: Any) -> list[str]:
    master.Run(opcodes.OpClusterVerifyGroup(group_name="default", verbose=True, **values))
    return [text.strip() for text in master.last.messages]


@pytest.mark.req("D20-FLAG-07", "D20-FLAG-17", "D20-FLAG-25")
def test_the_role_of_each_node_and_what_became_of_it(five: Master) -> None:
    five[2].Stop()
    said = _Verify(five)
    assert [text for text in said if text.startswith(("* Verifying node node", "* Skipping"))] == [
        "* Verifying node node1.example.org (master)",
        "* Verifying node node2.example.org (master candidate)",
        "* Verifying node node3.example.org (master candidate)",
        "* Verifying node node4.example.org (drained)",
        "* Skipping offline node node5.example.org",
    ]
    [failed] = [text for text in said if text.startswith("- ERROR: node node3") and "while contacting" in text]
    assert "connection refused" in failed
    other = said[said.index("* Other Notes") :]
    assert "- NOTICE: 1 offline node(s) found." in other and "- NOTICE: 1 drained node(s) found." in other


def test_candidates_have_the_configuration_and_the_others_have_not(five: Master) -> None:
    path = pathutils.CLUSTER_CONF_FILE
    for number, text in ((0, "same"), (1, "same"), (2, "differs"), (3, "same")):
        five[number].Write(path, text)
    about = [text for text in _Verify(five) if path in text]
    assert "- ERROR: node node4.example.org: File /var/lib/ganeti/config.data should not exist" in about
    assert not any("is missing" in text for text in about)
    five[1].Call(_Remove, path)
    assert any("node2.example.org: File /var/lib/ganeti/config.data is missing" in text for text in _Verify(five))


def _Remove(path: str) -> None:
    runtime.RemoveFile(path)


@pytest.mark.req("RM-CHK-03")
def test_the_secondary_node_must_have_room_for_its_instances(five: Master) -> None:
    assert not any("memory" in text and "node2" in text for text in _Verify(five))
    five[1].SetMemory(1024 + 500)
    [found] = [text for text in _Verify(five) if "memory" in text and text.startswith("- ERROR: node node2")]
    assert found.startswith("- ERROR: node node2.example.org: not enough memory")
    assert not any("memory" in text for text in _Verify(five, skip_checks=["nplusone_mem"]))


def test_which_node_must_not_fail_and_what_would_help(five: Master) -> None:
    """It warns; what 3.1 does not look at does not fail a verification either."""
    assert [text for text in _Verify(five, error_codes=True) if "ENODELOSS" in text] == []
    five[1].SetMemory(4096 + 256)
    said = _Verify(five, error_codes=True)
    [found] = [text for text in said if "ENODELOSS" in text]
    assert found == (
        "- WARNING:ENODELOSS:node:node1.example.org:if it failed, instance web.example.org would stay down: not enough free"
        " memory on node2.example.org; what would help: no other node has room: node node2.example.org needs 257 MiB more free"
        " memory"
    )
    assert not any(":ENODEN1:" in text for text in said)
    assert not any("ENODELOSS" in text for text in _Verify(five, error_codes=True, skip_checks=["nplusone_mem"]))


def test_what_is_on_one_node_by_its_nature_is_no_warning(five: Master) -> None:
    """An instance whose disks are on one node, and a group with one node for instances."""

    def losses() -> int:
        return len([text for text in _Verify(five, error_codes=True) if "ENODELOSS" in text])

    five.cfg.Update(five.snapshot.nodes[five.nodes[1]].Replace(drained=True, master_candidate=False))
    assert losses() == 1
    for uuid in five.nodes[1:]:
        five.cfg.Update(five.snapshot.nodes[uuid].Replace(vm_capable=False))
    assert losses() == 0
    for uuid in five.nodes[1:]:
        five.cfg.Update(five.snapshot.nodes[uuid].Replace(vm_capable=True))
    [disk] = five.snapshot.disks.values()
    plain = {"dev_type": "plain", "nodes": five.nodes[:1], "logical_id": ["xenvg", "disk0"], "children": []}
    five.cfg.Update(disk.Replace(**plain))
    assert losses() == 0


@pytest.mark.parametrize(
    ("template", "field", "code"),
    [
        ("file", "file_storage_dir", "ENODEFILESTORAGEPATHUNUSABLE"),
        ("sharedfile", "shared_file_storage_dir", "ENODESHAREDFILESTORAGEPATHUNUSABLE"),
        ("gluster", "gluster_storage_dir", "ENODEGLUSTERSTORAGEPATHUNUSABLE"),
    ],
)
def test_directories_of_files(master: Master, template: str, field: str, code: str) -> None:
    master[1].Write("/srv/odd", "")
    cluster = master.snapshot.cluster
    changed = {"enabled_disk_templates": [*cluster.enabled_disk_templates, template], field: "/srv/odd"}
    master.cfg.Update(cluster.Replace(**changed))
    for node in master.all:
        node.Write(pathutils.FILE_STORAGE_PATHS_FILE, "/srv\n")
    master[0].Call(runtime.MakeDirs, "/srv/odd")
    [found] = [text for text in _Verify(master, error_codes=True) if f":{code}:" in text]
    assert found.startswith(f"- ERROR:{code}:node:node2.example.org:") and "/srv/odd' is not a directory" in found


def test_forbidden_directories_are_found_on_the_master_only(master: Master) -> None:
    cluster = master.snapshot.cluster
    changed = {"enabled_disk_templates": [*cluster.enabled_disk_templates, "file"], "file_storage_dir": "/srv/ganeti"}
    master.cfg.Update(cluster.Replace(**changed))
    for node in master.all:
        node.Write(pathutils.FILE_STORAGE_PATHS_FILE, "/srv\n/etc/passwd.d\n")
    [found] = [text for text in _Verify(master, error_codes=True) if ":ENODEFILESTORAGEPATHS:" in text]
    assert "node1.example.org:Found forbidden file storage paths: /etc/passwd.d; remove them" in found
    master[1].answers["node_verify"] = {
        "version": [constants.PROTOCOL_VERSION, constants.RELEASE_VERSION],
        "allowed-file-storage-paths": [],
    }
    found = [text for text in _Verify(master, error_codes=True) if ":ENODEFILESTORAGEPATHS:node:node2" in text]
    assert len(found) == 1 and "is not the master" in found[0]


def test_calls_that_hang_on_a_node_are_told_before_anything_is_asked_that_may_hang_too(master: Master) -> None:
    master[0].answers["node_long_calls"] = [["blockdev_wipe", 300.0, False, "dd, process 5"]]
    status, lists = "blockdev_getmirrorstatus", [["lv_list", 90.0, True, ""]] * 2
    master[1].answers["node_long_calls"] = [[status, 3700.0, True, "drbdsetup status, process 7, state D"], *lists]
    said = _Verify(master, error_codes=True)
    [about] = [number for number, text in enumerate(said) if ":ENODERPC:node:node2.example.org:3 calls hang: " in text]
    assert (
        f"hang: 1 {status} since " in said[about]
        and " (drbdsetup status, process 7, state D), 2 lv_list s" in said[about]
    )
    [notice] = [
        text for text in said if text.startswith("- NOTICE: On node node1.example.org 1 call takes long: 1 blockdev")
    ]
    assert notice.endswith(" (dd, process 5)")
    assert about < said.index("* Verifying configuration file consistency")
    # A node that does not know the call, or does not answer it, is reported as before.
    master[0].answers["node_long_calls"] = master[1].answers["node_long_calls"] = [["rubbish"]]
    assert not any("calls hang" in text or "call takes" in text for text in _Verify(master))
