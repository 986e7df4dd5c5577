"""Files of nodes: what is a finding, and what may be a moment behind."""

from __future__ import annotations

import pytest
from simulated import World

from ganeti import pathutils, runtime
from ganeti.cmdlib.cluster import verify_files as files
from ganeti.cmdlib.cluster.verify_report import Report

NAMES = {"u1": "node1", "u2": "node2", "u3": "node10"}
EVERYBODY = frozenset(NAMES)


def _Check(rules: list[files.FileRule], found: files.Found) -> list[str]:
    lines: list[str] = []
    files.CheckFiles(Report(lines.append), NAMES, rules, found)
    return lines


def test_a_file_is_missing_differs_or_is_where_it_should_not_be() -> None:
    rules = [
        files.FileRule("/all", EVERYBODY),
        files.FileRule("/config", frozenset(["u1"]), exclusive=True),
        files.FileRule("/maybe", EVERYBODY, optional=True),
        files.FileRule("/never", EVERYBODY, optional=True),
    ]
    found = {
        "u1": {"/all": "a", "/config": "c1", "/maybe": "m"},
        "u2": {"/all": "b", "/config": "c2"},
        "u3": {"/maybe": "m"},
    }
    assert _Check(rules, found) == [
        "  - ERROR: node node10: File /all is missing",
        "  - ERROR: cluster : File /all found with 2 different checksums (variants: node1; node2)",
        "  - ERROR: node node2: File /config should not exist",
        "  - ERROR: cluster : File /maybe is optional, but must be on all or no nodes; it is missing on node2",
    ]


def test_nodes_that_did_not_answer_are_not_said_to_lack_files() -> None:
    assert _Check([files.FileRule("/all", EVERYBODY)], {"u1": {"/all": "a"}}) == []


def test_paths_are_shown_as_people_know_them() -> None:
    [line] = _Check([files.FileRule(pathutils.VIRTUAL_PATH_MARKER + "/etc/x", EVERYBODY)], {"u1": {}})
    assert line.endswith("File /etc/x is missing")


@pytest.mark.parametrize("rounds", [0, 3])
def test_views_of_the_store_get_time(rounds: int) -> None:
    """They agree after some rounds: no finding, and only they are asked for again."""
    rules = [files.FileRule("/view", EVERYBODY, view=True), files.FileRule("/all", EVERYBODY)]
    old = {"u1": {"/view": "new", "/all": "a"}, "u2": {"/view": "new" if not rounds else "old", "/all": "b"}}
    asked: list[list[str]] = []

    def ask(paths: list[str]) -> files.Found:
        asked.append(paths)
        return {"u1": {"/view": "new"}, "u2": {"/view": "new" if len(asked) >= rounds else "old"}}

    with World(1) as world:
        found = world.AddMachine("master").Call(files.WaitForViews, rules, NAMES, old, ask)
    assert asked == [["/view"]] * rounds
    assert found == {"u1": {"/view": "new", "/all": "a"}, "u2": {"/view": "new", "/all": "b"}}


def test_views_that_never_agree_are_findings() -> None:
    rules = [files.FileRule("/view", EVERYBODY, view=True)]
    old = {"u1": {"/view": "new"}, "u2": {}}

    def wait() -> tuple[files.Found, float]:
        start = runtime.Monotonic()
        return files.WaitForViews(rules, NAMES, old, lambda paths: {"u1": {"/view": "new"}, "u2": {}}), (
            runtime.Monotonic() - start
        )

    with World(1) as world:
        found, seconds = world.AddMachine("master").Call(wait)
    assert 10 <= seconds < 12
    assert _Check(rules, found) == ["  - ERROR: node node2: File /view is missing"]
