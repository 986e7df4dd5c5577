"""ganeti-listrunner with a stand-in for ssh, which runs what it is given on this machine."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.virtualnode import TOP

STARTER = "import sys; from ganeti.tools.listrunner import Main; sys.argv[0] = 'ganeti-listrunner'; sys.exit(Main())"

# Keeps its options, looks at the password as ssh would, and runs the command in a home of its own for each host.
SSH = """#!/bin/sh
for word; do command=$word; before=$host; host=$last; last=$word; done
host=$(echo "$*" | sed 's/.* -- \\([^ ]*\\) .*/\\1/')
echo "$*" | head -1 >> "$KEPT"
[ -z "$SSH_ASKPASS" ] || echo "password $("$SSH_ASKPASS" prompt) mode $(stat -c %a "${SSH_ASKPASS%/*}/password")" >> "$KEPT"
case "$host" in
  dark*) echo "Host key verification failed." >&2; exit 255 ;;
  meet*) echo begin >> "$KEPT.meeting"
    until [ "$(grep -c begin "$KEPT.meeting")" -ge "${MEMBERS}" ]; do sleep 0.05; done
    echo end >> "$KEPT.meeting" ;;
esac
mkdir -p "$PLACE/$host"
TMPDIR="$PLACE/$host" exec sh -c "$command"
"""


class Stage:
    """A directory with the stand-in; ``Run`` is the program."""

    def __init__(self, path: Path):
        self.path = path
        self.logs = path / "logs"
        self.kept = path / "kept"
        self.bin = path / "bin"
        self.bin.mkdir()
        (self.bin / "ssh").write_text(SSH)
        (self.bin / "ssh").chmod(0o755)
        (path / "tmp").mkdir()

    def Run(self, *argv: str, logs: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        env = {
            **os.environ, "PYTHONPATH": TOP, "PATH": f"{self.bin}:{os.environ['PATH']}", "KEPT": str(self.kept),
            "PLACE": str(self.path / "hosts"), "TMPDIR": str(self.path / "tmp"), **more,
        }  # fmt: skip
        env.pop("SSH_ASKPASS", None)
        words = ["-l", str(self.logs), *argv] if logs else list(argv)
        return subprocess.run(
            [sys.executable, "-c", STARTER, *words], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=120, start_new_session=True,
        )  # fmt: skip

    def Log(self, host: str) -> list[str]:
        """The log of a host without the times."""
        lines = (self.logs / f"{host}.log").read_text().splitlines()
        assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", line) for line in lines)
        return [line[20:] for line in lines]

    def Refused(self, code: int, words: str, *argv: str, **options: Any) -> None:
        done = self.Run(*argv, **options)
        assert done.returncode == code and words in done.stderr, done.stderr
        assert "Traceback" not in done.stderr and not self.kept.exists(), "nothing was run"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_a_command_runs_everywhere_and_each_host_has_a_log(stage: Stage) -> None:
    hosts = stage.path / "list"
    hosts.write_text("# ours\nbeta\n\nalpha\nbeta\ndark\n")
    done = stage.Run("-A", "-f", str(hosts), "-u", "admin", "-c", "echo hello; echo $((40+2)) >&2; exit 0")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "All done, 2 successful and 1 failed hosts"
    assert stage.Log("alpha") == ["output = hello", "output = 42", "SUCCESS: command executed successfully"]
    assert stage.Log("dark") == [
        "output = Host key verification failed.",
        "ERROR: FAILURE_SSH: no connection, or the login was rejected; the line before says why",
    ]
    assert stat.S_IMODE((stage.logs / "beta.log").stat().st_mode) == 0o600
    first = stage.kept.read_text().splitlines()[0]
    assert "-oStrictHostKeyChecking=yes" in first and "-oBatchMode=yes" in first and "-l admin -- " in first
    stage.Run("-A", "-h", "alpha", "-c", "printf '\\033[2J'; exit 7")
    assert stage.Log("alpha") == ["output = \\x1b[2J", "ERROR: FAILURE_COMMAND: exit code 7"]


def test_a_program_travels_with_its_files_and_leaves_nothing(stage: Stage) -> None:
    program, data = stage.path / "set up.sh", stage.path / "data"
    program.write_text('#!/bin/sh\npwd; stat -c "%a %n" . *; cat data; echo "[$1] [$2]"; cat\n')
    data.write_text("the data\n")
    done = stage.Run("-A", "-h", "alpha,beta", "-x", str(program), "-a", str(data), "--args", "'one word' two")
    assert done.stdout.endswith("All done, 2 successful and 0 failed hosts\n"), done.stdout + done.stderr
    where, *rest = stage.Log("alpha")
    assert rest == [
        "output = 700 .", "output = 400 data", "output = 500 set up.sh", "output = the data", "output = [one word] [two]",
        "SUCCESS: command executed successfully",
    ]  # fmt: skip
    assert where.startswith(f"output = {stage.path}/hosts/alpha/") and not os.path.exists(where.partition("= ")[2])


def test_the_password_is_in_no_command_line_and_gone_afterwards(stage: Stage) -> None:
    secret = stage.path / "password"
    secret.write_text("tell nobody\nsecond line\n")
    done = stage.Run("-p", str(secret), "-h", "alpha,dark", "-c", "env")
    kept = stage.kept.read_text()
    assert kept.count("password tell nobody mode 600") == 2 and "second" not in kept
    assert not any("tell nobody" in line for line in kept.splitlines() if "--" in line)
    assert "-oBatchMode" not in kept and "-oStrictHostKeyChecking=yes" in kept
    assert "tell nobody" not in done.stdout + done.stderr + "".join(stage.Log("alpha"))
    assert list((stage.path / "tmp").iterdir()) == []


@pytest.mark.parametrize("limit", [4, 20])
def test_hosts_run_side_by_side_up_to_the_limit(stage: Stage, limit: int) -> None:
    """Each host waits until as many have begun as the limit allows, so that fewer at once would never end."""
    hosts = ",".join(f"meet{number}" for number in range(20))
    done = stage.Run("-A", "-h", hosts, "-c", "true", "-b", str(limit), MEMBERS=str(limit))
    assert "20 successful" in done.stdout
    depth = deepest = 0
    for line in (stage.path / "kept.meeting").read_text().split():
        depth += 1 if line == "begin" else -1
        deepest = max(deepest, depth)
    assert deepest == limit


@pytest.mark.parametrize(
    ("code", "words", "argv"),
    [
        (1, "either in a file (-f) or by name (-h)", ["-A", "-c", "true"]),
        (1, "either in a file (-f) or by name (-h)", ["-A", "-c", "true", "-h", "a", "-f", "/dev/null"]),
        (2, "/nowhere/list cannot be read", ["-A", "-c", "true", "-f", "/nowhere/list"]),
        (1, "There are 0 hosts", ["-A", "-c", "true", "-f", "/dev/null"]),
        (1, "'-oProxyCommand=x' is not the name", ["-A", "-c", "true", "-h", "a,-oProxyCommand=x"]),
        (1, "'-v' is not the name", ["-A", "-c", "true", "-h", "a,-v"]),
        (1, "'../a' is not the name", ["-A", "-c", "true", "-h", "../a"]),
        (1, "either a command (-c) or a program", ["-A", "-h", "a"]),
        (1, "either a command (-c) or a program", ["-A", "-h", "a", "-c", "x", "-x", "/bin/true"]),
        (1, "-a and --args go with -x only", ["-A", "-h", "a", "-c", "x", "-a", "/etc/hostname"]),
        (1, "/nowhere/x cannot be read", ["-A", "-h", "a", "-x", "/nowhere/x"]),
        (1, "have the same name", ["-A", "-h", "a", "-x", "/etc/passwd", "-a", "/nowhere/passwd"]),
        (1, "0 hosts at once are not possible", ["-A", "-h", "a", "-c", "x", "-b", "0"]),
        (1, "is not the name of a user", ["-A", "-h", "a", "-c", "x", "-u", "-v"]),
        (1, "either a password (-p) or -A", ["-A", "-h", "a", "-c", "x", "-p", "/dev/null"]),
        (1, "should be the password", ["-h", "a", "-c", "x", "-p", "/dev/null"]),
        (1, "/nowhere/secret, cannot be read", ["-h", "a", "-c", "x", "-p", "/nowhere/secret"]),
        (2, "invalid integer value", ["-A", "-h", "a", "-c", "x", "-b", "many"]),
        (2, "no arguments are expected", ["-A", "-h", "a", "-c", "x", "more"]),
    ],
)
def test_what_cannot_be_meant(stage: Stage, code: int, words: str, argv: list[str]) -> None:
    stage.Refused(code, words, *argv)


def test_the_logs_need_a_directory(stage: Stage) -> None:
    stage.Refused(1, "Give the directory for the logs (-l)", "-A", "-h", "a", "-c", "x", logs=False)
    stage.Refused(1, "cannot be used", "-l", "/dev/null/logs", "-A", "-h", "a", "-c", "x", logs=False)
