"""fmtjson as a program."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support.virtualnode import TOP

STARTER = "import sys; from ganeti.tools.fmtjson import Main; sys.argv[0] = 'fmtjson'; sys.exit(Main())"


def _Run(data: bytes, *argv: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", STARTER, *argv], input=data, env={**os.environ, "PYTHONPATH": TOP}, capture_output=True,
        timeout=60,
    )  # fmt: skip


def test_keys_are_sorted_at_every_depth_and_values_stay() -> None:
    done = _Run('{"b": [{"z": 1.0, "a": null}], "a": {"c": 12345678901234567890, "B": "\u00e4"}}'.encode())
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == (
        '{\n  "a": {\n    "B": "\\u00e4",\n    "c": 12345678901234567890\n  },\n  "b": [\n    {\n      "a": null,\n'
        '      "z": 1.0\n    }\n  ]\n}\n'
    )
    assert _Run(done.stdout).stdout == done.stdout


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"{} {}", b"nan", b"1e999", b'"\xff"', b"[" * 100_000, b'{"a": 1' + b"0" * 10_000_000, b"\0" * 100],
    ids=["empty", "open", "two", "nan", "infinite", "bytes", "deep", "digits", "zeros"],
)
def test_what_is_no_json_is_named(data: bytes) -> None:
    done = _Run(data)
    assert done.returncode == 1 and done.stdout == b""
    assert done.stderr.startswith(b"Standard input is not JSON") and b"Traceback" not in done.stderr
    assert len(done.stderr) < 500


def test_arguments_are_a_mistake() -> None:
    done = _Run(b"{}", "file.json")
    assert done.returncode == 1 and done.stdout == b"" and done.stderr.startswith(b"Usage: fmtjson < FILE")


def test_a_reader_that_has_left_is_no_failure() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-c", STARTER], input=b"[1]", stdout=writer, stderr=subprocess.PIPE, timeout=60,
            env={**os.environ, "PYTHONPATH": TOP},
        )  # fmt: skip
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
