"""Real guests for tests: kernel and ramdisk, a serial console to talk to, hvparams for software emulation."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

from ganeti.params import hv

CACHE = Path(os.environ.get("GANETI_LAB_CACHE", f"/var/tmp/ganeti-lab-{os.getuid()}"))
TREE = Path(__file__).parents[2]
QEMU = "/usr/bin/qemu-system-x86_64"

# Seconds for what a guest says; with software emulation, beside others, it may take minutes to boot.
_PATIENCE = 300.0

_LINE = re.compile(rb"mini (\S+) boot-id=([0-9a-f-]{36}) uptime=([0-9.]+)")


def GuestFiles() -> Path:
    """Directory with ``vmlinuz`` and ``initrd.gz``; made at the first use, which needs Debian's mirror."""
    directory = CACHE / "mini"
    directory.parent.mkdir(mode=0o700, exist_ok=True)
    subprocess.run([TREE / "os" / "mini" / "make-files", directory], check=True, timeout=600)
    return directory


def TcgParams(direct: bool = True, **more: Any) -> dict[str, Any]:
    """Filled parameters of a guest in software emulation; ``direct``: boots the kernel of ``GuestFiles``."""
    files = GuestFiles()
    values = {
        **hv.DEFAULTS["kvm"],
        "kvm_path": QEMU,
        "kvm_flag": "disabled",
        "vhost_net": False,
        "serial_speed": 115200,
    }
    values["kernel_path"] = str(files / "vmlinuz") if direct else ""
    values["initrd_path"] = str(files / "initrd.gz") if direct else ""
    return {**values, "kernel_args": "quiet no_timer_check", **more}


class Sign(NamedTuple):
    """What a guest says of itself."""

    name: str
    boot_id: str
    uptime: float


class Console:
    """The serial console of a guest."""

    def __init__(self, path: str):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._data = b""

    def __enter__(self) -> Console:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def Ask(self, timeout: float = _PATIENCE) -> Sign:
        """Types a line until the guest answers; what it said before does not count."""
        self._data = b""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            self._Knock()
            self._Read(1.0)
            found = _LINE.findall(self._data)
            if found:
                name, boot_id, uptime = found[-1]
                return Sign(name.decode(), boot_id.decode(), float(uptime))
        raise AssertionError(f"the guest does not answer; its console said: {self._data[-2000:]!r}")

    def _Knock(self) -> None:
        """Types a line; while the guest reads none, those that wait for it are enough."""
        self._socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            self._socket.send(b"\n")

    def WaitFor(self, text: bytes, timeout: float = _PATIENCE) -> None:
        end = time.monotonic() + timeout
        while text not in self._data:
            assert time.monotonic() < end, f"{text!r} never came; the console said: {self._data[-2000:]!r}"
            self._Read(1.0)

    def _Read(self, timeout: float) -> None:
        """What comes within ``timeout``, up to the end of a line."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            self._socket.settimeout(max(0.01, end - time.monotonic()))
            try:
                data = self._socket.recv(65536)
            except TimeoutError:
                return
            if not data:
                return
            self._data += data
            if self._data.endswith(b"\n") and _LINE.search(self._data):
                return
