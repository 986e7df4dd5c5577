"""What one program gives is what another one takes, byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.realcluster import WaitUntil
from support.realtransfers import Place

MIB = 1 << 20


def Contents() -> st.SearchStrategy[bytes]:
    """Short ones with any bytes, long ones that repeat a piece; lengths around those of pieces and pipes."""
    short = st.binary(max_size=300)
    lengths = st.sampled_from([1 << 16, 1 << 18, 1 << 20]).flatmap(lambda n: st.integers(n - 2, n + 2))
    long = st.builds(lambda piece, length: (piece * (length // len(piece) + 1))[:length], st.binary(min_size=1, max_size=50), lengths)  # fmt: skip
    return short | long | st.integers(2 * MIB, 3 * MIB).map(lambda length: bytes(range(256)) * (length // 256))


@pytest.mark.limit(200)
@pytest.mark.req("D22-MOVE-03", "D22-MOVE-04", "D22-MOVE-25")
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(content=Contents(), tool=st.sampled_from(["none", "gzip", "gzip-fast", "gzip-slow"]), with_magic=st.booleans())
@example(b"", "none", False)
@example(b"", "none", True)
@example(b"", "gzip", False)
@example(b"M=", "none", True)
def test_every_byte_arrives(place: Place, content: bytes, tool: str, with_magic: bool) -> None:
    source, target = place.base / "source", place.base / "target"
    source.write_bytes(content)
    target.unlink(missing_ok=True)
    more = {"compress": tool, **({} if with_magic else {"magic": None})}
    receiver = place.Import(suffix=f"> {target}", **more).Start()
    sender = place.Export(receiver.Port(), prefix=f"< {source}", **more).Start()
    assert (sender.Code(), receiver.Code()) == (0, 0), (sender.Status(), receiver.Status())
    assert target.read_bytes() == content
    for end in (sender, receiver):
        status = end.Status()
        assert status["connected"] is True and status["error_message"] is None
        assert status["progress_mbytes"] == pytest.approx(len(content) / MIB)
        end.Close()


def test_what_is_written_arrives_before_the_rest_is_there(place: Place) -> None:
    """Nothing on the way waits for more, or for the end."""
    target, gate = place.base / "target", place.base / "gate"
    target.touch()
    receiver = place.Import(suffix=f'| while read line; do echo "got $line" >> {target}; done').Start()
    source = f"{{ echo one; while ! test -e {gate}; do sleep 0.02; done; echo two; }} |"
    sender = place.Export(receiver.Port(), prefix=source).Start()
    WaitUntil(lambda: target.read_text() == "got one\n", "the first line arrives")
    gate.touch()
    assert (sender.Code(), receiver.Code()) == (0, 0)
    assert target.read_text() == "got one\ngot two\n"


@pytest.mark.req("D22-MOVE-12")
def test_many_disks_travel_side_by_side(place: Place) -> None:
    """One connection for each, told apart by their magic."""
    receivers = [place.Import(magic=f"disk-{n}", suffix=f"> {place.base}/target{n}").Start() for n in range(5)]
    senders = []
    for number, receiver in enumerate(receivers):
        (place.base / f"source{number}").write_bytes(bytes([number]) * MIB)
        senders.append(
            place.Export(receiver.Port(), magic=f"disk-{number}", prefix=f"< {place.base}/source{number}").Start()
        )
    assert [end.Code() for end in (*senders, *receivers)] == [0] * 10
    for number in range(5):
        assert (place.base / f"target{number}").read_bytes() == bytes([number]) * MIB


@pytest.mark.parametrize("size", ["12", "1234567\n", "-1", "x\n", "", "9" * 100])
def test_the_source_may_say_how_much_will_come(place: Place, size: str) -> None:
    receiver = place.Import(suffix="> /dev/null").Start()
    prefix = f"printf -- {size!r} >&$EXP_SIZE_FD; head -c 617283 /dev/zero |"
    sender = place.Export(receiver.Port(), prefix=prefix, expected_size="fd").Start()
    assert (sender.Code(), receiver.Code()) == (0, 0)
    percent = sender.Status()["progress_percent"]
    assert percent == (100 if size == "12" else pytest.approx(50, abs=0.01) if size.startswith("1234") else None)
