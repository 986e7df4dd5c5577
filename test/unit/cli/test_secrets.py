"""What another user of the machine can see of secret OS parameters, and how they are given without being seen."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.virtualnode import VirtualNode

from ganeti import errors
from ganeti.cli import secrets

_COMMAND = "import sys; from ganeti.cli.main import Main; sys.argv[0] = 'gnt-instance'; sys.exit(Main())"


def _Parse(text: str) -> dict[str, str]:
    return secrets.ParseKeyVal("--os-parameters-secret", text)


def test_a_file_has_a_pair_on_each_line(tmp_path: Path) -> None:
    path = tmp_path / "secrets"
    path.write_text("password=a,b=c \n\n key =\nunicode=ü\n")
    assert _Parse(f"@{path}") == {"password": "a,b=c ", "key": "", "unicode": "ü"}
    assert _Parse("a=1,b=2") == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    "content", [b"hunter2\n", b"=hunter2\n", b"a=1\na=hunter2\n", b"a=\xffhunter2", b"x" * 2_000_000]
)
def test_a_wrong_file_is_explained_without_its_content(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "secrets"
    path.write_bytes(content)
    with pytest.raises(errors.ParameterError) as caught:
        _Parse(f"@{path}")
    assert "hunter2" not in str(caught.value) and "--os-parameters-secret" in str(caught.value)
    with pytest.raises(errors.ParameterError, match="No such file"):
        _Parse(f"@{path}.gone")


def test_other_users_do_not_see_secrets_in_the_process_list(tmp_path: Path) -> None:
    node = VirtualNode(str(tmp_path))
    words = [
        "reinstall", "--os-parameters-private=key=hunter1", "--os-parameters-private", "key=hunter2",
        "--os-parameters-secret=key=hunter3", "--os-parameters-secret=@-", "web.example.com",
    ]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-c", _COMMAND, *words],
        env=node.Environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        # It waits for its standard input, as another command waits for its job.
        cmdline = Path(f"/proc/{process.pid}/cmdline")
        deadline = time.monotonic() + 30
        while b"hunter" in (seen := cmdline.read_bytes()) or not seen:
            assert time.monotonic() < deadline and process.poll() is None, seen
            time.sleep(0.01)
        assert [word for word in seen.decode().split("\0") if word][-6:] == [
            "--os-parameters-private=" + "*".ljust(11),
            "--os-parameters-private",
            "*".ljust(11),
            "--os-parameters-secret=" + "*".ljust(11),
            "--os-parameters-secret=@-",
            "web.example.com",
        ]
        _, said = process.communicate(b"key=hunter4\n", timeout=30)
        assert b"hunter" not in said and process.returncode == 1
    finally:
        process.kill()
        process.wait()
