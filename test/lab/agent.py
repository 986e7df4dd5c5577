"""The agent of a laboratory's node: reads requests from a serial port, a line of JSON each, and answers likewise.

    {"number": N, "argv": [...], "stdin": TEXT, "seconds": N, "env": {...}}
        -> {"number": N, "status": N, "stdout": TEXT, "stderr": TEXT}

It is the node's first process: it takes care of orphans, and never ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from io import RawIOBase
from typing import Any

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def Serve(request: dict[str, Any]) -> dict[str, Any]:
    env = {"PATH": PATH, "LC_ALL": "C", "HOME": "/root", **request.get("env", {})}
    try:
        done = subprocess.run(
            request["argv"],
            env=env,
            input=request.get("stdin", ""),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=request.get("seconds", 60),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as err:
        return {"status": 127, "stdout": "", "stderr": str(err)}
    return {"status": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


def Work(port: RawIOBase, lock: threading.Lock, line: bytes) -> None:
    number = None
    try:
        request = json.loads(line)
        number = request["number"]
        answer = Serve(request)
    except Exception:  # noqa: BLE001 - whoever asked gets it
        answer = {"status": 126, "stdout": "", "stderr": traceback.format_exc()}
    with lock:
        WriteAll(port, json.dumps({"number": number, **answer}).encode() + b"\n")


def WriteAll(port: RawIOBase, data: bytes) -> None:
    """Write everything: the port takes 32 KiB at a time, and says so only by what it returns."""
    rest = memoryview(data)
    while rest:
        rest = rest[port.write(rest) or 0 :]


def KeepShell() -> None:
    """Keep a shell on the second serial port, for people."""
    env = {"PATH": PATH, "HOME": "/root", "TERM": "linux", "LC_ALL": "C.UTF-8"}
    while True:
        with open("/dev/ttyS1", "r+b", buffering=0) as tty:
            subprocess.run(
                ["setsid", "-c", "bash", "-i"], stdin=tty, stdout=tty, stderr=tty, env=env, cwd="/", check=False
            )


def FindPort() -> str:
    """Return the device of the port; nobody makes links here."""
    folder = "/sys/class/virtio-ports"
    for name in os.listdir(folder):
        with contextlib.suppress(OSError), open(f"{folder}/{name}/name", encoding="ascii") as stream:
            if stream.read().strip() == "agent":
                return f"/dev/{name}"
    raise SystemExit("agent: there is no such port")


def Main() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    lock = threading.Lock()
    threading.Thread(target=KeepShell, daemon=True).start()
    with open(FindPort(), "r+b", buffering=0) as port:
        port.write(b'{"number": 0, "status": 0, "stdout": "ready", "stderr": ""}\n')
        rest = b""
        while True:
            data = port.read(65536)
            if not data:
                # Nobody holds the other end at the moment.
                signal.sigtimedwait([], 0.2)
                continue
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                threading.Thread(target=Work, args=(port, lock, line), daemon=True).start()


if __name__ == "__main__":
    try:
        Main()
    finally:
        sys.stdout.flush()
