"""Load of CPUs, asked from monitoring daemons over the network."""

from __future__ import annotations

import http.server
import io
import json
import pathlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.allocator import Lease

from ganeti.http import fetch
from ganeti.tools.htools import main, sources
from ganeti.tools.htools.output import Streams

PORT = 1815
CPU, XEN = "/1/report/default/cpu-avg-load", "/1/report/default/xen-cpu-avg-load"
IGNORED = "Didn't receive an answer by all MonDs, {}'s data will be ignored."


def _Report(name: str, data: Any) -> bytes:
    report = {
        "name": name,
        "version": "B",
        "format_version": 1,
        "timestamp": 1,
        "category": None,
        "kind": 0,
        "data": data,
    }
    return json.dumps(report).encode()


class Daemon:
    """A monitoring daemon; ``answers``: path -> body."""

    def __init__(self, address: str):
        self.answers: dict[str, bytes] = {}
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = outer.answers.get(self.path)
                self.send_response(200 if body is not None else 404)
                self.end_headers()
                self.wfile.write(body or b"Resource not found")

            def log_message(self, *args: object) -> None:
                """Say nothing."""

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *args: object) -> None:
                """Say nothing of a client that has seen enough."""

        self._server = Server((address, PORT), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def Close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Site:
    """Two nodes with a daemon each, a third one that is offline, and three instances on the first."""

    def __init__(self, folder: pathlib.Path):
        lease = Lease()
        self.names = [lease.Address() for _ in range(3)]
        self.daemons = [Daemon(name) for name in self.names[:2]]
        self._path = folder / "cluster.data"
        self.Write()

    def Write(self) -> None:
        first, second, third = self.names
        nodes = [f"{name}|32768|1024|28672|512000|512000|8|{state}|g|4||N|0|1|1.0" for name, state in
                 ((first, "M"), (second, "N"), (third, "Y"))]  # fmt: skip
        instances = [f"inst{i}|1024|1024|{i + 1}|running|Y|{first}||ext||1|-|N" for i in range(3)]
        self._path.write_text("\n".join(["default|g|preferred||", "", *nodes, "", *instances, "", ""]))

    def Loads(self, *words: str) -> tuple[int, list[float], list[str]]:
        """Exit status, the CPU load of each node, lines on standard error."""
        out, err = io.StringIO(), io.StringIO()
        streams = Streams(out, err, lambda path, text: None)
        code = main.Run("hinfo", ["-t", str(self._path), "--mond", "-pname,cload", "-q", *words], streams)
        lines = err.getvalue().splitlines()
        rows = [line.split() for line in lines if line.strip() and line.split()[0] in self.names]
        return (
            code,
            [float(load) for _, load in rows],
            [line for line in lines if line.startswith(("Node", "Didn't", "Error"))],
        )

    def Answer(self, *loads: float) -> None:
        for daemon, load in zip(self.daemons, loads, strict=True):
            daemon.answers[CPU] = _Report(
                "cpu-avg-load", {"cpu_number": 2, "cpus": [load / 2, load / 2], "cpu_total": load}
            )


@pytest.fixture
def site(tmp_path: pathlib.Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    for daemon in made.daemons:
        daemon.Close()


def test_every_node_that_is_online_gives_its_load(site: Site) -> None:
    """An offline node need not answer: otherwise one lost node would make the loads of all others unknown."""
    site.Answer(6.0, 0.5)
    assert site.Loads() == (0, [6.0, 0.5, 0.0], [])


def test_the_collector_of_xen(site: Site, tmp_path: pathlib.Path) -> None:
    site.daemons[0].answers[XEN] = _Report("xen-cpu-avg-load", {"inst0": 0.25, "inst1": 1.5, "inst2": 1.0})
    site.daemons[1].answers[XEN] = _Report("xen-cpu-avg-load", {})
    out, err = io.StringIO(), io.StringIO()
    words = ["-t", str(tmp_path / "cluster.data"), "--mond", "--mond-xen", "--print-nodes=name,cload", "-S", "saved"]
    assert main.Run("hbal", words, Streams(out, err, lambda path, text: None)) == 0
    assert "Didn't" not in err.getvalue()
    [row] = [line for line in err.getvalue().splitlines() if line.split()[:1] == [site.names[0]]][:1]
    assert row.split()[1] == "2.750"


def _NotFound(site: Site) -> None:
    del site.daemons[1].answers[CPU]


def _NotYet(site: Site) -> None:
    site.daemons[1].answers[CPU] = _Report("cpu-avg-load", {"error": "No data \x1b[31m yet"})


def _Garbage(site: Site) -> None:
    site.daemons[1].answers[CPU] = b"{"


def _Binary(site: Site) -> None:
    site.daemons[1].answers[CPU] = b"\xff"


def _Endless(site: Site) -> None:
    site.daemons[1].answers[CPU] = b" " * (sources._MOND_LIMITS.size + 1)


def _Refused(site: Site) -> None:
    site.daemons.pop().Close()


def _NoName(site: Site) -> None:
    site.names[1] = "user@192.0.2.1/x?"
    site.Write()


@pytest.mark.parametrize(
    ("break_", "reason"),
    [
        (_NotFound, "the monitoring daemon answered with the status 404"),
        (_NotYet, r"No data \x1b[31m yet"),
        (_Garbage, "the answer of the monitoring daemon: Malformed JSON"),
        (_Binary, "the answer of the monitoring daemon is not a text in UTF-8"),
        (_Endless, ""),
        (_Refused, ""),
        (_NoName, "this is not the name of a host"),
    ],
)
def test_a_node_without_a_report_is_named_and_no_report_counts(
    site: Site, break_: Callable[[Site], None], reason: str
) -> None:
    site.Answer(6.0, 0.5)
    break_(site)
    code, loads, lines = site.Loads()
    # The load that every instance has by itself.
    assert (code, loads) == (0, [3.0, 0.0, 0.0])
    [problem, ignored] = lines
    assert problem.startswith(f"Node {site.names[1]}: no report of cpu-avg-load: {reason}")
    assert len(problem) > len(f"Node {site.names[1]}: no report of cpu-avg-load: ")
    assert ignored == IGNORED.format("cpu-avg-load")


def test_a_report_of_another_shape_does_not_count(site: Site) -> None:
    site.Answer(6.0, 0.5)
    site.daemons[1].answers[CPU] = _Report("cpu-avg-load", {"cpu_total": "much"})
    assert site.Loads() == (0, [3.0, 0.0, 0.0], [IGNORED.format("cpu-avg-load")])


def test_hbal_can_insist(site: Site, tmp_path: pathlib.Path) -> None:
    out, err = io.StringIO(), io.StringIO()
    words = ["-t", str(tmp_path / "cluster.data"), "--mond", "--exit-on-missing-mond-data"]
    assert main.Run("hbal", words, Streams(out, err, lambda path, text: None)) == 1
    assert err.getvalue().splitlines()[-1] == "Error: Not all required data available"


def test_ignored_loads_are_not_asked_for(site: Site) -> None:
    assert site.Loads("--ignore-dynu")[2] == []


def test_silent_servers_are_waited_for_together() -> None:
    """They accept connections and say nothing; each has its whole time, and all have it at once."""
    lease = Lease()
    listeners = [socket.create_server((lease.Address(), PORT)) for _ in range(2 * fetch.PARALLEL // 10)]
    urls = [f"http://{listener.getsockname()[0]}:{PORT}/" for listener in listeners]
    start = time.monotonic()
    answers = fetch.FetchAll(["gopher://x/", *urls, "http://[/"], fetch.Limits(connect=2, total=2, size=10))
    assert all(isinstance(answer, fetch.FetchError) for answer in answers)
    assert len(answers) == len(urls) + 2
    assert time.monotonic() - start < 2 * len(listeners)
    for listener in listeners:
        listener.close()


def test_answers_stand_in_the_order_of_questions(site: Site) -> None:
    """More servers than are asked together."""
    for number, daemon in enumerate(site.daemons):
        daemon.answers["/"] = str(number).encode()
    urls = [f"http://{name}:{PORT}/" for name in site.names[:2]] * fetch.PARALLEL
    answers = fetch.FetchAll(urls, fetch.Limits(connect=20, total=20, size=10))
    assert [answer.body if isinstance(answer, fetch.Answer) else answer for answer in answers] == [
        b"0",
        b"1",
    ] * fetch.PARALLEL
