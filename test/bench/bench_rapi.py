"""The REST daemon: requests in a second, what it does to a good client when others are slow, memory.

From the top of the tree: ``python test/bench/bench_rapi.py``; ``bench_targets.py rapi`` shows the numbers beside their
targets.  Daemons and clients are real processes and share the machine; CPU times say what an unloaded one would show.
"""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

_TEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(_TEST, ".."), _TEST]

import bench_cluster  # noqa: E402
from support.rapihttp import Rapi  # noqa: E402
from support.rapiserver import ReadAnswer  # noqa: E402
from support.realcluster import RealCluster, RealNode  # noqa: E402

from ganeti import constants, runtime  # noqa: E402

RAPI = "ganeti-rapi"
SECONDS = 5.0
IDLE, SLOW = 1000, 100
INSTANCES = 2000
# Of the cluster that the good client asks about.
FEW = 20
GOOD = "/2/instances/inst1.example.com"

# Holds connections: idle ones have had one answer, slow ones send a header's byte now and then; "ready" when all are up.
_HOLDERS = r"""
import asyncio, resource, ssl, sys

address, port, idle, slow = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
gate = asyncio.Semaphore(20)


async def connect():
    async with gate:
        return await asyncio.open_connection(address, port, ssl=context)


async def hold(up):
    while True:
        reader, writer = await connect()
        writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"2\n")
        up.release()
        await reader.read()
        writer.close()


async def drip(up):
    while True:
        reader, writer = await connect()
        up.release()
        try:
            for byte in b"GET /version HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 1000:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.5)
                if reader.at_eof():
                    break
        except OSError:
            pass
        writer.close()


async def main():
    up = asyncio.Semaphore(0)
    tasks = [asyncio.create_task(hold(up)) for _ in range(idle)] + [asyncio.create_task(drip(up)) for _ in range(slow)]
    for _ in tasks:
        await up.acquire()
    print("ready", flush=True)
    await asyncio.gather(*tasks)


asyncio.run(main())
"""


class Rate(NamedTuple):
    """Requests in a second, milliseconds within which 99 of 100 were answered, CPU milliseconds of both daemons for each."""

    rate: float
    p99: float
    cpu: float
    master: float


class Crowd(NamedTuple):
    """A good client's p99 beside the others in milliseconds, memory of the daemon in MiB."""

    p99: float
    memory: float


def _Connect(address: str) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(runtime.ConnectTcp(address, constants.DEFAULT_RAPI_PORT, 30))  # type: ignore[arg-type]


def CpuSeconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="ascii") as stream:
        fields = stream.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _Ask(address: str, path: str, connections: int, seconds: float, pause: float = 0.0) -> list[float]:
    """Keep a request under way on each connection; return how long each took."""
    request = f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode()
    socks = [_Connect(address) for _ in range(connections)]
    sent, times = [], []
    until = time.perf_counter() + seconds
    for sock in socks:
        sent.append(time.perf_counter())
        sock.sendall(request)
    while time.perf_counter() < until:
        for number, sock in enumerate(socks):
            status, _, _ = ReadAnswer(sock)
            times.append(time.perf_counter() - sent[number])
            assert status == 200
            time.sleep(pause)
            sent[number] = time.perf_counter()
            sock.sendall(request)
    for sock in socks:
        sock.close()
    return times


def _P99(times: list[float]) -> float:
    return 1000 * sorted(times)[int(len(times) * 0.99)]


def Requests(node: RealNode, path: str, connections: int) -> Rate:
    """Ask for one path on this many connections, each kept alive, as quickly as answers come."""
    pids = [node.Pid(name) for name in (RAPI, "ganeti-masterd")]
    before = [CpuSeconds(pid) for pid in pids]
    times = _Ask(node.address, path, connections, SECONDS)
    cpu = [1000 * (CpuSeconds(pid) - used) / len(times) for pid, used in zip(pids, before, strict=True)]
    return Rate(len(times) / SECONDS, _P99(times), *cpu)


def BesideOthers(node: RealNode) -> Crowd:
    """Ask for an instance, which its node is asked about, at most a hundred times a second, beside idle and slow connections."""
    port = str(constants.DEFAULT_RAPI_PORT)
    argv = [sys.executable, "-c", _HOLDERS, node.address, port, str(IDLE), str(SLOW)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as others:
        try:
            assert others.stdout is not None and others.stdout.readline() == "ready\n"
            times = _Ask(node.address, GOOD, 1, 2 * SECONDS, pause=0.01)
            return Crowd(_P99(times), bench_cluster.Pss(node.Pid(RAPI)))
        finally:
            others.kill()


def Memory(node: RealNode) -> float:
    return bench_cluster.Pss(node.Pid(RAPI))


class Lists(NamedTuple):
    """Milliseconds for lists of many instances: all fields, and links that the client has already; CPU of all daemons."""

    bulk: float
    known: float
    bulk_cpu: float


def ListInstances(node: RealNode) -> Lists:
    """Ask for instances one request after the other; the median of some."""
    with Rapi(node) as rapi:
        pids = [node.Pid(name) for name in (RAPI, "ganeti-masterd", "ganeti-noded")]
        tag = {"If-None-Match": rapi.Ask("GET", "/2/instances").headers["etag"]}
        cpu = sum(map(CpuSeconds, pids))
        bulk = _Median(lambda: rapi.Ask("GET", "/2/instances?bulk=1"), 10)
        cpu = (sum(map(CpuSeconds, pids)) - cpu) / 10
        return Lists(bulk, _Median(lambda: rapi.Ask("GET", "/2/instances", headers=tag), 100), 1000 * cpu)


def _Median(act: Callable[[], object], count: int) -> float:
    times = []
    for _ in range(count):
        began = time.perf_counter()
        act()
        times.append(time.perf_counter() - began)
    return 1000 * sorted(times)[count // 2]


def Served(instances: int = 0) -> Iterator[RealNode]:
    with RealCluster(1) as cluster:
        if instances:
            bench_cluster.WithInstances(cluster, instances)
        cluster.StartWithRapi()
        yield cluster[0]


def Libraries() -> Iterator[tuple[str, float]]:
    """Yield by how many MiB each library makes a process larger that has those before it."""
    loaded, before = "asyncio, ssl, logging, json", 0.0
    for name in ("", "h11", "uvicorn.protocols.http.h11_impl", "starlette.responses"):
        loaded += f", {name}" if name else ""
        read = "print(next(l for l in open('/proc/self/smaps_rollup') if l.startswith('Pss:')).split()[1])"
        argv = [sys.executable, "-c", f"import {loaded}\n{read}"]
        size = int(subprocess.run(argv, capture_output=True, text=True, check=True).stdout) / 1024
        if name:
            yield name, size - before
        before = size


if __name__ == "__main__":
    for library, mib in Libraries():
        print(f"{library}: {mib:.1f} MiB")
    for one in Served(FEW):
        print(f"idle: {Memory(one):.1f} MiB")
        for count in (1, 8):
            print(f"/2/info, {count} connections: {Requests(one, '/2/info', count)}")
        print(f"beside {IDLE} idle and {SLOW} slow connections: {BesideOthers(one)}")
    for one in Served(INSTANCES):
        print(f"lists of {INSTANCES} instances: {ListInstances(one)}")
