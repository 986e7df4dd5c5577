"""What the watcher notes of volume groups is what the master daemon counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.nodes import MakeNodes, Node

from ganeti import constants, metrics, pathutils, runtime, watchedgroups
from ganeti.config.writer import CheckTags

GROUP = "8b2f8bd6-6f1c-4d3e-9a52-0c2f3d2c6a11"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    (made,) = MakeNodes(tmp_path, "node1.example.org")
    with made:
        yield made


def test_every_state_is_counted_and_described(node: Node) -> None:
    groups = [(f"node{number}.example.org", "xen vg", state) for number, state in enumerate(watchedgroups.STATES)]
    watchedgroups.Write(GROUP, groups + groups[:1])
    expected = dict.fromkeys(watchedgroups.STATES, 1) | {groups[0][2]: 2}
    assert watchedgroups.Read(GROUP) == expected
    assert all(state in metrics.METRICS["volume_groups"].doc for state in watchedgroups.STATES)


def test_a_file_that_is_missing_old_or_damaged(node: Node) -> None:
    assert watchedgroups.Read(GROUP) is None
    watchedgroups.Write(GROUP, [("node1", "xenvg", "good")])
    path = pathutils.WatcherVolumeGroupsFile(GROUP)
    long_ago = runtime.Time() - watchedgroups.FRESH_SECONDS - 1
    runtime.SetTimes(path, long_ago, long_ago)
    assert watchedgroups.Read(GROUP) is None
    runtime.WriteFile(path, b"\xff\xfe")
    assert watchedgroups.Read(GROUP) is None
    for nothing in ("", "node1 xenvg odd\n"):
        runtime.WriteFile(path, nothing)
        assert watchedgroups.Read(GROUP) is None, "where no volume group was seen, there are not none"
    runtime.WriteFile(path, "node1 xenvg odd\n\nnode1 xenvg bad\n")
    assert watchedgroups.Read(GROUP) == dict.fromkeys(watchedgroups.STATES, 0) | {"bad": 1}


def test_repairs_are_found_among_the_tags_of_a_node() -> None:
    repair = watchedgroups.Repair("failed", 1_700_000_000, 12, "xenvg")
    assert repair.tag == "ganeti:watcher:volume-group:failed:1700000000:12:xenvg"
    tags = [repair.tag, repair._replace(time=5).tag, "rack:2", f"{watchedgroups.REPAIR_PREFIX}odd:1:2:a"]
    tags += [f"{watchedgroups.REPAIR_PREFIX}done:{rubbish}" for rubbish in ("", "1:2", "x:1:a", "1:x:a", "1:1:a:b")]
    assert watchedgroups.Repairs(tags) == {"xenvg": repair}
    assert watchedgroups.WithoutRepairs(tags, "xenvg") == tags[2:]
    long = repair._replace(group="v" * 127)
    assert len(long.tag) <= constants.MAX_TAG_LEN and watchedgroups.WithoutRepairs([long.tag], long.group) == []
    CheckTags([repair.tag, long.tag])
