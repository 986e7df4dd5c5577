"""What fails on one side ends both, at once, with a message that says what happened; and nothing is taken for complete."""

from __future__ import annotations

import gzip
import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.realcluster import WaitUntil
from support.realtransfers import MAGIC, Place, Running

from ganeti.impexpd import transfer

ENDLESS = "cat /dev/zero |"


def _Fail(sender: Running, receiver: Running) -> tuple[str, str]:
    """The messages of both sides, which must both have failed, and soon."""
    began = time.monotonic()
    errors = sender.Error(), receiver.Error()
    assert time.monotonic() - began < 15
    return errors


@pytest.mark.parametrize("compress", ["none", "gzip"])
def test_a_full_disk(place: Place, compress: str) -> None:
    receiver = place.Import(suffix="| dd of=/dev/full bs=1048576 status=none", compress=compress).Start()
    sender = place.Export(receiver.Port(), prefix=ENDLESS, compress=compress).Start()
    sent, received = _Fail(sender, receiver)
    assert received.startswith("The command that writes the data failed: exit code 1 (")
    assert "No space left on device" in received
    assert any("No space left on device" in line for line in receiver.Status()["recent_output"])
    assert receiver.settings.bind is not None and receiver.settings.bind in sent


@pytest.mark.parametrize("compress", ["none", "gzip"])
def test_a_source_that_fails_in_the_middle(place: Place, compress: str) -> None:
    done = place.base / "done"
    receiver = place.Import(suffix=f"> {place.base}/target; touch {done}", compress=compress).Start()
    prefix = "{ head -c 3000000 /dev/urandom; echo 'cannot read the disk' >&2; exit 3; } |"
    sender = place.Export(receiver.Port(), prefix=prefix, compress=compress).Start()
    sent, received = _Fail(sender, receiver)
    assert sent == "The command that reads the data failed: exit code 3 (cannot read the disk)"
    assert "connection" in received and not done.exists()


def test_a_source_that_fails_before_it_has_given_anything(place: Place) -> None:
    receiver = place.Import(suffix=f"> {place.base}/target").Start()
    sender = place.Export(receiver.Port(), prefix="no-such-program |").Start()
    sent, _ = _Fail(sender, receiver)
    assert "exit code 127" in sent and "no-such-program" in sent


@pytest.mark.parametrize("code", [0, 5])
def test_a_sink_that_does_not_take_everything(place: Place, code: int) -> None:
    """Whatever it says of itself."""
    receiver = place.Import(suffix=f"| {{ head -c 1000; exit {code}; }} > {place.base}/target").Start()
    sender = place.Export(receiver.Port(), prefix=ENDLESS).Start()
    assert _Fail(sender, receiver)[1].startswith("The command that writes the data failed: exit code")


def test_a_sink_that_ends_without_having_read(place: Place) -> None:
    """It says that all is well, and is not asked by ``cat``."""
    receiver = place.Import(prefix="exit 0;").Start()
    sender = place.Export(receiver.Port(), prefix=ENDLESS).Start()
    assert "ended before reading all its input" in _Fail(sender, receiver)[1]


def test_a_sink_that_closes_its_input_and_stays(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "_BROKEN_SECONDS", 0.2)
    receiver = place.Import(prefix="exec <&-; sleep 300;").Start()
    sender = place.Export(receiver.Port(), prefix=ENDLESS).Start()
    assert _Fail(sender, receiver)[1] == "The command that writes the data stopped reading"


def test_a_sink_that_fails_at_its_very_end(place: Place) -> None:
    """When everything was sent already: the sender waits for the confirmation."""
    receiver = place.Import(suffix=f"> {place.base}/target; sleep 0.3; echo 'cannot sync' >&2; exit 4").Start()
    sender = place.Export(receiver.Port(), prefix="echo data |").Start()
    sent, received = _Fail(sender, receiver)
    assert received == "The command that writes the data failed: exit code 4 (cannot sync)"
    assert "connection" in sent


def test_a_sink_may_take_its_time(place: Place) -> None:
    read, gate = place.base / "read", place.base / "gate"
    suffix = f"> {place.base}/target; touch {read}; while ! test -e {gate}; do sleep 0.05; done"
    receiver = place.Import(suffix=suffix).Start()
    sender = place.Export(receiver.Port(), prefix="echo data |").Start()
    WaitUntil(read.exists, "the data is read")
    assert sender.Status()["exit_status"] is None and receiver.Status()["exit_status"] is None
    gate.touch()
    assert (sender.Code(), receiver.Code()) == (0, 0)


def test_what_is_not_compressed_cannot_be_unpacked(place: Place) -> None:
    receiver = place.Import(suffix=f"> {place.base}/target", compress="gzip").Start()
    sender = place.Export(receiver.Port(), prefix=ENDLESS).Start()
    _, received = _Fail(sender, receiver)
    assert received == "Decompression (gzip) failed: exit code 1 (gzip: stdin: not in gzip format)"
    assert not (place.base / "target").exists()


def test_what_is_damaged_is_not_ended_for_the_sink(place: Place) -> None:
    """Otherwise it would take the part that could be unpacked for the whole."""
    done = place.base / "done"
    receiver = place.Import(suffix=f"> {place.base}/target; touch {done}", compress="gzip").Start()
    # The fault is found at the end, and more than fits into pipes comes before: by then the sink has begun.
    data = bytearray(gzip.compress(b"M=" + MAGIC.encode() + os.urandom(16_000_000)))
    data[600_000] ^= 1
    with place.Connect(receiver.Port()) as peer:
        peer.sendall(data)
        with pytest.raises(OSError):
            peer.unwrap()
            raise ConnectionError("it was cut off only after the announcement")
    assert receiver.Error().startswith("Decompression (gzip) failed: exit code 1 (gzip: stdin: invalid compressed data")
    assert (place.base / "target").exists() and not done.exists()


def test_a_tool_of_ones_own(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Called as it is, and with -d; it must answer -h."""
    tools = place.base / "bin"
    tools.mkdir()
    (tools / "squeeze").write_text('#!/bin/sh\n[ "$1" = -h ] && exit 0\nexec gzip $1\n')
    (tools / "squeeze").chmod(0o755)
    (tools / "broken").write_text("#!/bin/sh\nexit 1\n")
    (tools / "broken").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    receiver = place.Import(suffix=f"> {place.base}/target", compress="squeeze").Start()
    sender = place.Export(receiver.Port(), prefix="echo data |", compress="squeeze").Start()
    assert (sender.Code(), receiver.Code()) == (0, 0)
    assert (place.base / "target").read_text() == "data\n"
    for tool, words in (("broken", "exit code 1"), ("no-such-tool", "program not found")):
        error = place.Import(compress=tool).Start().Error()
        assert error.startswith(f"Compression tool '{tool}' cannot be used on this node (") and words in error
        assert error.endswith("); install it, or choose another tool")


def test_what_programs_print_is_kept_in_bounds(place: Place) -> None:
    noise = "for i in $(seq 50); do echo line $i >&2; done; head -c 30000 /dev/zero | tr '\\0' x >&2; printf '\\n\\033[2Jend' >&2;"
    receiver = place.Import(suffix="> /dev/null").Start()
    sender = place.Export(receiver.Port(), prefix=f"{{ {noise} }} |").Start()
    assert (sender.Code(), receiver.Code()) == (0, 0)
    output = sender.Status()["recent_output"]
    assert len(output) == 20 and max(map(len, output)) <= 600
    assert output[-1] == "\\x1b[2Jend" and output[0].startswith(("line ", "x"))
    assert Path(sender.settings.status_file).stat().st_mode & 0o777 == 0o400


def test_a_status_that_cannot_be_written_is_a_failure(place: Place) -> None:
    """Nobody would learn how it ended."""
    folder = place.base / "folder"
    folder.mkdir()
    receiver = place.Import(suffix="> /dev/null").Start()
    sender = place.Export(receiver.Port(), prefix=f"rm -r {folder}; echo data |", status_file=f"{folder}/status")
    sender.Start()
    sender._thread.join(20)
    assert sender._code == 1
    assert receiver.Code() == 0


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    count=st.integers(0, 3_000_000), side=st.sampled_from(["source", "sink"]), tool=st.sampled_from(["none", "gzip"])
)
def test_wherever_it_fails_nobody_calls_it_complete(place: Place, count: int, side: str, tool: str) -> None:
    source = f"{{ head -c {count} /dev/urandom; exit 9; }} |" if side == "source" else "head -c 3000001 /dev/urandom |"
    sink = f"| {{ head -c {count} >/dev/null; exit 9; }}" if side == "sink" else "| cat > /dev/null"
    receiver = place.Import(suffix=sink, compress=tool).Start()
    sender = place.Export(receiver.Port(), prefix=source, compress=tool).Start()
    _Fail(sender, receiver)
    sender.Close()
    receiver.Close()
