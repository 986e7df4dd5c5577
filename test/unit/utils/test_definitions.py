"""What is shown of a script that failed."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ganeti.utils import definitions


def test_the_last_lines_are_shown() -> None:
    assert definitions.LastLines("\n".join(map(str, range(100)))) == "\n".join(map(str, range(80, 100)))


def test_a_line_without_an_end_does_not_fill_logs_and_answers(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("x" * 1_000_000 + "the reason")
    shown = definitions.Tail(str(log))
    assert len(shown) < 5000 and shown.startswith("[...]x") and shown.endswith("xthe reason")


def test_of_a_log_of_any_size_the_end_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as handle:
        handle.truncate(1 << 33)  # more than could be read
        handle.seek(0, 2)
        handle.write(b"\nfirst\nlast\n")
    assert definitions.Tail(str(log)).endswith("\nfirst\nlast")


_PIECES = st.sampled_from(
    [b"x", b"\n", b"\r\n", "\N{EURO SIGN}".encode(), "\N{GRINNING FACE}".encode(), b"\xf0\x9f", b"\xff"]
)


@given(st.lists(st.tuples(_PIECES, st.sampled_from([1, 2, 3, 900, 3999, 4000, 4001, 9000])), max_size=30))
def test_the_end_is_that_of_the_whole_log(pieces: list[tuple[bytes, int]]) -> None:
    content = b"".join(piece * count for piece, count in pieces)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        log.write_bytes(content)
        assert definitions.Tail(str(log)) == definitions.LastLines(content.decode("utf-8", "replace"))
