"""Every example of doc/rapi-scripts.rst, run in the order of the page against a real cluster."""

from __future__ import annotations

import os
import re
import shlex
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from support.realcluster import RealCluster
from support.virtualnode import TOP

from ganeti.rapi.client import GanetiRapiClient

PAGE = Path(TOP, "doc", "rapi-scripts.rst")
_STARTER = "import sys\nfrom ganeti.cli.main import Main\nsys.argv[0] = sys.argv.pop(1)\nsys.exit(Main())"
_BLOCK = re.compile(
    r"^\.\. code-block:: (?P<kind>\w+)\n(?:   :(?P<option>\w+): (?P<value>\w+)\n)?\n(?P<text>(?:   .*\n|\n)+)",
    re.MULTILINE,
)


class Block(NamedTuple):
    """One example: ``sh``, ``python``, ``output`` or the name of another one."""

    kind: str
    text: str


def Blocks() -> list[Block]:
    found = [
        Block(match["value"] or match["kind"], textwrap.dedent(match["text"]).strip() + "\n")
        for match in _BLOCK.finditer(PAGE.read_text("utf-8") + "\n")
    ]
    assert len(found) == PAGE.read_text("utf-8").count(".. code-block::")
    return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    users = next(block.text for block in Blocks() if block.kind == "users")
    with RealCluster(3) as made:
        made.StartWithRapi(name="debootstrap", users=users)
        _UseSharedStorage(made)
        yield made


def _UseSharedStorage(cluster: RealCluster) -> None:
    shared = os.path.join(cluster.files, "shared")
    os.makedirs(shared)
    templates = ["diskless", "file", "sharedfile"]
    client = GanetiRapiClient(cluster[0].address, username="jack", password="correct-horse-battery")
    job = client.ModifyCluster(
        enabled_disk_templates=templates, shared_file_storage_dir=shared, ipolicy={"disk-templates": templates}
    )
    assert client.WaitForJobCompletion(job, period=0.2)


def _Script(blocks: list[Block], cluster: RealCluster) -> str:
    """The whole page as one shell script; what it prints between two marks belongs to one example."""
    master = cluster[0]
    lines = ["set -eu", "fail() { echo 'an example failed' >&2; }", "trap fail ERR"]
    for block in blocks:
        if block.kind == "sh":
            lines.append(block.text)
        elif block.kind == "python":
            lines.append(f"{shlex.quote(sys.executable)} - <<'END_OF_EXAMPLE'\n{block.text}END_OF_EXAMPLE")
        elif block.kind == "output":
            lines.append("echo ===")
    text = "\n".join(lines) + "\n"
    return text.replace("cluster.example.com", master.address).replace(
        "/var/lib/ganeti", master.Path("/var/lib/ganeti")
    )


def _Programs(folder: Path) -> str:
    """A directory with the commands that the page uses on the master node."""
    folder.mkdir()
    program = folder / "gnt-cluster"
    program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-c", _STARTER, "gnt-cluster"])} "$@"\n')
    program.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.limit(240)
def test_every_example_works(cluster: RealCluster, tmp_path: Path) -> None:
    blocks = Blocks()
    assert {block.kind for block in blocks} == {"sh", "python", "output", "users"}
    path = _Programs(tmp_path / "bin")
    script = f"cd {shlex.quote(str(tmp_path))}\n" + _Script(blocks, cluster)
    done = cluster[0].Run(["bash", "-c", script], timeout=230, PATH=path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    printed = done.stdout.split("===\n")
    expected = [block.text for block in blocks if block.kind == "output"]
    assert len(printed) == len(expected) + 1
    for text, shown in zip(expected, printed, strict=False):
        assert shown.endswith(text), f"{text!r} is not what the example printed: {shown!r}"
    _CheckJobs(cluster)


def _CheckJobs(cluster: RealCluster) -> None:
    """What the page says it does was done, and failed only where it says so."""
    with cluster[0].Client() as client:
        jobs = client.QueryJobs(None, ["summary", "status"])
    done = [summary[0] for summary, status in jobs if status == "success"]
    web = "web1.example.com"
    for summary in (
        f"INSTANCE_CREATE({web})",
        f"INSTANCE_MIGRATE({web})",
        "TAGS_SET",
        f"INSTANCE_REMOVE({web})",
    ):
        assert summary in done
    assert [summary for summary, status in jobs if status != "success"] == [["INSTANCE_STARTUP(nobody.example.com)"]]
