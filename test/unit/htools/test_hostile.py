"""Files and messages that nobody should have written: each is read, or refused in words, whatever it says."""

from __future__ import annotations

import io
import json
import pathlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import htoolscases

from ganeti.htools import answer
from ganeti.htools.choosing.allocate import Rules
from ganeti.htools.sources import loading, request, text
from ganeti.htools.sources.loading import LoadError
from ganeti.tools.htools import main
from ganeti.tools.htools.output import Streams

_DATA = (htoolscases.CASES / "10-hbal-basic" / "cluster.data").read_text(encoding="utf-8")
_PIECES = [
    "", "0", "-1", "9" * 40, "1e999", "nan", "-inf", "0x10", "\0", "\u202e", "|" * 50, ",", ";", "N", "Y", "drbd", "node1",
    " ", "\t", "::", "a" * 10000, "1.5", "-0", "\ud7ff",
]  # fmt: skip


@st.composite
def damaged(draw: Any) -> str:
    """A cluster in which some columns, lines and separators are something else."""
    lines = _DATA.split("\n")
    for _ in range(draw(st.integers(1, 4))):
        number = draw(st.integers(0, len(lines) - 1))
        columns = lines[number].split("|")
        kind = draw(st.sampled_from(["column", "column", "column", "drop", "double", "cut", "empty"]))
        if kind == "column":
            columns[draw(st.integers(0, len(columns) - 1))] = draw(st.sampled_from(_PIECES))
            lines[number] = "|".join(columns)
        elif kind == "drop":
            lines[number] = "|".join(columns[: draw(st.integers(0, len(columns)))])
        elif kind == "double":
            lines.insert(number, lines[number])
        elif kind == "cut":
            del lines[draw(st.integers(0, len(lines) - 1)) :]
            lines.append("")
        else:
            lines.insert(number, "")
    return "\n".join(lines)


def _Build(content: str) -> loading.Cluster | None:
    try:
        return loading.Build(text.Parse(content), loading.Wishes())
    except LoadError as err:
        assert str(err) and len(str(err)) < 20_000
        return None


@given(damaged())
@settings(max_examples=150, deadline=None)
def test_a_damaged_file_is_read_or_refused(content: str) -> None:
    cluster = _Build(content)
    if cluster is not None:
        _Build(text.Write(cluster))


@given(damaged(), st.sampled_from(["hinfo", "hcheck", "hbal", "hspace", "hroller"]))
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_programs_end_with_a_status_and_words(tmp_path: pathlib.Path, content: str, program: str) -> None:
    path = tmp_path / "cluster"
    path.write_text(content, encoding="utf-8", errors="surrogatepass")
    out, err = io.StringIO(), io.StringIO()
    few = {"hspace": ["--standard-alloc=100g,16g,8", "--tiered-alloc=100g,16g,8"], "hbal": ["-l", "2"]}
    code = main.Run(program, ["-t", str(path), *few.get(program, [])], Streams(out, err, lambda name, content: None))
    assert code in (0, 1) and (code == 0 or out.getvalue() or err.getvalue())


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(_PIECES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def _Message() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (htoolscases.CASES / "30-hail-allocate" / "drbd.json").read_text(encoding="utf-8")
    )
    return found


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_damaged_message_is_answered_or_refused(data: Any) -> None:
    message: Any = _Message()
    place: Any = message
    for _ in range(data.draw(st.integers(1, 4))):
        if not isinstance(place, (dict, list)) or not place:
            break
        key = data.draw(st.sampled_from(sorted(place))) if isinstance(place, dict) else 0
        if data.draw(st.booleans()):
            place[key] = data.draw(_VALUES)
            place = message
        else:
            place = place[key]
    try:
        asked = request.Parse(json.dumps(message))
        cluster = loading.Build(asked.raw, loading.Wishes())
        answer.Reply(cluster, asked.request, Rules())
    except (request.BadMessage, LoadError, answer.Impossible) as err:
        assert str(err)


@pytest.mark.parametrize("content", ["", "\0" * 1000, "|\n" * 20000, "\n" * 100_000, "a" * 5_000_000, "\n\n\n\n\n\n\n"])
def test_what_is_no_cluster_at_all(content: str) -> None:
    assert _Build(content) is None or content.strip("\n") == ""
