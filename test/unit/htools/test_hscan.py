"""hscan: clusters that can be read become files, the others are named (doc/reference/htools.md 20)."""

from __future__ import annotations

import io
import pathlib

from support import htoolscases

from ganeti.tools.htools import main
from ganeti.tools.htools.output import Streams

_FILES = htoolscases.CASES / "05-rapi-files"


def _Scan(*words: str) -> tuple[int, list[str], str, dict[str, str]]:
    out, err, written = io.StringIO(), io.StringIO(), {}
    code = main.Run("hscan", words, Streams(out, err, written.__setitem__))
    return code, out.getvalue().splitlines(), err.getvalue(), written


def test_one_cluster_that_cannot_be_read_does_not_hide_the_others(tmp_path: pathlib.Path) -> None:
    good, bad = f"file://{_FILES}/rapi", f"file://{tmp_path}"
    code, out, err, written = _Scan("-d", "/there", bad, good)
    assert code == 2
    header, line = out
    assert header.split()[:3] == ["Name", "Nodes", "Inst"] and header.endswith("     Score")
    assert line.startswith(good.ljust(max(len(good), len(bad))) + " ")
    assert err.startswith(f"\nError for {bad}: failed to load data. Details:\n") and "groups.json" in err
    assert list(written) == [f"/there/{good.replace('/', '_')}.data"]


def test_headers_can_be_left_out_and_nodes_be_listed() -> None:
    source = f"file://{_FILES}/rapi"
    code, (line,), err, written = _Scan("--no-headers", source)
    assert (code, err, list(written)) == (0, "", [f"./{source.replace('/', '_')}.data"])
    _, listed, _, _ = _Scan("--no-headers", "-pname,pcnt", source)
    assert listed[0] == line and listed[1].split() == ["Name", "pcnt"]
    assert len(listed) == 2 + int(line.split()[1])
    _, saved, _, _ = _Scan(source)
    assert saved[1] == line
