"""Files of every release with one thing broken: one error that names it, or a file that can be used."""

from __future__ import annotations

import copy
import json
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import oldconfigs
from support.virtualnode import VirtualNode

from ganeti import configfile, errors, upgrade, x509

RUBBISH: tuple[Any, ...] = ("rubbish", 17, -1.5, None, [], {}, [None], {"x": None}, True)
Place = tuple[Any, ...]


def Places(value: Any, before: Place = ()) -> Iterator[Place]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*before, key)
        yield from Places(item, (*before, key))


def Broken(data: dict[str, Any], place: Place, rubbish: Any) -> dict[str, Any]:
    broken: Any = copy.deepcopy(data)
    parent = broken
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = copy.deepcopy(rubbish)
    return broken  # type: ignore[no-any-return]


@pytest.mark.parametrize("release", oldconfigs.RELEASES)
def test_one_broken_thing_is_named(release: str) -> None:
    rng = random.Random(os.environ.get("SEED", "1") + release)
    data = oldconfigs.Aged(release)
    rejected = 0
    for place in list(Places(data)):
        rubbish = rng.choice(RUBBISH)
        try:
            root = configfile.LoadDict(upgrade.UpgradeConfig(Broken(data, place, rubbish)))
        except errors.ConfigurationError as err:
            rejected += 1
            text = str(err)
            names = [str(key) for key in place if isinstance(key, str)][-2:]
            if len(place) > 1 and isinstance(place[-1], int) and isinstance(place[-2], str):
                names.append(f"{place[-2].removesuffix('s')} {place[-1]}")  # such as "disk 0" for ("disks", 0)
            assert "\n" not in text
            assert len(text) < 300
            assert place == ("version",) or any(name in text for name in names), (place, rubbish, text)
            continue
        # What a reader accepts, the checks can look at.
        configfile.VerifyConfig(root)
    assert rejected > len(data)


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
    tmp_path: Path, release: str, place: Place, rubbish: Any, said: str
) -> None:
    data = oldconfigs.Aged(release)
    place = tuple(_First(data, place, index) if key == "*" else key for index, key in enumerate(place))
    node = VirtualNode(str(tmp_path), "node1.example.org")
    text = json.dumps(Broken(data, place, rubbish))
    node.Write("/var/lib/ganeti/config.data", text, 0o640)
    node.Write("/var/lib/ganeti/server.pem", x509.MakeServerPem(), 0o400)
    node.Write("/var/lib/ganeti/known_hosts", "")
    node.Write("/var/lib/ganeti/ssconf_master_node", "node1.example.org\n")
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
