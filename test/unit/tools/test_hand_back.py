"""The way back to an original release: what it wrote before it was taken over is what it finds again."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from support.virtualnode import TOP, VirtualNode

from ganeti import configfile, objects, serializer, upgrade
from ganeti.params import ipolicy

DATA = "/var/lib/ganeti"
CONFIG = f"{DATA}/config.data"
MAIN = "import sys; from ganeti.tools.hand_back import Main; sys.exit(Main())"
# A cluster of Debian's 3.0.2 with instances, groups, a network, a filter and tags.
ORIGINAL = Path(TOP, "test", "data", "adoption", "debian-3.0.2.config.data")


@pytest.fixture
def node(tmp_path: Path) -> VirtualNode:
    """A node whose files were written by this release after it had taken the cluster over."""
    node = VirtualNode(str(tmp_path))
    data = upgrade.UpgradeConfig(serializer.LoadProper(ORIGINAL.read_bytes()))
    node.Write(CONFIG, objects.ConfigText(configfile.LoadDict(data)), 0o640)
    return node


def HandBack(node: VirtualNode, *words: str) -> tuple[int, str]:
    done = node.Run([sys.executable, "-c", MAIN, *words])
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def Comparable(value: Any) -> Any:
    """Without the order of keys, and of tags and other sets."""
    if isinstance(value, dict):
        return {key: Comparable(item) for key, item in value.items()}
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return sorted(value)
    return [Comparable(item) for item in value] if isinstance(value, list) else value


def Differences(old: Any, new: Any, path: str = "") -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for key in old.keys() | new.keys():
            found += Differences(old.get(key, "missing"), new.get(key, "missing"), f"{path}/{key}")
        return sorted(found)
    return [] if old == new else [f"{path}: {old!r} -> {new!r}"[:150]]


def test_a_taken_over_cluster_is_given_back_as_it_was(node: VirtualNode) -> None:
    mode = os.stat(node.Path(CONFIG)).st_mode
    code, text = HandBack(node, "--yes-do-it", "3.0")
    assert code == 0, text
    assert "ensure-dirs --full-run" in text
    old, new = (Comparable(json.loads(text)) for text in (ORIGINAL.read_text(), node.Read(CONFIG)))
    assert new["version"] == 3000000
    changed = [text.partition(":")[0] for text in Differences(old, new)]
    # What the change to 3.1 replaced for good, with what 3.0 reads too.
    assert changed == [
        "/cluster/hvparams/kvm/disk_discard",
        "/cluster/hvparams/xen-hvm/xen_cmd",
        "/cluster/hvparams/xen-pvm/xen_cmd",
    ]
    assert os.stat(node.Path(CONFIG)).st_mode == mode


@pytest.mark.parametrize(("release", "version"), [("2.16", 2160000), ("3.1", 3010000)])
def test_other_releases_have_other_numbers(node: VirtualNode, release: str, version: int) -> None:
    assert HandBack(node, "--yes-do-it", release)[0] == 0
    assert json.loads(node.Read(CONFIG))["version"] == version


def test_limits_that_3_1_does_not_know_are_removed_and_named(node: VirtualNode) -> None:
    data = json.loads(node.Read(CONFIG))
    (group,) = list(data["nodegroups"].values())[:1]
    data["cluster"]["ipolicy"] |= {"memory-ratio": 1.5, "max-node-failures": 2}
    group["ipolicy"] |= {"memory-ratio": 2.0}
    node.Write(CONFIG, json.dumps(data), 0o640)
    code, text = HandBack(node, "--yes-do-it", "3.1")
    assert code == 0, text
    assert f"memory-ratio of {data['cluster']['cluster_name']} is removed" in text
    assert f"memory-ratio of {group['name']} is removed" in text
    after = json.loads(node.Read(CONFIG))
    policies = [after["cluster"]["ipolicy"], *(each["ipolicy"] for each in after["nodegroups"].values())]
    assert not any(key in policy for policy in policies for key in ("memory-ratio", "max-node-failures"))
    assert set(after["cluster"]["ipolicy"]) == set(ipolicy.KEYS)


def test_tokens_do_not_come_back_to_life_later(node: VirtualNode) -> None:
    data = json.loads(node.Read(CONFIG))
    data["cluster"]["rapi_tokens"] = [{"name": "backup"}]
    node.Write(CONFIG, json.dumps(data), 0o640)
    assert HandBack(node, "--yes-do-it", "3.1")[0] == 0
    assert "rapi_tokens" not in json.loads(node.Read(CONFIG))["cluster"]


def _Mirror(node: VirtualNode, **changed: Any) -> dict[str, Any]:
    """Write the configuration with one mirror of two volumes, whose keys are changed; return the instance that has it."""
    data = json.loads(node.Read(CONFIG))
    disk = next(item for item in data["disks"].values() if item["iv_name"] == "disk/0")
    disk["children"] = [{**disk, "iv_name": "", **changed}]
    disk |= changed
    node.Write(CONFIG, json.dumps(data), 0o640)
    return next(item for item in data["instances"].values() if disk["uuid"] in item["disks"])


@pytest.mark.parametrize("release", ["2.16", "3.0", "3.1"])
def test_a_mirror_that_was_behind_once_does_not_keep_the_original_from_starting(
    node: VirtualNode, release: str
) -> None:
    _Mirror(node, decision=7)
    assert HandBack(node, "--yes-do-it", release)[0] == 0
    disks = list(json.loads(node.Read(CONFIG))["disks"].values())
    keys = {key for disk in disks for item in (disk, *disk["children"]) for key in item}
    assert "size" in keys and "decision" not in keys


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"behind": {"node": "n", "since": 1.0}}, "A copy of disk disk/0 of {name} is behind"),
        ({"adopts": "old-volume"}, "The volume of disk disk/0 of {name} is being adopted"),
    ],
)
@pytest.mark.parametrize("words", [("3.0",), ("3.1",), ("--keep", "3.0")])
def test_the_original_would_start_a_side_that_lacks_data(
    node: VirtualNode, changed: dict[str, Any], problem: str, words: tuple[str, ...]
) -> None:
    assert node.Python(MAKE_STORE).returncode == 0
    name = _Mirror(node, decision=7, **changed)["name"]
    before = node.Read(CONFIG)
    code, text = HandBack(node, "--yes-do-it", *words)
    assert code == 1 and problem.format(name=name) in text and "daemon-util start-all'" in text, text
    assert node.Read(CONFIG) == before and os.path.exists(node.Path(f"{DATA}/ext/store.db"))
    assert not os.path.exists(node.Path(f"{DATA}/ext/config.data.before"))


def test_files_that_the_master_will_replace_are_not_judged(node: VirtualNode) -> None:
    """A node that was away: its files are old, and those of the original's master follow; they have to be readable until then."""
    _Mirror(node, decision=7, behind={"node": "n", "since": 1.0})
    done = node.Python("from ganeti.tools import hand_back; hand_back.HandBack('3.0', exact=False)")
    assert done.returncode == 0, done.stderr
    assert "decision" not in node.Read(CONFIG) and "behind" not in node.Read(CONFIG)


@pytest.mark.parametrize("release", ["3.0", "3.1"])
def test_what_no_original_release_reads_is_never_written(node: VirtualNode, release: str) -> None:
    """Of a later release of ours, for instance: its keys are not declared here."""
    _Mirror(node, later=1)
    before = node.Read(CONFIG)
    code, text = HandBack(node, "--yes-do-it", release)
    assert code == 2 and f"has what release {release} does not know: key 'later' of disk" in text
    assert node.Read(CONFIG) == before


def test_nothing_is_done_without_a_word_or_with_a_daemon_that_runs(node: VirtualNode) -> None:
    assert node.Python(MAKE_STORE).returncode == 0
    before = node.Read(CONFIG)
    code, text = HandBack(node, "3.0")
    assert code == 1 and "Use --yes-do-it if you mean it" in text
    for words in (("--yes-do-it", "2.15"), ("--yes-do-it",), (), ("--yes-do-it", "3.0", "3.1")):
        code, text = HandBack(node, *words)
        assert code == 2 and "One argument is expected" in text, (words, text)
    # Whoever wants the node back must not lose its copy of the state.
    code, text = HandBack(node, "--undo", "--yes-do-it", "3.0")
    assert code == 2 and "--undo takes no argument" in text
    holder = node.Python(
        "import subprocess, sys; from ganeti import constants; from ganeti.daemon import pidfile\n"
        "lock = pidfile.Lock(constants.NODED)\n"
        f"done = subprocess.run([sys.executable, '-c', {MAIN!r}, '--yes-do-it', '3.0'], capture_output=True, text=True)\n"
        "print(done.returncode, done.stderr)"
    )
    assert holder.stdout.startswith("1 ") and "ganeti-noded is running" in holder.stdout
    assert node.Read(CONFIG) == before and os.path.exists(node.Path(f"{DATA}/ext/store.db"))


def test_nothing_is_undone_while_a_daemon_runs(node: VirtualNode) -> None:
    """It would go on with files that are exchanged below it."""
    assert HandBack(node, "--yes-do-it", "--keep", "3.0")[0] == 0
    before = node.Read(CONFIG)
    holder = node.Python(
        "import subprocess, sys; from ganeti import constants; from ganeti.daemon import pidfile\n"
        "lock = pidfile.Lock(constants.NODED)\n"
        f"done = subprocess.run([sys.executable, '-c', {MAIN!r}, '--undo'], capture_output=True, text=True)\n"
        "print(done.returncode, done.stderr)"
    )
    assert holder.stdout.startswith("1 ") and "ganeti-noded is running" in holder.stdout
    assert node.Read(CONFIG) == before
    assert Undo(node)[0] == 0 and node.Read(CONFIG) != before


def test_a_copy_that_is_newer_than_the_files_is_not_thrown_away(node: VirtualNode) -> None:
    made = node.Python(
        "from ganeti.server import ownnode; from ganeti.store import Epoch, Row\n"
        "from ganeti.store.base import NOWHERE, Line\n"
        "own = ownnode.OwnStore(); epoch = Epoch(1, 'aa'); own.Promise('c', epoch, 'n')\n"
        "own.Adopt(epoch, None, Line((), NOWHERE), 0, False, [Row('job', '1', '{}')])"
    )
    assert made.returncode == 0, made.stderr
    code, text = HandBack(node, "--yes-do-it", "3.0")
    assert code == 1 and "older than its copy" in text
    assert os.path.exists(node.Path("/var/lib/ganeti/ext/store.db"))


MAKE_STORE = """
from ganeti.server import ownnode
from ganeti.store import Epoch
own = ownnode.OwnStore(); own.Promise('c', Epoch(1, 'aa'), 'n'); own.Close()
"""
FILL_STORE = """
from ganeti.server import ownnode; from ganeti.store import Epoch, Row
from ganeti.store.base import NOWHERE, Line
own = ownnode.OwnStore(); epoch = Epoch(1, 'aa'); own.Promise('c', epoch, 'n')
own.Adopt(epoch, None, Line((), NOWHERE), 0, False, [Row('job', '1', '{}')])
"""


def Undo(node: VirtualNode) -> tuple[int, str]:
    return HandBack(node, "--undo")


def test_what_was_handed_back_with_keep_comes_back(node: VirtualNode) -> None:
    assert node.Python(MAKE_STORE).returncode == 0
    before, mode = node.Read(CONFIG), os.stat(node.Path(CONFIG)).st_mode
    store = os.stat(node.Path(f"{DATA}/ext/store.db")).st_ino
    for _ in range(2):  # a run that was cut off is repeated
        code, text = HandBack(node, "--yes-do-it", "--keep", "3.0")
        assert code == 0 and "Install release" not in text, text
        assert json.loads(node.Read(CONFIG))["version"] == 3000000
        assert not os.path.exists(node.Path(f"{DATA}/ext"))
    assert "the form of this release again" in Undo(node)[1]
    assert node.Read(CONFIG) == before and os.stat(node.Path(CONFIG)).st_mode == mode
    assert os.stat(node.Path(f"{DATA}/ext/store.db")).st_ino == store
    assert Undo(node) == (0, "")  # nothing is left to undo
    assert sorted(os.listdir(node.Path(DATA))) == ["config.data", "ext"]


@pytest.mark.parametrize("release", ["2.16", "3.0", "3.1"])
def test_a_run_cut_off_behind_the_configuration_is_undone(node: VirtualNode, release: str) -> None:
    """Also for 3.1, whose form has the version of ours."""
    assert node.Python(MAKE_STORE).returncode == 0
    data = json.loads(node.Read(CONFIG))
    data["cluster"]["rapi_tokens"] = [{"name": "backup"}]
    data["cluster"]["ipolicy"]["memory-ratio"] = 1.5
    node.Write(CONFIG, json.dumps(data), 0o640)
    before = node.Read(CONFIG)
    for _ in range(2):
        assert HandBack(node, "--yes-do-it", "--keep", release)[0] == 0
        assert "rapi_tokens" not in node.Read(CONFIG) and "memory-ratio" not in node.Read(CONFIG)
        os.rename(node.Path(f"{DATA}/ext.kept"), node.Path(f"{DATA}/ext"))  # as before its last step
    assert Undo(node)[0] == 0
    assert node.Read(CONFIG) == before and not os.path.exists(node.Path(f"{DATA}/ext/config.data.before"))


def test_a_node_that_has_worked_since_a_run_was_cut_off_gets_its_newest_files_back(node: VirtualNode) -> None:
    assert HandBack(node, "--yes-do-it", "--keep", "3.1")[0] == 0
    os.rename(node.Path(f"{DATA}/ext.kept"), node.Path(f"{DATA}/ext"))  # and its daemons were started
    data = json.loads(node.Read(CONFIG))
    data["cluster"]["tags"] = ["newer"]
    node.Write(CONFIG, json.dumps(data), 0o640)
    before = node.Read(CONFIG)
    assert HandBack(node, "--yes-do-it", "--keep", "3.1")[0] == 0
    assert Undo(node)[0] == 0
    assert node.Read(CONFIG) == before


def test_undoing_what_was_never_done_does_not_bring_older_files_back(node: VirtualNode) -> None:
    """Cut off behind the copy; this release has worked since, and its master daemon would refuse files older than its store."""
    assert node.Python(MAKE_STORE).returncode == 0
    node.Write(f"{DATA}/ext/config.data.before", node.Read(CONFIG), 0o640)
    data = json.loads(node.Read(CONFIG))
    data["cluster"]["tags"] = ["newer"]
    node.Write(CONFIG, json.dumps(data), 0o640)
    before = node.Read(CONFIG)
    assert Undo(node) == (0, "")
    assert node.Read(CONFIG) == before and not os.path.exists(node.Path(f"{DATA}/ext/config.data.before"))


def test_a_newer_copy_of_the_state_is_not_replaced_by_the_one_set_aside(node: VirtualNode) -> None:
    assert HandBack(node, "--yes-do-it", "--keep", "3.0")[0] == 0
    assert node.Python(FILL_STORE).returncode == 0
    after = node.Read(CONFIG)
    code, text = Undo(node)
    assert code == 0 and "has got a new copy" in text
    assert node.Read(CONFIG) == after
    assert sorted(os.listdir(node.Path(DATA))) == ["config.data", "ext"]


def test_the_newest_state_is_the_one_that_comes_back(node: VirtualNode) -> None:
    """What an earlier change of release had set aside was never undone; the node has worked for this release since."""
    assert node.Python(MAKE_STORE).returncode == 0
    assert HandBack(node, "--yes-do-it", "--keep", "3.0")[0] == 0
    data = upgrade.UpgradeConfig(json.loads(node.Read(CONFIG)))
    data["cluster"]["tags"] = ["newer"]
    node.Write(CONFIG, objects.ConfigText(configfile.LoadDict(data)), 0o640)
    before = node.Read(CONFIG)
    assert node.Python(MAKE_STORE).returncode == 0
    store = os.stat(node.Path(f"{DATA}/ext/store.db")).st_ino
    code, text = HandBack(node, "--yes-do-it", "--keep", "3.0")
    assert code == 0, text
    assert Undo(node)[0] == 0
    assert node.Read(CONFIG) == before and os.stat(node.Path(f"{DATA}/ext/store.db")).st_ino == store
    assert sorted(os.listdir(node.Path(DATA))) == ["config.data", "ext"]


def test_without_keep_nothing_can_be_undone(node: VirtualNode) -> None:
    """A copy of the state that stays would be taken for the truth by a later start of this release."""
    assert HandBack(node, "--yes-do-it", "--keep", "3.0")[0] == 0
    assert node.Python(MAKE_STORE).returncode == 0
    os.makedirs(node.Path(f"{DATA}/ext.going/part"))  # of a run that was cut off
    assert HandBack(node, "--yes-do-it", "3.0")[0] == 0
    assert Undo(node) == (0, "")
    assert os.listdir(node.Path(DATA)) == ["config.data"]
