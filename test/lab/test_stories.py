"""A seeded sample of the laboratory's stories on two nodes; ``test/lab/run --all`` runs all of them."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from lab import stories
from lab.cluster import LabCluster
from lab.files import Lack
from lab.stage import Stage

# Told in every run: without these the rest says little.
ALWAYS = ("plain_grow",)
SAMPLE = 4


@pytest.mark.lab
@pytest.mark.limit(2400)
def test_stories(tmp_path: Path, seed: int) -> None:
    known = {name: story for name, story in stories.All().items() if stories.NodesFor(story) == 2}
    others = random.Random(seed).sample(sorted(set(known) - set(ALWAYS)), SAMPLE)
    if lack := Lack(2):
        pytest.skip(f"the laboratory cannot run here: {lack}")
    with LabCluster(tmp_path, 2, _Say) as cluster:
        stage = Stage(cluster, seed, _Say)
        for name in (*ALWAYS, *others):
            _Say(name)
            known[name](stage)


def _Say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
