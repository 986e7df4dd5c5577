"""What the commands say and submit, story by story (test/golden/cli)."""

import difflib
import os

import pytest
from support.stories import GOLDEN, Story

DIRECTORY = os.path.join(GOLDEN, "cli")
STORIES = sorted(name.removesuffix(".story") for name in os.listdir(DIRECTORY) if name.endswith(".story"))


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_story(name, tmp_path, request):
    path = os.path.join(DIRECTORY, f"{name}.story")
    with open(path, encoding="utf-8") as stream:
        wanted = stream.read()
    story = Story(str(tmp_path))
    try:
        said = story.Play(wanted)
    finally:
        story.Close()
    if request.config.getoption("--regenerate-golden"):
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(said)
    elif said != wanted:
        pytest.fail(
            "".join(difflib.unified_diff(wanted.splitlines(True), said.splitlines(True), "golden", "now")),
            pytrace=False,
        )
