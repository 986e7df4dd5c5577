"""Files of every release with one thing broken: one error that names it, or a file that can be used."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from support import oldconfigs
from support.brokenconfigs import At, Broken, Named, Place, Places, Ways
from support.virtualnode import VirtualNode

from ganeti import configfile, errors, objects, upgrade, x509


@pytest.mark.parametrize("release", oldconfigs.RELEASES)
def test_one_broken_thing_is_named(release: str) -> None:
    """Every place of the file, broken in one of its ways; the seed says in which."""
    rng = random.Random(os.environ.get("SEED", "1") + release)
    data = oldconfigs.Aged(release)
    rejected = 0
    for place in list(Places(data)):
        way, rubbish = rng.choice(list(Ways(At(data, place))))
        try:
            root = configfile.LoadDict(upgrade.UpgradeConfig(Broken(data, place, rubbish)))
        except errors.ConfigurationError as err:
            rejected += 1
            text = str(err)
            assert "\n" not in text
            assert len(text) < 300 or place == ("version",)
            assert Named(place, text), (place, way, text)
            continue
        # What a reader accepts, the checks can look at, and daemons can store and read again.
        configfile.VerifyConfig(root)
        assert configfile.LoadConfig(objects.ConfigText(root)) == root
    assert rejected > len(data)


# Runs the program once for each case, as the node; prints what it said and whether anything changed.
EACH = """
import contextlib, io, json, os, sys
from ganeti.tools import cfgupgrade
folder = os.environ["GANETI_ROOTDIR"] + "/var/lib/ganeti"
def found():
    return {name: open(f"{folder}/{name}", "rb").read() for name in os.listdir(folder)
            if os.path.isfile(f"{folder}/{name}")}
for line in sys.stdin:
    with open(folder + "/config.data", "w") as stream:
        stream.write(line)
    before = found()
    said = io.StringIO()
    sys.argv[1:] = ["--force"]
    with contextlib.redirect_stderr(said):
        code = cfgupgrade.Main()
    print(json.dumps([code, said.getvalue(), found() == before]))
    for name in os.listdir(folder):
        if ".backup-" in name:
            os.unlink(f"{folder}/{name}")
"""
SAMPLE = 5


@pytest.fixture
def node(tmp_path: Path) -> VirtualNode:
    node = VirtualNode(str(tmp_path), "node1.example.org")
    node.Write("/var/lib/ganeti/config.data", "", 0o640)
    node.Write("/var/lib/ganeti/server.pem", x509.MakeServerPem(), 0o400)
    node.Write("/var/lib/ganeti/known_hosts", "")
    for name in ("rapi.pem", "spice.pem", "spice-ca.pem", "hmac.key", "cluster-domain-secret"):
        node.Write(f"/var/lib/ganeti/{name}", f"own {name}\n")  # so that none is made, which takes long
    node.Write("/var/lib/ganeti/ssconf_master_node", "node1.example.org\n")
    return node


@pytest.mark.limit(200)
@pytest.mark.parametrize("release", oldconfigs.RELEASES)
def test_cfgupgrade_names_any_broken_field_in_one_line_and_writes_nothing(node: VirtualNode, release: str) -> None:
    """Or it accepts what is there, and says what it thinks of it in short lines; SAMPLE cases of each seed."""
    data = oldconfigs.Aged(release)
    cases = [(place, way, rubbish) for place in Places(data) for way, rubbish in Ways(At(data, place))]
    rng = random.Random(os.environ.get("SEED", "1") + release)
    chosen = rng.sample(cases, int(os.environ.get("BROKEN_CONFIGS", SAMPLE)))
    done = node.Python(
        EACH,
        stdin="".join(json.dumps(Broken(data, place, rubbish)) + "\n" for place, _, rubbish in chosen),
        timeout=150,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(chosen), done.stderr[-2000:]
    for (place, way, _), (code, said, unchanged) in zip(chosen, answers, strict=True):
        *lines, last = said.splitlines()
        what = (place, way, said)
        assert all(len(line) < 400 or line.startswith("The result") for line in lines), what
        if code == 0:
            assert all(line.startswith("Warning: ") for line in lines[:10] if "Warning" in line), what
            continue
        assert unchanged, what
        assert len(lines) == 1 and Named(place, lines[0]), what
        assert last.startswith(("correct that in config.data", "install the release", "make sure the file")), what


@pytest.mark.parametrize(
    ("release", "place", "rubbish", "said"),
    [
        ("2.0", ("cluster", "default_hypervisor"), 17, "key 'default_hypervisor' must be a text, found 17"),
        (
            "2.5",
            ("instances", "web.example.org", "admin_up"),
            "yes",
            "'web.example.org': key 'admin_up' must be true or false",
        ),
        ("2.8", ("nodes", "node1.example.org"), [], "key 'nodes', entry 'node1.example.org': expected an object"),
        (
            "2.8",
            ("nodes", "node1.example.org", "name"),
            "node7",
            "entry 'node1.example.org': key 'name' must be 'node1.example.org'",
        ),
        (
            "2.11",
            ("instances", "*", "disks", 0, "dev_type"),
            8,
            "'web.example.org': disk 0: key 'dev_type' must be a text, found 8",
        ),
        ("2.15", ("cluster", "hvparams", "lxc"), "x", 'key \'hvparams\' must be names with values, found {"lxc":"x"}'),
        ("3.0", ("cluster", "candidate_certs", "*"), 1, "key 'candidate_certs'"),
    ],
)
def test_cfgupgrade_says_what_to_do_and_writes_nothing(
    node: VirtualNode, release: str, place: Place, rubbish: Any, said: str
) -> None:
    data = oldconfigs.Aged(release)
    place = tuple(_First(data, place, index) if key == "*" else key for index, key in enumerate(place))
    text = json.dumps(Broken(data, place, rubbish))
    node.Write("/var/lib/ganeti/config.data", text, 0o640)
    before = set(os.listdir(node.Path("/var/lib/ganeti")))
    main = "import sys; from ganeti.tools.cfgupgrade import Main; sys.exit(Main())"
    done = node.Run([sys.executable, "-c", main, "--force"])
    assert done.returncode == 1
    assert said in done.stderr
    assert "take the file of another master candidate or of a backup" in done.stderr
    assert "Traceback" not in done.stderr
    assert node.Read("/var/lib/ganeti/config.data") == text
    assert set(os.listdir(node.Path("/var/lib/ganeti"))) == before


def _First(data: Any, place: Place, index: int) -> Any:
    for key in place[:index]:
        data = data[key]
    return next(iter(data))
