"""Every example of doc/rapi-scripts.rst, and the first steps of doc/rapi.rst, run in the order of the pages."""

from __future__ import annotations

import os
import re
import shlex
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from support.realcluster import InterruptDelay, RealCluster, WaitUntil
from support.stories import STARTER
from support.virtualnode import TOP

from ganeti import opcodes
from ganeti.rapi.client import GanetiRapiClient

PAGE = Path(TOP, "doc", "rapi-scripts.rst")
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
    program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-c", STARTER, "gnt-cluster"])} "$@"\n')
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
    _CheckWaits(cluster, blocks, tmp_path)


def _CheckWaits(cluster: RealCluster, blocks: list[Block], folder: Path) -> None:
    """A job that has to wait itself is waited for with a request for each of its few statuses, not again and again."""
    delay = opcodes.OpTestDelay(duration=0.1, on_master=True, on_nodes=[], repeat=0).ToDict()
    with cluster[0].Client() as client:
        first = client.SubmitJob([{**delay, "duration": 600.0, "interruptible": True}])
        job = client.SubmitJob([{**delay, "depends": [[first, ["success"]]]}])
    used = [
        block for block in blocks if block.kind == "sh" and ("rapi() {" in block.text or "finish() {" in block.text)
    ]
    script = f"cd {shlex.quote(str(folder))}\njob={job}\n{_Script(used, cluster)}"

    def waits() -> int:
        return cluster[0].Read("/var/log/ganeti/rapi-access.log").count(f'"GET /2/jobs/{job}/wait ')

    with ThreadPoolExecutor() as pool:
        running = pool.submit(cluster[0].Run, ["bash", "-c", script])
        try:
            # Whoever knows no status yet is told the one of now.
            WaitUntil(lambda: waits() or running.done(), "the first answer")
        finally:
            with cluster[0].Client() as client:
                InterruptDelay(client, first)
        done = running.result()
    assert done.returncode == 0, done.stderr
    # A request is noted when it has been answered.
    WaitUntil(lambda: waits() >= 2, "the answers after that")
    assert waits() <= 4


@pytest.mark.limit(120)
def test_nothing_is_changed_if_the_version_could_not_be_read(cluster: RealCluster, tmp_path: Path) -> None:
    """curl leaves out a header without a value, so the recipe itself must not send its request then."""
    blocks = Blocks()
    first, finish, recipe = (_With(blocks, text) for text in ("rapi()", "finish()", "If-Match"))
    steps = [block for block in blocks[: blocks.index(first) + 1] if block.kind == "sh"]
    steps.append(Block("sh", finish.text.partition("\n}\n")[0] + "\n}\n"))
    reading = "etag=$(curl -K rapi.conf "
    assert recipe.text.count(reading) == 1
    steps.append(Block("sh", recipe.text.replace(reading, reading + "--user jack:wrong ")))
    # Whoever copies the recipe may not have said 'set -e'.
    script = f"cd {shlex.quote(str(tmp_path))}\n" + _Script(steps, cluster).replace("set -eu\n", "", 1)
    with cluster[0].Client() as client:
        before = len(client.QueryJobs(None, ["id"]))
        done = cluster[0].Run(["bash", "-c", script], timeout=100)
        assert (bool(done.returncode), "somebody was faster" in done.stdout) == (True, False)
        assert "no version was read" in done.stderr
        assert len(client.QueryJobs(None, ["id"])) == before


def _With(blocks: list[Block], text: str) -> Block:
    return next(block for block in blocks if text in block.text)


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


# --- the reference page alone ---------------------------------------------------------------------------------------------

# Runs the page's curl; where that prints the number of a job, follows the job as the page says.
_FOLLOW = """
follow() {
  answer=$(curl --fail-with-body --show-error -K rapi.conf "$@") || { echo "$answer"; exit 1; }
  case $answer in *[!0-9]*) echo "$answer"; return;; esac
  while true; do
    job=$(curl --fail-with-body -K rapi.conf "$U/2/jobs/$answer")
    case $job in
      *'"status": "success"'*|*'"status":"success"'*) echo "job success"; return;;
      *'"status": "error"'*|*'"status":"error"'*) echo "$job"; exit 1;;
    esac
    sleep 0.2
  done
}
R=follow
"""


def _FirstSteps(cluster: RealCluster) -> str:
    """The commands of doc/rapi.rst with the names of this cluster; what they print left out."""
    text = (
        Path(TOP, "doc", "rapi.rst").read_text("utf-8").partition("\nFirst steps\n")[2].partition("\nRules for all")[0]
    )
    lines = [line[3:] for line in text.splitlines() if line.startswith("   ")]
    assert lines.count("4711") == 1
    lines.remove("4711")
    begin = next(number for number, line in enumerate(lines) if line.startswith("U="))
    lines.insert(begin + 1, _FOLLOW)
    script = "\n".join(lines)
    for shown, own in (
        ("/2/jobs/4711", "/2/jobs/1"),
        ("jack:secret", "jack:correct-horse-battery"),
        ("[{}]", '[{"mode": "routed", "link": "main", "ip": "192.0.2.10"}]'),  # this machine has no bridge
        ("debian+minimal", "debootstrap+default"),
        ("cluster.example.com", cluster[0].address),
        ("/var/lib/ganeti", cluster[0].Path("/var/lib/ganeti")),
    ):
        assert shown in script
        script = script.replace(shown, own)
    return f"set -eu\n{script}\n"


@pytest.mark.limit(240)
def test_the_reference_alone_leads_from_creation_to_removal(cluster: RealCluster, tmp_path: Path) -> None:
    with cluster[0].Client() as client:
        before = len(client.QueryJobs(None, ["id"]))
    done = cluster[0].Run(["bash", "-c", f"cd {shlex.quote(str(tmp_path))}\n{_FirstSteps(cluster)}"], timeout=230)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stdout.count("job success\n") == 5, done.stdout
    assert '"web1.example.com"' in done.stdout
    with cluster[0].Client() as client:
        jobs = client.QueryJobs(None, ["summary", "status"])[before:]
        assert client.QueryInstances([], ["name"]) == []
    assert [[summary[0], status] for summary, status in jobs] == [
        ["INSTANCE_CREATE(web1.example.com)", "success"],
        ["TAGS_SET", "success"],
        ["INSTANCE_MIGRATE(web1.example.com)", "success"],
        ["INSTANCE_SHUTDOWN(web1.example.com)", "success"],
        ["INSTANCE_REMOVE(web1.example.com)", "success"],
    ]
