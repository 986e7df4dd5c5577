"""What a machine says while it is made ready to become a node."""

from __future__ import annotations

import pathlib

import pytest

from ganeti import errors
from ganeti.bootstrap import join

_SSH = """#!/bin/sh
cat >/dev/null
printf '\\033]0;owned\\007\\033[2J\\033[1;1HNode added.\\r\\n'
printf '\\033P$q"p\\033\\\\' >&2
exit 1
"""


def test_its_words_do_not_steer_the_terminal(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ssh").write_text(_SSH)
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    shown: list[str] = []
    machine = join.Machine("node9.example.com", 22)
    with pytest.raises(errors.OpPrereqError, match="exit code 1, the reason is above"):
        join._AtTerminal(machine, "/usr/lib/ganeti/prepare-node-join", {"a": 1}, shown.append)
    assert shown == ["\\x1b]0;owned\\x07\\x1b[2J\\x1b[1;1HNode added.", '\\x1bP$q"p\\x1b\\']
    assert capfd.readouterr() == ("", "")
