"""Content of files on the wire: whatever goes in comes out, and nothing else does."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti import errors
from ganeti.rpc import encoders
from ganeti.rpc.encodings import ENCODINGS


@given(st.binary(max_size=2000))
def test_bytes_come_back(data: bytes) -> None:
    blob = encoders.Blob(data)
    assert ENCODINGS["BLOB"].wire(blob)
    assert encoders.ReadBlob(blob) == data


def test_short_text_is_readable_and_long_text_is_small() -> None:
    assert encoders.Blob("short") == [0, "short"]
    kind, text = encoders.Blob("x" * 100000)
    assert kind == 1 and len(text) < 1000
    assert encoders.Blob("x" * 511)[0] == 0 and encoders.Blob("x" * 512)[0] == 1


@pytest.mark.parametrize(
    "blob",
    [
        [1, "no base64!"],
        [1, base64.b64encode(b"no zlib").decode()],
        # Whole but for a character that does not belong there.
        [1, "\n" + base64.b64encode(zlib.compress(b"x" * 1000)).decode()],
        [1, base64.b64encode(zlib.compress(b"x" * 1000)[:-4]).decode()],
    ],
)
def test_damage_is_noticed(blob: list[object]) -> None:
    with pytest.raises(errors.ParseError):
        encoders.ReadBlob(blob)


def test_a_small_message_cannot_become_a_huge_file() -> None:
    bomb = [1, base64.b64encode(zlib.compress(b"\0" * 50_000_000, 9)).decode()]
    assert len(bomb[1]) < 100_000  # type: ignore[arg-type]
    with pytest.raises(errors.ParseError, match="limit"):
        encoders.ReadBlob(bomb)
    with pytest.raises(errors.ParseError, match="limit"):
        encoders.ReadBlob([0, "x" * 100], limit=10)


def test_a_file_of_exactly_the_limit_arrives_and_one_byte_more_does_not() -> None:
    packed = [1, base64.b64encode(zlib.compress(b"x" * 10)).decode()]
    assert encoders.ReadBlob(packed, limit=10) == encoders.ReadBlob([0, "x" * 10], limit=10) == b"x" * 10
    for blob in (packed, [0, "x" * 10], [0, "\u00e4" * 5]):
        with pytest.raises(errors.ParseError, match="over the limit of 9"):
            encoders.ReadBlob(blob, limit=9)


def test_a_file_is_read_with_its_owner_and_mode(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    path.write_bytes(b"key\n")
    path.chmod(0o640)
    item = encoders.ReadForUpload(str(path))
    assert item[:3] == (str(path), b"key\n", 0o640)
    assert isinstance(item[3], str) and isinstance(item[4], str)
    assert item[6] == path.stat().st_mtime
