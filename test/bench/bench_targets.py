"""Measure every number that is promised, and print each beside its target.

Run by hand from the top of the tree, on a machine that does nothing else: ``python test/bench/bench_targets.py [PART ...]``.
It takes about six minutes with 2 cores, most of them for the memory after 10^5 jobs, which comes last; interrupted, it
prints what it has.  The parts are listed at the end of this file.  What takes hours is not
measured here: faults caught, by ``tools/mutate``; 10^5 seeds of migration, by ``tools/simulate migration``.

Master daemon, node daemons and clients are real processes on addresses of 127.0.0.0/8 and share the machine.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

_TEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(_TEST, ".."), _TEST, os.path.join(_TEST, "unit/jqueue")]

import bench_cluster  # noqa: E402
import bench_confd  # noqa: E402
import bench_drbd  # noqa: E402
import bench_events  # noqa: E402
import bench_failover  # noqa: E402
import bench_jobs  # noqa: E402
import bench_rapi  # noqa: E402
import bench_store  # noqa: E402
import bench_verify  # noqa: E402
import bench_watcher  # noqa: E402
from simulation.migration.run import Run  # noqa: E402
from support.realcluster import FollowJob, RealCluster, RealNode, WaitUntil  # noqa: E402
from support.strangers import Strangers  # noqa: E402
from test_scheduler import EndCost  # noqa: E402

from ganeti.luxi import client as luxi_client  # noqa: E402
from ganeti.luxi import protocol  # noqa: E402
from ganeti.server import masterd  # noqa: E402

MASTERD = "ganeti-masterd"
JOBS = 100_000
GROUP = 1000
ROWS = 50_000
QUEUE = "/var/lib/ganeti/queue"
MESSAGE = 60 << 20


class Line(NamedTuple):
    what: str
    target: str
    measured: str
    met: bool

    def __str__(self) -> str:
        return f"{self.what:<66} {self.target:>14} {self.measured:>26}  {'met' if self.met else 'MISSED'}"


def Percent(times: Sequence[float], part: float) -> float:
    """Return the milliseconds within which this part of the times lies."""
    return 1000 * sorted(times)[min(int(len(times) * part), len(times) - 1)]


@contextlib.contextmanager
def Served(count: int = 3) -> Iterator[RealCluster]:
    """Nodes that are all master candidates, and a master daemon."""
    with RealCluster(count) as cluster:
        cluster.MakeOs("empty")
        cluster.StartNodeDaemons()
        cluster[0].StartMaster()
        yield cluster


# --- jobs -------------------------------------------------------------------------------------------------------------


def Jobs() -> Iterator[Line]:
    with Served() as cluster:
        bench = bench_jobs.Bench(cluster)
        names = [node.name for node in cluster.nodes]
        bench.AtOnce("warm-up", [bench_jobs.OP] * 200)
        numbers = itertools.count(1)

        def instances() -> list[dict[str, object]]:
            found = []
            for number in itertools.islice(numbers, 100):
                address = f"198.51.{number >> 8}.{number & 255}"
                found.append(bench_cluster.NewInstance(f"new{number}.example.com", address, names[number % 3]))
            return found

        one_node = [{**bench_jobs.OP, "on_nodes": [names[number % 3]]} for number in range(200)]
        for title, target, make in (
            ("200 jobs that do nothing, at once", 500, lambda: [bench_jobs.OP] * 200),
            ("200 jobs that want one lock", 200, lambda: [{**bench_jobs.OP, "on_master": True}] * 200),
            ("200 jobs that call one node each", 250, lambda: one_node),
            ("instance add (fake), 20 in parallel", 35, instances),
        ):
            rates = [bench.AtOnce(title, make()) for _ in range(5)]
            rate = statistics.median(rates)
            yield Line(title, f"{target}/s", f"{rate:.0f}/s (best {max(rates):.0f})", rate >= target)


# --- LUXI -------------------------------------------------------------------------------------------------------------


def Ask(client: luxi_client.Client, count: int) -> list[float]:
    times = []
    for _ in range(count):
        began = time.perf_counter()
        client.QueryClusterInfo()
        times.append(time.perf_counter() - began)
    return times


def Clients() -> Iterator[Line]:
    with Served() as cluster, cluster[0].Client() as client:
        Ask(client, 200)
        half = Percent(Ask(client, 3000), 0.5)
        yield Line("LUXI QueryClusterInfo", "p50 0.5 ms", f"{half:.2f} ms", half <= 0.5)
        silent = [Connect(cluster[0]) for _ in range(300)]
        for sock in silent[::2]:
            sock.sendall(b'{"method": "QueryClusterInfo", ')
        slow = Percent(Ask(client, 3000), 0.99)
        for sock in silent[::2]:
            sock.sendall(b'"args": []}' + protocol.EOM)
        held = all(sock.recv(1) for sock in silent[::2])
        for sock in silent:
            sock.close()
        assert held, "a silent client was dropped"
        yield Line("300 silent LUXI clients, all held: a good one", "p99 20 ms", f"{slow:.2f} ms", slow <= 20)


def Connect(node: RealNode) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(node.Path("/var/run/ganeti/socket/ganeti-query"))  # blocking: it waits while the queue is full
    sock.settimeout(60)
    return sock


def Filled(piece: bytes, last: bytes = b"", first: bytes = b"") -> bytes:
    """Return so many pieces as a message of 60 MiB holds."""
    return first + piece * ((MESSAGE - len(first) - len(last)) // len(piece)) + last


# So that the jobs before it are not stored.
UNKNOWN = b'[{"OP_ID":"OP_UNKNOWN"}]'

# What a message may consist of.  The values stand in the list of jobs that are to be submitted.
KINDS: dict[str, Callable[[], bytes]] = {
    "empty lists": lambda: Filled(b"[],", b"[]"),
    "empty objects": lambda: Filled(b"{},", b"{}"),
    "numbers": lambda: Filled(b"1,", b"1"),
    "brackets that never close": lambda: Filled(b"["),
    "commas": lambda: Filled(b","),
    "quotation marks": lambda: Filled(b'"'),
    "spaces": lambda: Filled(b" ", b"1"),
    "one string": lambda: Filled(b"x", b'"', b'"'),
    "one key": lambda: Filled(b"x", b'":1}', b'{"'),
    "keys of 2000 characters": lambda: Filled(b'{"' + b"x" * 2000 + b'":1},', b"1"),
    "one string of escapes": lambda: Filled(b"\\n", b'"', b'"'),
    "one string with a rare character": lambda: Filled(b"x", b'"', b'"' + "\U0001f600".encode()),
    "one string of rare characters": lambda: Filled("\U0001f600".encode(), b'"', b'"'),
    "strings of 100 characters": lambda: Filled(b'"' + b"x" * 100 + b'",', b'""'),
    "strings of 2000 characters": lambda: Filled(b'"' + b"x" * 2000 + b'",', b'""'),
    "strings full of commas and brackets": lambda: Filled(b'"' + b"[,{," * 25 + b'",', b'""'),
    "long numbers": lambda: Filled(b"1" * 4000 + b",", b"1"),
    "one long number": lambda: Filled(b"1"),
    "jobs with a long comment": lambda: Filled(
        b'[{"OP_ID":"OP_TEST_DELAY","duration":0.0,"comment":"' + b"x" * 4000 + b'"}],', UNKNOWN
    ),
    "jobs of usual size": lambda: Filled(
        b'[{"OP_ID":"OP_TEST_DELAY","duration":0.0,"on_master":false,"on_nodes":[],"reason":[]}],', UNKNOWN
    ),
}


class Beside:
    """Another client while a message is worked on; and how much memory masterd and its worker programs take."""

    def __init__(self, node: RealNode):
        self._node = node
        self._pid = node.Pid(MASTERD)
        self._stop = threading.Event()
        self.times: list[float] = []
        self._peaks: dict[int, int] = {}
        self._threads = [threading.Thread(target=self._Ask), threading.Thread(target=self._Watch)]

    def __enter__(self) -> Beside:
        with open(f"/proc/{self._pid}/clear_refs", "w", encoding="ascii") as stream:
            stream.write("5")  # the peak is counted from here
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._Look()

    def _Ask(self) -> None:
        with self._node.Client() as client:
            while not self._stop.wait(0.005):
                self.times += Ask(client, 1)

    def _Watch(self) -> None:
        while not self._stop.wait(0.05):
            self._Look()

    def _Look(self) -> None:
        done = subprocess.run(["pgrep", "-P", str(self._pid)], capture_output=True, text=True, check=False)
        for pid in [self._pid, *map(int, done.stdout.split())]:
            with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="ascii") as stream:
                found = re.search(r"VmHWM:\s+(\d+)", stream.read())
                if found:
                    self._peaks[pid] = max(self._peaks.get(pid, 0), int(found[1]))

    @property
    def mib(self) -> float:
        """Return the peak of masterd and the highest one of a child, together."""
        children = [peak for pid, peak in self._peaks.items() if pid != self._pid]
        return (self._peaks[self._pid] + max(children, default=0)) / 1024


def Converse(node: RealNode, text: bytes) -> bytes:
    with Connect(node) as sock:
        sock.sendall(text)
        parts = []
        while (part := sock.recv(1 << 20)) and not part.endswith(protocol.EOM):
            parts.append(part)
        return b"".join([*parts, part])


def Messages() -> Iterator[Line]:
    worst: dict[str, tuple[float, str]] = {}
    with Served() as cluster:
        for kind, make in KINDS.items():
            text = b'{"method":"SubmitManyJobs","args":[[' + make() + b"]]}" + protocol.EOM
            took = 0.0
            with Beside(cluster[0]) as beside:
                for _ in range(5):
                    began = time.perf_counter()
                    answer = Converse(cluster[0], text)
                    took = max(took, time.perf_counter() - began)
                    if len(beside.times) > 200:  # so that one of a hundred is not just the slowest
                        break
            slow = Percent(beside.times, 0.99)
            print(
                f"{kind:40} {took:6.2f} s  {beside.mib:5.0f} MiB  others p99 {slow:6.1f} ms  {answer[:90]!r}",
                flush=True,
            )
            for key, value in (("s", took), ("MiB", beside.mib), ("ms", slow)):
                worst[key] = max(worst.get(key, (0.0, "")), (value, kind))
    for what, target, key in (
        ("a 60 MiB LUXI message, whatever its content", 5, "s"),
        ("masterd and its worker program meanwhile", 400, "MiB"),
        ("other clients meanwhile, p99", 50, "ms"),
    ):
        value, kind = worst[key]
        yield Line(what, f"{target} {key}", f"{value:.1f} {key} ({kind})", value <= target)


# --- strangers --------------------------------------------------------------------------------------------------------


def Outsiders() -> Iterator[Line]:
    with RealCluster(3) as cluster:
        cluster.StartNodeDaemons()
        with Strangers([node.address for node in cluster.nodes], 250):
            cluster[0].StartMaster()
            times = []
            with cluster[0].Client() as client:
                for number in range(500):
                    began = time.perf_counter()
                    client.Call("SetDrainFlag", [number % 2 == 0])
                    times.append(time.perf_counter() - began)
    slow = Percent(times, 0.99)
    what = "250 connections of strangers on each noded: commits"
    yield Line(what, "p99 200 ms", f"{slow:.1f} ms (p50 {Percent(times, 0.5):.1f})", slow <= 200)


# --- what grows -------------------------------------------------------------------------------------------------------


def Rows() -> Iterator[Line]:
    cpu = []
    for count in (100, ROWS):
        with tempfile.TemporaryDirectory() as folder:
            own = bench_store.Filled(folder, count)
            cpu.append(1000 * bench_store.MeasurePruning(own, count))
            own.Close()
    more = cpu[1] - cpu[0]
    yield Line("50,000 rows: commit with pruning, more CPU than with 100", "1 ms", f"{more:.2f} ms", more <= 1)
    more = 1000 * (EndCost(ROWS) - EndCost(100))
    yield Line("50,000 jobs wait for a rate limit: end of a job, likewise", "1 ms", f"{more:.2f} ms", more <= 1)


def RunGroup(client: luxi_client.Client, count: int) -> int:
    """Run so many jobs that do nothing; return the id of the last."""
    ids = [job_id for _, job_id in client.SubmitManyJobs([[bench_jobs.OP]] * count)]
    for job_id in ids[-20:]:  # the others cannot end later than all of these
        FollowJob(client, job_id)
    return ids[-1]


def Memory() -> Iterator[Line]:
    with Served() as cluster, cluster[0].Client() as client:
        pid = cluster[0].Pid(MASTERD)
        before = bench_cluster.Pss(pid)
        for done in range(0, JOBS, GROUP):
            RunGroup(client, GROUP)
            if done % (2 * GROUP) == 0:
                client.AutoArchiveJobs(-1)
            if done % (10 * GROUP) == 0:
                print(f"{done + GROUP} jobs: {bench_cluster.Pss(pid):.1f} MiB", flush=True)
        WaitUntil(lambda: client.AutoArchiveJobs(-1)[0] == 0 and not client.QueryJobs(None, ["id"]), "archived", 120)
        last, grown = None, 0.0
        while last is None or abs(last - grown) > 0.5:  # the files of the last jobs are still being written
            last = grown
            time.sleep(masterd.TIDY_EVERY + 3)
            grown = bench_cluster.Pss(pid) - before
    yield Line(
        f"masterd after {JOBS} jobs, archived", "10 MiB more", f"{grown:.1f} MiB ({before:.1f} before)", grown <= 10
    )


def EndedJob() -> str:
    """Return the file of a job that has ended, as the number 7."""
    with Served(1) as cluster:
        node = cluster[0]
        with node.Client() as client:
            number = client.SubmitJob([bench_jobs.OP])
            FollowJob(client, number)
        node.Stop(MASTERD)
        return node.Read(f"{QUEUE}/job-{number}").replace(f'"id":{number},', '"id":7,')


def Start() -> Iterator[Line]:
    text = EndedJob()
    assert '"id":7,' in text and '"success"' in text, text
    with RealCluster(3) as cluster:
        node = cluster[0]
        node.Write(f"{QUEUE}/version", "1\n")
        node.Write(f"{QUEUE}/serial", f"{ROWS}\n")
        for number in range(1, ROWS + 1):
            node.Write(f"{QUEUE}/job-{number}", text.replace('"id":7,', f'"id":{number},'))
        cluster.StartNodeDaemons()
        times = []
        for _ in range(3):
            began = time.perf_counter()
            node.StartMaster()
            with node.Client() as client:
                client.QueryClusterInfo()
                times.append(time.perf_counter() - began)
                assert len(client.QueryJobs(None, ["id"])) == ROWS
            node.Stop(MASTERD)
        print(f"first start, on job files: {times[0]:.1f} s; later {times[1]:.1f} and {times[2]:.1f} s")
    took = min(times[1:])
    yield Line("start with 50,000 jobs until a client is served", "1 s", f"{took:.2f} s", took <= 1)


# --- verification -----------------------------------------------------------------------------------------------------


def Verification() -> Iterator[Line]:
    found = bench_verify.Run(20, 500)
    wrong = [
        text for text in found.findings if ":ENODELVM:" in text or ":ENODEORPHANLV:" in text or ":EINSTANCE" in text
    ]
    print(f"CPU of the master {found.master:.2f} s, of the node daemons {found.nodes:.2f} s; findings: {wrong[:3]}")
    yield Line(
        "gnt-cluster verify, 20 nodes with 500 volumes each",
        "3 s",
        f"{found.wall:.2f} s",
        found.wall <= 3 and not wrong,
    )


def Watch() -> Iterator[Line]:
    found = bench_watcher.Measure()
    what = "a run of the watcher with 500 instances, nothing to do"
    yield Line(what, "1 s", f"{found.wall:.2f} s", found.wall <= 1)
    yield Line("  its CPU", "0.5 s", f"{found.cpu:.2f} s", found.cpu <= 0.5)


def Failover() -> Iterator[Line]:
    seconds = bench_failover.Run(20)
    what = "dead primary node: 20 instances run on their secondary"
    yield Line(what, "10 s", f"{seconds:.2f} s", seconds <= 10)


def Mirrors() -> Iterator[Line]:
    took = bench_drbd.ByTheClock()
    seconds = took[len(took) // 2]
    bench_drbd.Run()
    cost = bench_drbd.Run()
    text = (
        f"{seconds:.2f} s, drivers apart, and {cost.ours:.2f} s of CPU for {cost.calls} calls and {cost.runs} programs"
    )
    yield Line("a 1 GiB drbd instance, not waiting for its resync", "1 s", text, seconds + cost.ours <= 1)


def Rest() -> Iterator[Line]:
    for node in bench_rapi.Served(bench_rapi.FEW):
        idle = bench_rapi.Memory(node)
        yield Line("ganeti-rapi, idle, PSS", "60 MiB", f"{idle:.1f} MiB", idle <= 60)
        one = bench_rapi.Requests(node, "/2/info", 1)
        text = f"{one.rate:.0f}/s, p99 {one.p99:.1f} ms"
        yield Line("GET /2/info, one connection", "600/s, 6 ms", text, one.rate >= 600 and one.p99 <= 6)
        eight = bench_rapi.Requests(node, "/2/info", 8)
        yield Line("GET /2/info, 8 connections", "1000/s", f"{eight.rate:.0f}/s", eight.rate >= 1000)
        crowd = bench_rapi.BesideOthers(node)
        what = f"a good client beside {bench_rapi.IDLE} idle and {bench_rapi.SLOW} slow ones, p99"
        yield Line(what, "20 ms", f"{crowd.p99:.1f} ms", crowd.p99 <= 20)
        yield Line("ganeti-rapi with these connections, PSS", "250 MiB", f"{crowd.memory:.1f} MiB", crowd.memory <= 250)
    for node in bench_rapi.Served(bench_rapi.INSTANCES):
        lists = bench_rapi.ListInstances(node)
        text = f"{lists.bulk:.0f} ms, CPU {lists.bulk_cpu:.0f} ms"
        yield Line(f"GET /2/instances?bulk=1, {bench_rapi.INSTANCES} instances", "250 ms", text, lists.bulk <= 250)
        yield Line("GET /2/instances with a matching ETag", "5 ms", f"{lists.known:.1f} ms", lists.known <= 5)


def Followers() -> Iterator[Line]:
    for node in bench_rapi.Served():
        delays = bench_events.Follow(node)
        what = f"a job's change to its line at {bench_events.LISTENERS} listeners, p99"
        text = f"{delays.p99:.1f} ms (p50 {delays.p50:.1f} ms, CPU {delays.cpu:.1f} ms an event)"
        yield Line(what, "30 ms", text, delays.p99 <= 30)
        yield Line(
            "  its lines that never came",
            "0",
            f"{delays.missing} of {delays.lines + delays.missing}",
            not delays.missing,
        )


def Confd() -> Iterator[Line]:
    for load in bench_confd.Served():
        full = load.Full(bench_confd.PORTION)
        rate = full.answers / full.seconds
        yield Line("ganeti-confd, 2000 instances, answers", "5000/s", f"{rate:.0f}/s", rate >= 5000)
        even = load.Even(bench_confd.PORTION, bench_confd.RATE)
        text = f"{even.Delay(0.99):.2f} ms ({even.lost} lost)"
        yield Line("  at 5000 questions/s, p99", "5 ms", text, even.Delay(0.99) <= 5)
        size = load.Remembered()
        yield Line("  what it remembers of a question", "16 bytes", f"{size:.1f} bytes", size <= 16)


# --- simulation -------------------------------------------------------------------------------------------------------


def Seeds() -> Iterator[Line]:
    before, count = logging.root.handlers[:], 100
    logging.root.handlers[:] = [logging.NullHandler()]
    Run(1)
    began = time.process_time()
    broken = [seed for seed in range(1, count + 1) if Run(seed).problem]
    cpu = (time.process_time() - began) / count
    logging.root.handlers[:] = before
    yield Line("a seed of the migration's simulation, CPU", "0.05 s", f"{cpu:.3f} s", cpu <= 0.05 and not broken)


PARTS: dict[str, Callable[[], Iterator[Line]]] = {
    "jobs": Jobs,
    "clients": Clients,
    "messages": Messages,
    "outsiders": Outsiders,
    "rows": Rows,
    "start": Start,
    "verification": Verification,
    "watcher": Watch,
    "failover": Failover,
    "mirrors": Mirrors,
    "rapi": Rest,
    "events": Followers,
    "confd": Confd,
    "seeds": Seeds,
    "memory": Memory,
}


def Main() -> None:
    unknown = set(sys.argv[1:]) - PARTS.keys()
    if unknown:
        sys.exit(f"unknown part '{', '.join(sorted(unknown))}': choose from {', '.join(PARTS)}")
    lines = []
    with contextlib.suppress(KeyboardInterrupt):
        for name in sys.argv[1:] or PARTS:
            began = time.perf_counter()
            for line in PARTS[name]():
                print(line, flush=True)
                lines.append(line)
            print(f"--- {name}: {time.perf_counter() - began:.0f} s", flush=True)
    print()
    for line in lines:
        print(line)


if __name__ == "__main__":
    Main()
