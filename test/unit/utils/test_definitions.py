"""What is shown of a script that failed."""

from __future__ import annotations

from pathlib import Path

from ganeti.utils import definitions


def test_the_last_lines_are_shown() -> None:
    assert definitions.LastLines("\n".join(map(str, range(100)))) == "\n".join(map(str, range(80, 100)))


def test_a_line_without_an_end_does_not_fill_logs_and_answers(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("x" * 1_000_000 + "the reason")
    shown = definitions.Tail(str(log))
    assert len(shown) < 5000 and shown.startswith("[...]x") and shown.endswith("xthe reason")
