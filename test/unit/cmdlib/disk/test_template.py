"""A new disk template is a name, an object and a driver, a type of storage units likewise: nothing else has to know of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from support.virtual import MakeDisk
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


@pytest.mark.req("D21-STOR-02")
def test_a_made_up_template_lives_through_everything() -> None:
    """The story runs in a process of its own, in which the template and its units were there from the start."""
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
    assert done.returncode == 0 and "4 passed" in done.stdout, done.stdout + done.stderr


# Where places in an identity, or children, may be named: the objects of templates, their drivers, the layout of config.data,
# and that of 3.1 in what confd answers.
_PLACES_ALLOWED = ("objects/", "params/disk/", "storage/", "upgrade/", "confd/view.py")


def _Named(pattern: str, allowed: tuple[str, ...] = _ALLOWED) -> set[str]:
    """Return where in other files a pattern is found, and what."""
    found = []
    for folder, _, names in os.walk(os.path.join(TOP, "lib")):
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), os.path.join(TOP, "lib"))
            if name.endswith(".py") and not path.startswith(allowed):
                with open(os.path.join(folder, name), encoding="utf-8") as stream:
                    text = stream.read()
                found += [f"{path}: {known}" for known in re.findall(pattern, text)]
    return set(found)


def test_nobody_else_tells_templates_apart_by_name() -> None:
    # "diskless" is what an instance without disks has in tables and messages, "mixed" one with disks of several templates.
    assert {line for line in _Named(r"\bDT_[A-Z0-9_]+") if not line.endswith(": DT_MIXED")} == {
        "cmdlib/disk/generate.py: DT_DISKLESS",
        "htools/model/entities.py: DT_DISKLESS",
    }


def test_nobody_else_knows_what_stands_where_in_an_identity() -> None:
    # "first, *rest" of children only counts them; those with a name of their own are processes.
    identity, children = r"\blogical_id\b\"?\]?", r"\bchildren\b\"?\]?"
    unpacked = rf"(?:,|, *\*?\w+\)?|\*\w+) = [^=\n]*{identity}$|, *\w+\)? = [^=\n]*{children}$"
    pattern = rf"(?m){identity}\[|{children}\[[-\d:]|{unpacked}"
    wrong = "disk.logical_id[0]", 'disk["children"][1]', "one, two = disk.logical_id", "(one, two) = known.children"
    assert all(re.search(pattern, line) for line in wrong)
    assert _Named(pattern, _PLACES_ALLOWED) == set()


def test_nobody_else_tells_types_of_storage_units_apart_by_name() -> None:
    # The space of volume groups is looked at before a volume is made, and only volume groups are repaired without being asked.
    assert _Named(r'\bST_[A-Z]\w+|"lvm-(?:pv|vg)"') == {
        "cmdlib/disk/generate.py: ST_LVM_VG",
        "watcher/volumerepair.py: ST_LVM_VG",
    }


def test_templates_say_what_can_be_done_with_them() -> None:
    assert disk.With(has_disks=False) == {"diskless"}
    assert disk.With(first=False) == {"diskless", "drbd"}
    assert disk.With(disk_state=True) == {"plain"}


def test_how_people_remove_what_is_left() -> None:
    """The command can be pasted as it is; what is not ours is not to be removed."""
    volumes = [MakeDisk("plain", ["vg", f"one_{part}"]) for part in ("data", "meta")]
    mirror = MakeDisk("drbd", ["node-a", "node-b", 11000, 3, 4, "secret"], children=volumes)
    left = {
        "run 'lvremove vg/one_data' there if it exists": volumes[0],
        "run 'drbdsetup down resource4' and 'lvremove vg/one_data' and 'lvremove vg/one_meta' there if they exist": mirror,
        "run 'drbdsetup down resource4' there if it exists": mirror.Replace(children=[]),
        "run \"rm '/srv/a b/x'\" there if it exists": MakeDisk("file", ["loop", "/srv/a b/x"]),
        "remove ganeti/1234.0 from the Gluster volume if it is there": MakeDisk("gluster", ["loop", "ganeti/1234.0"]),
        "remove image one from its Ceph pool if it is there": MakeDisk("rbd", ["rbd", "one"]),
        "remove volume one of storage provider san if it is there": MakeDisk("ext", ["san", "one"]),
        "": MakeDisk("blockdev", ["manual", "/dev/sdb"]),
    }
    for text, found in left.items():
        assert disk.Of(found).Removal(found, "node-b") == text
