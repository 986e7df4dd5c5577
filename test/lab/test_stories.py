"""A sample of the laboratory's stories on two nodes, another one for each commit; ``test/lab/run --all`` runs all of them."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.virtualnode import TOP

from lab import stories
from lab.cluster import InstallAll, LabCluster
from lab.files import Lack
from lab.readme import Commands
from lab.site import LightSite
from lab.stage import Stage, Teller

# Played in every run: the two promises that people choose mirrors for.
ALWAYS = ("mirror_primary_dies", "mirror_migrate")
# Too long for a run of all tests: a machine boots or daemons start in their middle, or there are many repetitions.
BY_HAND = ("mirror_migrate_often", "mirror_link_cut_often", "mirror_secondary_dies", "mirror_both_die")
# All stories that begin like this, too.
BY_HAND_PREFIXES = ("group_", "interrupted_", "nested_")
# Of machines that become a cluster: played on light machines.  In virtual ones, and by the README's own commands, they are
# told by hand: gnt-cluster init and gnt-node add take a minute each there.
ON_SITE = "setup_a_cluster"

Installed = Callable[[Path], Path]
Need = Callable[[int], None]


@pytest.fixture(name="install", scope="module")
def _Install(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """This tree, installed once for all machines; they only read it."""
    folder = tmp_path_factory.mktemp("lab") / "installed"
    return lambda _: folder if folder.exists() else InstallAll(folder)


def _Commit() -> int:
    """Return the number of the commit, so that even a fixed seed does not always tell the same stories."""
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=TOP, capture_output=True, text=True, check=False)
    return int(found.stdout, 16) if found.returncode == 0 else 0


@pytest.mark.lab
@pytest.mark.limit(2400)
def test_stories(tmp_path: Path, seed: int, install: Installed, need: Need) -> None:
    need(2)
    known = {name: story for name, story in stories.All().items() if stories.NodesFor(story) == 2}
    short = [name for name in known if name not in (*ALWAYS, *BY_HAND) and not name.startswith(BY_HAND_PREFIXES)]
    mirrors, others = (
        [name for name in sorted(short) if name.startswith("mirror_") == mirrored] for mirrored in (True, False)
    )
    choose = random.Random(seed ^ _Commit())
    sample = choose.choice(mirrors), choose.choice(others)
    with LabCluster(tmp_path, 2, _Say, install) as cluster:
        stage = Stage(cluster, seed, _Say)
        for name in (*ALWAYS, *sample):
            stage.Begin(name)
            known[name](stage)


@pytest.mark.limit(900)
def test_three_machines_become_a_cluster_over_ssh(tmp_path: Path, seed: int, install: Installed, need: Need) -> None:
    # Root, programs and packages; no memory to speak of.
    need(0)
    with LightSite(tmp_path, 3, _Say, install) as site:
        teller = Teller(site, seed, _Say)
        teller.Begin(ON_SITE)
        stories.All()[ON_SITE](teller)


def test_the_commands_are_those_of_the_readme() -> None:
    commands = Commands().splitlines()
    assert commands[0].startswith("apt-get install ") and commands[-2:] == ["make", "make install"]


def test_what_is_lacking_is_named() -> None:
    assert re.search("memory|root|missing", Lack(100000))


def _Say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
