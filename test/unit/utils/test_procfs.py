"""Files of /proc with names that users choose."""

from __future__ import annotations

import subprocess

from ganeti.utils import procfs


def test_the_name_of_a_process_may_be_any_bytes() -> None:
    named = r"printf '\377x' > /proc/$$/comm; echo; read line"
    with subprocess.Popen(["sh", "-c", named], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        lines = procfs.Lines(procfs.ReadText(f"/proc/{process.pid}/status", 65536))
        process.stdin.close()
    assert lines[0] == "Name:\t\udcffx"
    assert any(line.startswith("Uid:") for line in lines)


def test_only_a_line_feed_ends_a_line() -> None:
    assert procfs.Lines("a\rb\x0b\u2028c\nd\n") == ["a\rb\x0b\u2028c", "d"]
    assert procfs.Lines("") == [] and procfs.Lines("a") == ["a"]
