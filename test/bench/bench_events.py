"""The stream of events: from the acknowledged change of a job to the line at each of many listeners.

From the top of the tree: ``python test/bench/bench_events.py``; ``bench_targets.py events`` shows the numbers beside their
targets.  Daemons and listeners are real processes that share the machine.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from typing import NamedTuple

_TEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(_TEST, ".."), _TEST]

import bench_jobs  # noqa: E402
import bench_rapi  # noqa: E402
from support.realcluster import FollowJob, RealNode  # noqa: E402

from ganeti import constants  # noqa: E402
from ganeti.luxi import client as luxi_client  # noqa: E402

LISTENERS = 200
JOBS = 100
PAUSE = 0.05

# Reads the streams; prints "ready" when all have begun, and at the end of its input each line: listener, event, delay.
_LISTENERS = r"""
import asyncio, json, ssl, sys, time

address, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
came = []


class Listener(asyncio.Protocol):
    def __init__(self, number, up):
        self.number, self.up = number, up

    def connection_made(self, transport):
        transport.write(b"GET /2/events?kind=job HTTP/1.1\r\nHost: x\r\n\r\n")

    def data_received(self, data):
        if self.up is not None and b"\nid: " in data:
            self.up.set_result(None)
            self.up = None
        elif b"\ndata: " in data:
            came.append((self.number, time.time(), data))


async def main():
    loop = asyncio.get_running_loop()
    for number in range(count):
        up = loop.create_future()
        await loop.create_connection(lambda: Listener(number, up), address, port, ssl=context)
        await up
    print("ready", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    lines = []
    for number, moment, data in came:
        for line in data.split(b"\n"):
            if line.startswith(b"data: "):
                event = json.loads(line[6:])
                lines.append([number, event["id"], moment - event["time"]])
    print(json.dumps(lines))


asyncio.run(main())
"""


class Delays(NamedTuple):
    """Milliseconds, how many lines came and how many did not, and the CPU time of the REST daemon for one event at all listeners.

    A line that never came counts as one with an endless delay.
    """

    p50: float
    p99: float
    lines: int
    missing: int
    cpu: float


def _Count(came: list[tuple[int, str, float]], happened: list[str], listeners: int) -> tuple[list[float], int]:
    """Return all delays, sorted, and how many lines are missing of the events that the master daemon knows of."""
    first = {(number, event): delay for number, event, delay in reversed(came)}
    wanted = [(number, event) for number in range(listeners) for event in happened]
    delays = sorted(first.get(key, math.inf) for key in wanted)
    return delays, delays.count(math.inf)


def _Happened(client: luxi_client.Client, last: str) -> list[str]:
    """Return the ids of the events of jobs after one of them."""
    found: list[str] = []
    while True:
        answer = client.WaitForEvents(last, ["job"], 0)
        assert not answer["missed"]
        if not answer["events"]:
            return found
        found += [event["id"] for event in answer["events"]]
        last = answer["last"]


def Follow(node: RealNode, listeners: int = LISTENERS) -> Delays:
    """Run jobs one after the other while listeners follow them all."""
    port = str(constants.DEFAULT_RAPI_PORT)
    pid = node.Pid(bench_rapi.RAPI)
    argv = [sys.executable, "-c", _LISTENERS, node.address, port, str(listeners)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as others:
        try:
            assert others.stdout is not None and others.stdin is not None
            assert others.stdout.readline() == "ready\n"
            cpu = bench_rapi.CpuSeconds(pid)
            with node.Client() as client:
                last = client.WaitForEvents(None, ["job"], 0)["last"]
                for _ in range(JOBS):
                    FollowJob(client, client.SubmitJob([bench_jobs.OP]))
                    time.sleep(PAUSE)
                time.sleep(1)
                happened = _Happened(client, last)
            cpu = bench_rapi.CpuSeconds(pid) - cpu
            others.stdin.close()
            delays, missing = _Count(json.loads(others.stdout.readline()), happened, listeners)
        finally:
            others.kill()
    p50, p99 = (1000 * delays[int(len(delays) * part)] for part in (0.5, 0.99))
    return Delays(p50, p99, len(delays) - missing, missing, 1000 * cpu / len(happened))


if __name__ == "__main__":
    for one in bench_rapi.Served():
        for number in (1, LISTENERS):
            print(f"{number} listeners: {Follow(one, number)}", flush=True)
