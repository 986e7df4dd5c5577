"""The worked cases of htools: runs a case's commands and compares what they print and write (test/data/htools-cases/index.md)."""

from __future__ import annotations

import difflib
import io
import json
import os
import pathlib
import re
import shlex
import shutil
from typing import Any

from ganeti.tools.htools import main
from ganeti.tools.htools.output import Streams

CASES = pathlib.Path(__file__).parents[1] / "data" / "htools-cases"
MANIFEST: dict[str, dict[str, Any]] = {
    case["case"]: case for case in json.loads((CASES / "manifest.json").read_text(encoding="utf-8"))
}
_FREE_FORM = "<free form>"


def Programs(case: str) -> set[str]:
    """Return the programs that a case runs."""
    return {shlex.split(step["command"])[0] for step in MANIFEST[case]["steps"]}


def _Same(wanted: str, got: str) -> bool:
    if _FREE_FORM not in wanted:
        return wanted == got
    return re.fullmatch(".*".join(map(re.escape, wanted.split(_FREE_FORM))), got) is not None


def Differences(wanted: str, got: str) -> str:
    """Return a diff, "" if the texts agree where they are not free."""
    wanted_lines, got_lines = wanted.splitlines(), got.splitlines()
    if len(wanted_lines) == len(got_lines) and all(map(_Same, wanted_lines, got_lines)):
        return ""
    return "\n".join(difflib.unified_diff(wanted_lines, got_lines, "wanted", "got", lineterm=""))


def RunCase(case: str, work: pathlib.Path) -> list[str]:
    """Run all commands of a case in a copy of its files; return what differs."""
    source = CASES / case
    facts = MANIFEST[case]
    for name in facts["inputs"]:
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / name, work / name)
    previous = os.getcwd()
    os.chdir(work)
    try:
        found = [line for step in facts["steps"] for line in _RunStep(source, step)]
    finally:
        os.chdir(previous)
    for name in facts["writes"]:
        wanted = source / name.replace(":", "_")  # make cannot have names with a colon
        if not wanted.exists():
            continue  # a script, whose form is free
        got = (work / name).read_text(encoding="utf-8") if (work / name).exists() else "(not written)"
        difference = Differences(wanted.read_text(encoding="utf-8"), got)
        if difference:
            found.append(f"{name}:\n{difference}")
    return found


def _RunStep(source: pathlib.Path, step: dict[str, Any]) -> list[str]:
    out, err = io.StringIO(), io.StringIO()
    program, *words = shlex.split(step["command"])
    write = lambda path, content: pathlib.Path(path).write_text(content, encoding="utf-8")  # noqa: E731
    code = main.Run(program, words, Streams(out, err, write))
    found = []
    if code != step["exit"]:
        found.append(f"{step['command']}: exit status {code}, wanted {step['exit']}\n{err.getvalue()}")
    for stream, name in ((out, step["stdout"]), (err, step["stderr"])):
        wanted = (source / name).read_text(encoding="utf-8") if name else ""
        difference = Differences(wanted, stream.getvalue())
        if difference:
            found.append(f"{step['command']}:\n{difference}")
    return found
