"""Out-of-band programs: what is run, and what is said of those that are no use."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from ganeti import errors
from ganeti.utils import oob


def _Program(path: Path, text: str, mode: int = 0o755) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(mode)
    return str(path)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory that only this user can write to; the program's name has a blank in it."""
    return tmp_path / "oob tool"


def _Refused(program: str, *words: str, timeout: float = 60) -> str:
    with pytest.raises(errors.OpExecError) as caught:
        oob.Run(program, oob.POWER_OFF, "node2", timeout)
    text = str(caught.value)
    assert program in text and "node2" in text, "the message names the program and the node"
    for word in words:
        assert word in text
    return text


def test_the_answer_is_json_or_nothing(place: Path) -> None:
    program = _Program(place, 'echo "{\\"powered\\": true, \\"asked\\": \\"$*\\"}"')
    assert oob.Run(program, oob.POWER_STATUS, "node2", 60) == {"powered": True, "asked": "power-status node2"}
    assert oob.Run(_Program(place, "echo; echo noise >&2"), oob.POWER_ON, "node2", 60) is None


def test_a_failure_shows_what_the_program_said_and_what_to_do(place: Path) -> None:
    text = _Refused(_Program(place, "echo BMC does not answer >&2; exit 3"), "exit code 3", "BMC does not answer")
    assert f"'{oob.CommandLine(str(place), 'power-off', 'node2')}'" in text
    assert text.endswith("run it by hand to see more")
    _Refused(_Program(place, "kill -9 $$"), "signal 9", "printed nothing")


def test_rubbish_and_megabytes_are_no_answer(place: Path) -> None:
    _Refused(_Program(place, "echo '<html>'"), "did not print valid JSON", "<html>")
    text = _Refused(_Program(place, "head -c 3000000 /dev/zero | tr '\\0' x"), "more than 64 KiB")
    assert len(text) < 400
    text = _Refused(_Program(place, "head -c 3000000 /dev/zero | tr '\\0' x >&2; exit 1"), "[...] xxx")
    assert len(text) < 3000
    _Refused(_Program(place, "printf '\\377\\376'"), "did not print valid JSON")
    # Deeper than a reader of JSON can go.
    _Refused(_Program(place, "head -c 60000 /dev/zero | tr '\\0' '['"), "did not print valid JSON")


def test_only_a_program_that_nobody_else_can_change_is_run(place: Path) -> None:
    mark = place.parent / "ran"
    touch = f"touch {mark}"
    _Refused(str(place), "No such file or directory", "executable file on the master node")
    _Refused(_Program(place, touch, 0o644), "is not an executable file")
    _Refused(_Program(place, touch, 0o777), "others than its owner can write")
    os.remove(place)
    place.mkdir()
    _Refused(str(place), "it is not a file")
    assert not mark.exists()
    place.rmdir()
    place.write_text("no program at all")
    place.chmod(0o755)
    _Refused(str(place), "cannot be run")


def test_a_program_that_hangs_is_killed_with_all_it_started(place: Path) -> None:
    pids = place.parent / "pids"
    # It ends when it is asked to; its child does not.
    program = _Program(place, f"(trap '' TERM; echo $$ >> {pids}; while :; do sleep 1; done) &\n"
                              f"echo $! >> {pids}; echo dialling; while :; do sleep 1; done")  # fmt: skip
    started = time.monotonic()
    _Refused(program, "did not end within 3 seconds", "dialling", "--oob-timeout", timeout=3)
    assert time.monotonic() - started < 30
    for pid in pids.read_text().split():
        with pytest.raises(ProcessLookupError):
            _WaitGone(int(pid))


def _WaitGone(pid: int) -> None:
    """Raises ProcessLookupError once the process is gone; one that lives on lets the test fail."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat", encoding="ascii") as stream:
            if stream.read().rpartition(")")[2].split()[0] == "Z":
                raise ProcessLookupError
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("command", "good", "bad"),
    [
        (oob.POWER_STATUS, [{"powered": True}, {"powered": False, "more": 1}], [None, [], {}, {"powered": 1}, True]),
        (oob.HEALTH, [[], [["fan", "OK"], ["disk", "CRITICAL"]]],
         [None, {}, "OK", [["fan"]], [["fan", "FINE"]], [[1, "OK"]], [["fan", ["OK"]]], [["a", "OK", 1]]]),
        (oob.POWER_ON, [None], [[], {}, "done", True]),
        (oob.POWER_OFF, [None], [False]),
        (oob.POWER_CYCLE, [None], [0]),
    ],
)  # fmt: skip
def test_the_shape_of_answers(command: str, good: list[Any], bad: list[Any]) -> None:
    assert [oob.AnswerProblem(command, answer) for answer in good] == [None] * len(good)
    for answer in bad:
        problem = oob.AnswerProblem(command, answer)
        assert problem is not None and "should have printed" in problem
