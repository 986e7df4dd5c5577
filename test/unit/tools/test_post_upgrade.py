"""post-upgrade: what is run for which release."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from support.virtualnode import VirtualNode

NODES = "renew-crypto --new-node-certificates -f -d"
KEYS = "renew-crypto --new-ssh-keys --no-ssh-key-check -f -d"


def Run(tmp_path: Path, *words: str, code: int = 0) -> tuple[int, list[str], str]:
    """Exit code, the command lines of a stand-in for gnt-cluster that ends with ``code``, and what was said."""
    node = VirtualNode(str(tmp_path))
    node.Write("/sbin/gnt-cluster", f'#!/bin/sh\necho "$*" >> {node.root}/called\nexit {code}\n', 0o755)
    main = (
        f"import sys; from ganeti import pathutils; pathutils.SBIN_DIR = {node.Path('/sbin')!r}\n"
        "from ganeti.tools.post_upgrade import Main; sys.exit(Main())"
    )
    done = node.Run([sys.executable, "-c", main, *words])
    called = node.Read("/called").splitlines() if os.path.exists(node.Path("/called")) else []
    return done.returncode, called, done.stderr


@pytest.mark.parametrize(
    ("old", "commands"),
    [
        ("2.10.3", [NODES, KEYS]),
        ("2.12.4", [NODES, KEYS]),
        ("2.12.5", [KEYS]),
        ("2.13.0~rc1", []),
        ("2.13.0", []),
        ("3.1", []),
    ],
)
def test_what_an_old_release_lacked_is_made(tmp_path: Path, old: str, commands: list[str]) -> None:
    assert Run(tmp_path, old)[:2] == (0, commands)


def test_both_are_tried_and_a_failure_is_the_exit_code(tmp_path: Path) -> None:
    code, called, said = Run(tmp_path, "2.11.0", code=3)
    assert (code, called) == (1, [NODES, KEYS])
    assert f"'gnt-cluster {NODES}' failed: " in said and f"'gnt-cluster {KEYS}' failed: " in said
    assert said.endswith("/tools/post-upgrade 2.11.0' again\n")


def test_wrong_arguments(tmp_path: Path) -> None:
    assert Run(tmp_path)[0] == 1
    code, _, said = Run(tmp_path, "2.12", "2.13")
    assert code == 1
    assert "precisely one argument" in said
    assert "not the version of a release" in Run(tmp_path, "last")[2]
