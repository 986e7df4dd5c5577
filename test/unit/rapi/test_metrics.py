"""The numbers in the OpenMetrics format, read by the parser of the library that monitoring uses."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from support.rapi import READER, Site
from support.rapicalls import NotingMaster

from ganeti import metrics
from ganeti.daemon import logs
from ganeti.rapi import metrics as rapi_metrics
from ganeti.rapi.requests.call import Caller, HttpError


def _Values() -> dict[str, list[list[Any]]]:
    """One or two values of every declared metric that the master daemon gives."""
    found: dict[str, list[list[Any]]] = {}
    for metric in metrics.METRICS.values():
        if metric.source == metrics.NODES:
            continue
        rows = [[f'{label} "{n}"\n\\' for label in metric.labels] for n in range(2 if metric.labels else 1)]
        histogram = metrics.Histogram()
        for seconds in (0.0005, 0.02, 0.02, 5000.0):
            histogram.Observe(seconds)
        value = histogram.Value() if metric.kind == metrics.HISTOGRAM else 7
        found[metric.name] = [[labels, value] for labels in rows]
    return found


STRANGER = Caller(None, "192.0.2.7:4711")
NODES = {
    "data": [
        [[0, "node1"], [0, 4096], [0, 1024], [0, 1000], [0, 400], [0, 8]],
        [[0, "node2"], [2, None], [2, None], [2, None], [2, None], [2, None]],
    ]
}


def _Show(folder: Path, **answers: Any) -> tuple[Any, NotingMaster]:
    master = NotingMaster(**{"QueryMetrics": _Values(), "Query": lambda *args: NODES, **answers})
    return Site(str(folder / "users"), master).Ask("GET", "/metrics", headers=READER), master


def test_every_declared_metric_is_shown_and_can_be_parsed(tmp_path: Path) -> None:
    reply, _ = _Show(tmp_path)
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    families = {family.name: family for family in text_string_to_metric_families(reply.body.decode())}
    assert set(families) == {metric.full_name for metric in metrics.METRICS.values()}
    for metric in metrics.METRICS.values():
        family = families[metric.full_name]
        assert (family.type, family.unit, family.documentation) == (metric.kind, metric.unit, metric.doc)
        assert family.samples
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(metric.labels)


def test_lost_lines_of_both_daemons_are_shown(tmp_path: Path) -> None:
    file = logs.LogFile(str(tmp_path / "missing" / "of-this-test.log"), console=None)
    for _ in range(3):
        file.handle(logging.LogRecord("", logging.INFO, "", 0, "lost", None, None))
    reply, _ = _Show(tmp_path, QueryMetrics={"log_lines_lost": [[["master-daemon"], 2]]})
    [family] = [f for f in text_string_to_metric_families(reply.body.decode()) if f.name == "ganeti_log_lines_lost"]
    lost = {sample.labels["log"]: sample.value for sample in family.samples}
    assert (lost["master-daemon"], lost["of-this-test"]) == (2, 3)


def test_values(tmp_path: Path) -> None:
    reply, _ = _Show(tmp_path)
    families = {family.name: family for family in text_string_to_metric_families(reply.body.decode())}
    [pending] = families["ganeti_jobs_pending"].samples
    assert pending.value == 7
    # Of node2, which does not answer, there is nothing.
    assert {
        (family.name, *(sample.labels[label] for label in sorted(sample.labels, reverse=True))): sample.value
        for family in families.values()
        for sample in family.samples
        if family.name.startswith("ganeti_node_")
    } == {
        ("ganeti_node_memory_bytes", "node1", "total"): 4096 * 2**20,
        ("ganeti_node_memory_bytes", "node1", "free"): 1024 * 2**20,
        ("ganeti_node_storage_bytes", "node1", "total"): 1000 * 2**20,
        ("ganeti_node_storage_bytes", "node1", "free"): 400 * 2**20,
        ("ganeti_node_cpus", "node1"): 8,
    }
    commits = families["ganeti_commit_duration_seconds"].samples
    buckets = {s.labels["le"]: s.value for s in commits if s.name.endswith("_bucket")}
    assert (buckets["0.001"], buckets["0.01"], buckets["0.03"], buckets["600.0"], buckets["+Inf"]) == (1, 1, 3, 3, 4)
    [count] = [s.value for s in commits if s.name.endswith("_count")]
    assert count == 4


def test_nodes_are_not_asked_for_each_request_and_their_silence_hides_nothing_else(tmp_path: Path) -> None:
    reply, master = _Show(tmp_path, Query=lambda *args: (_ for _ in ()).throw(HttpError(504)))
    assert reply.status == 200 and b"ganeti_jobs_pending 7" in reply.body
    assert b"ganeti_node_memory" not in reply.body
    master = NotingMaster(QueryMetrics=_Values(), Query=lambda *args: NODES)
    site = Site(str(tmp_path / "users"), master)

    async def twice() -> None:
        for _ in range(2):
            assert b"ganeti_node_memory" in (await site.Send("GET", "/metrics", headers=READER)).body

    asyncio.run(twice())
    assert [call[0] for call in master.calls].count("Query") == 1


async def _Families(collector: Any) -> dict[str, Any]:
    text = (await collector.Text()).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_scrapes_are_answered_while_a_node_hangs_and_show_what_it_says_in_the_end() -> None:
    """However impatient they are: one that gives up does not begin the question to the nodes anew."""

    async def story() -> None:
        released, asked = asyncio.Event(), []

        class Hanging(NotingMaster):
            async def Call(self, method: str, *args: Any, caller: Any = None) -> Any:
                asked.append((method, caller))
                if method == "Query":
                    await released.wait()
                return await super().Call(method, *args)

        collector = rapi_metrics.Collector(Hanging(QueryMetrics=_Values(), Query=NODES))
        impatient = asyncio.create_task(collector.Text(STRANGER))
        while len(asked) < 2:
            await asyncio.sleep(0)
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        found = await _Families(collector)
        assert "ganeti_jobs_pending" in found and "ganeti_node_memory_bytes" not in found
        released.set()
        assert "ganeti_node_memory_bytes" in await _Families(collector)
        assert asked[:2] == [("QueryMetrics", STRANGER), ("Query", STRANGER)], "with the rights of whoever asks"
        assert asked[2:] == [("QueryMetrics", None)] * 2, "the question that was begun is the one that was answered"

    asyncio.run(story())


def test_capacity_is_read_again_after_a_minute_and_the_old_shown_meanwhile() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        now, later = loop.time, [0.0]
        loop.time = lambda: now() + later[0]  # type: ignore[method-assign]
        cpus = [8]
        hang, released = [False], asyncio.Event()

        class Changing(NotingMaster):
            async def Call(self, method: str, *args: Any, caller: Any = None) -> Any:
                if method == "Query" and hang[0]:
                    await released.wait()
                return await super().Call(method, *args)

        master = Changing(
            QueryMetrics=_Values(), Query=lambda *args: {"data": [[[0, "node1"], *[[0, 1]] * 4, [0, cpus[0]]]]}
        )
        collector = rapi_metrics.Collector(master)

        async def shown() -> float:
            return float((await _Families(collector))["ganeti_node_cpus"].samples[0].value)

        assert await shown() == 8
        cpus[0] = 16
        later[0] += rapi_metrics.CAPACITY_SECONDS - 10
        assert await shown() == 8
        hang[0] = True
        later[0] += 20
        assert await shown() == 8, "a node hangs: what was known is shown"
        released.set()
        assert await shown() == 16

    asyncio.run(story())


@pytest.mark.parametrize("metric", metrics.METRICS.values(), ids=lambda metric: metric.name)
def test_names_follow_the_rules(metric: metrics.Metric) -> None:
    assert metric.name.replace("_", "").isalnum() and metric.name == metric.name.lower()
    assert not metric.name.endswith(("_total", "_seconds", "_bytes"))
    assert metric.doc and not metric.doc.endswith(".")
