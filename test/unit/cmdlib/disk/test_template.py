"""A new disk template is a name, an object and a driver: nothing else has to know of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from support.virtualnode import TOP

from ganeti.params import disk

# Where templates may be told apart by name: their objects, their drivers, and the layout of config.data, of old releases too.
_ALLOWED = (
    "constants.py",
    "params/",
    "storage/",
    "objects/",
    "configfile/load.py",
    "bootstrap/settings.py",
    "upgrade/",
    "cli/grammar.py",
)


def test_a_made_up_template_lives_through_everything() -> None:
    """The story runs in a process of its own, in which the template was there from the start."""
    story = os.path.join(os.path.dirname(__file__), "tape_story.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "support.tape", "-p", "no:cacheprovider", story],
        env={**os.environ, "PYTHONPATH": os.path.join(TOP, "test")},
        cwd=TOP,
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr


def test_nobody_else_tells_templates_apart_by_name() -> None:
    found = []
    for folder, _, names in os.walk(os.path.join(TOP, "lib")):
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), os.path.join(TOP, "lib"))
            if name.endswith(".py") and not path.startswith(_ALLOWED):
                with open(os.path.join(folder, name), encoding="utf-8") as stream:
                    text = stream.read()
                found += [f"{path}: {known}" for known in re.findall(r"\bDT_[A-Z0-9_]+", text)]
    # "diskless" is what an instance without disks has in tables and messages, "mixed" one with disks of several templates.
    assert {line for line in found if not line.endswith(": DT_MIXED")} == {
        "cmdlib/disk/generate.py: DT_DISKLESS",
        "htools/model/entities.py: DT_DISKLESS",
    }


def test_templates_say_what_can_be_done_with_them() -> None:
    assert disk.With(has_disks=False) == {"diskless"}
    assert disk.With(first=False) == {"diskless", "drbd"}
    assert disk.With(disk_state=True) == {"plain"}
