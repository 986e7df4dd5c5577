"""A transfer can be stopped at every moment: its programs may clean up, and nothing of it runs afterwards."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from support.realcluster import WaitUntil
from support.realtransfers import Place

from ganeti import runtime
from ganeti.impexpd import programs

STOPPED = "The transfer was stopped by a signal"


def _Script(place: Place, name: str, text: str) -> str:
    path = place.base / name
    path.write_text(f"#!/bin/bash\n{text}")
    path.chmod(0o755)
    return str(path)


def test_while_an_import_listens(place: Place) -> None:
    receiver = place.Import().Start()
    receiver.Port()
    began = time.monotonic()
    receiver.Stop()
    assert receiver.Error() == STOPPED and time.monotonic() - began < 5


def test_while_an_export_looks_for_the_import(place: Place, addresses: object) -> None:
    sender = place.Export(addresses.Port(), connect_retries=1000).Start()  # type: ignore[attr-defined]
    WaitUntil(sender.Status, "the sender has a status")
    sender.Stop()
    assert sender.Error() == STOPPED


def test_while_an_export_waits_for_an_answer(place: Place) -> None:
    with place.Listen() as silent:
        sender = place.Export(silent.getsockname()[1]).Start()
        with silent.accept()[0]:
            sender.Stop()
            assert sender.Error() == STOPPED


@pytest.mark.parametrize("stopped", ["sender", "receiver"])
@pytest.mark.parametrize("compress", ["none", "gzip"])
def test_while_data_flows(place: Place, stopped: str, compress: str) -> None:
    """The other side ends too."""
    receiver = place.Import(suffix=f"> {place.base}/target", compress=compress).Start()
    sender = place.Export(receiver.Port(), prefix="cat /dev/urandom |", compress=compress).Start()
    WaitUntil(lambda: (place.base / "target").stat().st_size > 1 << 20, "data flows")
    ends = {"sender": sender, "receiver": receiver}
    ends[stopped].Stop()
    assert ends[stopped].Error() == STOPPED
    assert "connection" in ends["receiver" if stopped == "sender" else "sender"].Error()


def test_while_the_sink_takes_its_time(place: Place) -> None:
    receiver = place.Import(suffix=f"> {place.base}/target; touch {place.base}/all; sleep 300").Start()
    sender = place.Export(receiver.Port(), prefix="echo data |").Start()
    WaitUntil((place.base / "all").exists, "all has arrived")
    receiver.Stop()
    assert receiver.Error() == STOPPED
    assert "connection" in sender.Error()


@pytest.mark.parametrize("side", ["export", "import"])
def test_a_script_may_clean_up(place: Place, side: str) -> None:
    """It may have to unmount something; the end of its input or output comes later."""
    cleaned, begun = place.base / "cleaned", place.base / "begun"
    script = _Script(
        place,
        "script",
        f"trap 'sleep 0.5; touch {cleaned}; exit 1' TERM\ntouch {begun}\nwhile true; do sleep 0.05; done\n",
    )
    sink, source = ("", f"( {script}; ) |") if side == "export" else (f"| ( cd / && {script}; )", "sleep 300 |")
    receiver = place.Import(suffix=sink, magic=None).Start()
    sender = place.Export(receiver.Port(), prefix=source, magic=None).Start()
    WaitUntil(begun.exists, "it has begun")
    ends = {"export": sender, "import": receiver}
    ends[side].Stop()
    assert ends[side].Error() == STOPPED
    assert cleaned.exists()


def test_a_program_that_does_not_end_is_killed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "GRACE", 0.5)
    begun = place.base / "begun"
    script = _Script(place, "script", f"trap '' TERM\ntouch {begun}\nwhile true; do sleep 0.05; done\n")
    receiver = place.Import(suffix=f"| ( {script}; )", magic=None).Start()
    sender = place.Export(receiver.Port(), prefix="sleep 300 |", magic=None).Start()
    WaitUntil(begun.exists, "it has begun")
    began = time.monotonic()
    receiver.Stop()
    assert receiver.Error() == STOPPED
    assert 0.4 < time.monotonic() - began < 10
    sender.Error()


def test_what_a_program_leaves_behind_is_ended(place: Place) -> None:
    """Also after a success."""
    pid_file = place.base / "pid"
    receiver = place.Import(suffix=f"> {place.base}/target; sleep 300 </dev/null & echo $! > {pid_file}").Start()
    sender = place.Export(receiver.Port(), prefix="echo data |").Start()
    assert (sender.Code(), receiver.Code()) == (0, 0)
    assert not runtime.ProcessAlive(int(pid_file.read_text()))


def test_a_vanished_sender_ends_a_script(place: Place) -> None:
    cleaned, begun = place.base / "cleaned", place.base / "begun"
    script = _Script(
        place, "script", f"trap 'touch {cleaned}; exit 1' TERM\ntouch {begun}\nwhile true; do sleep 0.05; done\n"
    )
    receiver = place.Import(suffix=f"| ( {script}; )", magic=None).Start()
    with place.Connect(receiver.Port()):
        WaitUntil(begun.exists, "it has begun")
    assert "closed the connection before the end of the data" in receiver.Error()
    assert cleaned.exists()


def test_a_second_signal_does_not_cut_the_first_ones_work_short(place: Place) -> None:
    begun, told, go, cleaned = (place.base / name for name in ("begun", "told", "go", "cleaned"))
    wait = f"while ! test -e {go}; do sleep 0.05; done"
    loop = "while true; do sleep 0.05; done"
    script = _Script(
        place, "script", f"trap 'touch {told}; {wait}; touch {cleaned}; exit 1' TERM\ntouch {begun}\n{loop}\n"
    )
    receiver = place.Import(suffix=f"| ( {script}; )", magic=None).Start()
    with place.Connect(receiver.Port()):
        WaitUntil(begun.exists, "it has begun")
        receiver.Stop()
        WaitUntil(told.exists, "it was told to end")
        receiver.Stop()
        go.touch()
        assert receiver.Error() == STOPPED
    assert cleaned.exists()


def test_a_receiver_that_reads_nothing_for_long_is_waited_for(place: Place) -> None:
    """A stopped process: nothing is lost, and nothing else ends (``runtime.KeepAlive``)."""
    reading, writing, go = (place.base / name for name in ("reading", "writing", "go"))
    receiver = place.Import(suffix=f"| {{ echo $BASHPID > {reading}; exec cat > {place.base}/target; }}").Start()
    source = (
        f"until [ -e {go} ]; do sleep 0.02; done; (echo $BASHPID > {writing}; exec head -c 30000000 /dev/urandom) |"
    )
    sender = place.Export(receiver.Port(), prefix=source).Start()
    pid = int(WaitUntil(lambda: reading.read_text().strip(), "somebody reads"))
    os.kill(pid, signal.SIGSTOP)
    go.touch()
    head = int(WaitUntil(lambda: writing.read_text().strip(), "somebody writes"))
    WaitUntil(lambda: "pipe_write" in Path(f"/proc/{head}/wchan").read_text(), "everything up to the source is full")
    assert sender.Status()["exit_status"] is None and receiver.Status()["exit_status"] is None
    os.kill(pid, signal.SIGCONT)
    assert (sender.Code(), receiver.Code()) == (0, 0)
    assert Path(place.base / "target").stat().st_size == 30000000
