"""One node of the laboratory: a virtual machine in software emulation."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from support.lab import QEMU, TREE

from lab.files import NodeFiles

_BOOT_SECONDS = 300.0
# How long QEMU may take to begin.
_CONNECT_SECONDS = 60.0
# Emulating the vectors of newer ones costs a quarter of the time.
_CPU = "Nehalem"
_SHARE = "local,path={path},mount_tag={tag},security_model=none,multidevs=remap,readonly=on"


class Done(NamedTuple):
    status: int
    stdout: str
    stderr: str


class Machine:
    """A node NAME with the given disks (paths of files); ``network``: further arguments of QEMU for its NIC.

    ``state``: a disk with a file system for what the node itself must remember; without one, nothing is remembered.
    ``installed``: a directory that lies over the system of the machine, as ``files.Install`` makes it.
    ``Start`` boots it, ``PowerOff`` takes its power away; what is on its disks stays.  What programs of the node write
    to the port ``writes`` is in the file ``writes`` at once, whatever happens to the node afterwards.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        files: NodeFiles,
        disks: Sequence[Path],
        address: str = "",
        network: Sequence[str] = ("-nic", "none"),
        memory: int = 512,
        state: Path | None = None,
        installed: Path | None = None,
    ):
        self.name = name
        self.address = address
        self._folder = folder
        self._files = files
        self._disks = list(disks)
        self._network = list(network)
        self._memory = memory
        self._state = state
        self._installed = installed
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._answers: dict[int, dict[str, Any]] = {}
        self._changed = threading.Condition()
        self._number = 0

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        self.PowerOff()

    @property
    def console(self) -> Path:
        return self._folder / f"{self.name}.console"

    @property
    def writes(self) -> Path:
        return self._folder / f"{self.name}.writes"

    @property
    def shell(self) -> str:
        """Where a shell of root answers, as socat wants it."""
        return f"unix-connect:{self._folder}/{self.name}.shell"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    # --- power --------------------------------------------------------------------------------------------------------

    def Start(self) -> None:
        """Switch it on; ``Wait`` until it can be asked."""
        port = self._folder / f"{self.name}.agent"
        with contextlib.suppress(FileNotFoundError):
            port.unlink()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(port))
            listener.listen(1)
            listener.settimeout(_CONNECT_SECONDS)
            self._process = subprocess.Popen(
                self._Command(port),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=open(self._folder / f"{self.name}.qemu", "wb"),  # noqa: SIM115 - the process keeps it
            )
            try:
                self._socket, _ = listener.accept()
            except TimeoutError:
                self._CheckAlive()
                raise AssertionError(f"{self.name}: QEMU does not connect to the socket for the agent") from None
        self._answers.clear()
        threading.Thread(target=self._Read, args=(self._socket,), daemon=True).start()

    def Wait(self) -> Machine:
        self._Answer(0, _BOOT_SECONDS)
        return self

    def PowerOff(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _Command(self, port: Path) -> list[str]:
        # On a busy machine the emulated timer comes too late for the kernel's check, which gives up with a panic.
        kernel = "console=ttyS0 panic=-1 quiet mitigations=off no_timer_check"
        kernel += f" lab.name={self.name} lab.address={self.address}"
        kernel += f" lab.agent={TREE}/test/lab/agent.py lab.needed={':'.join(map(str, Needed()))}"
        disks = [*self._disks, *([self._state] if self._state else [])]
        if self._state:
            kernel += f" lab.state=/dev/vd{chr(ord('a') + len(self._disks))}"
        words = [QEMU, "-accel", "tcg,thread=single,tb-size=384", "-cpu", _CPU, "-m", str(self._memory), "-smp", "1"]
        words += ["-nodefaults", "-display", "none", "-no-reboot", "-kernel", str(self._files.kernel)]
        words += ["-initrd", str(self._files.initrd), "-append", kernel, "-serial", f"file:{self.console}"]
        words += ["-serial", f"unix:{self._folder}/{self.name}.shell,server=on,wait=off"]
        words += ["-virtfs", _SHARE.format(path="/", tag="root")]
        words += ["-virtfs", _SHARE.format(path=self._files.extra, tag="extra")]
        words += ["-device", "virtio-serial", "-chardev", f"socket,id=agent,path={port}"]
        words += ["-device", "virtserialport,chardev=agent,name=agent"]
        words += ["-chardev", f"file,id=writes,path={self.writes},append=on"]
        words += ["-device", "virtserialport,chardev=writes,name=writes"]
        if self._installed:
            words += ["-virtfs", _SHARE.format(path=self._installed, tag="installed")]
        for path in disks:
            words += ["-drive", f"file={path},format=raw,if=virtio,cache=writeback"]
        return [*words, *self._network]

    def _CheckAlive(self) -> None:
        if self._process is None or self._process.poll() is not None:
            said = (self._folder / f"{self.name}.qemu").read_text(errors="replace")
            raise AssertionError(f"{self.name} is off; QEMU said: {said[-1000:]}")

    # --- asking it ----------------------------------------------------------------------------------------------------

    def Run(self, *argv: str, stdin: str = "", seconds: float = 120.0, check: bool = True, **env: str) -> Done:
        """Run a program in the node; with ``check`` a failure is an AssertionError."""
        request = {"argv": list(argv), "stdin": stdin, "seconds": seconds, "env": env}
        answer = self._Answer(self._Send(request), seconds + 60)
        done = Done(answer["status"], answer["stdout"], answer["stderr"])
        assert not check or done.status == 0, f"{self.name}: {' '.join(argv)}: {done}"
        return done

    def _Send(self, request: dict[str, Any]) -> int:
        self._CheckAlive()
        assert self._socket is not None
        with self._changed:
            self._number += 1
            number = self._number
            self._socket.sendall(json.dumps({"number": number, **request}).encode() + b"\n")
        return number

    def _Answer(self, number: int, seconds: float) -> dict[str, Any]:
        end = time.monotonic() + seconds
        with self._changed:
            while number not in self._answers:
                self._CheckAlive()
                if time.monotonic() > end:
                    said = self.console.read_text(errors="replace") if self.console.exists() else ""
                    raise AssertionError(f"{self.name} does not answer; its console said: {said[-2000:]}")
                self._changed.wait(0.5)
            return self._answers.pop(number)

    def _Read(self, sock: socket.socket) -> None:
        rest = b""
        with contextlib.suppress(OSError):
            while data := sock.recv(65536):
                *lines, rest = (rest + data).split(b"\n")
                with self._changed:
                    for line in lines:
                        answer = json.loads(line)
                        self._answers[answer["number"]] = answer
                    self._changed.notify_all()


def Needed() -> list[Path]:
    """Return what a node needs of this machine by its path: this tree and the Python that its programs run with."""
    places = (TREE, TREE / ".venv", Path(sys.base_prefix))
    return sorted({place.resolve() for place in places})


def MakeStateDisk(path: Path, mib: int = 256) -> Path:
    """Make a disk with an empty file system."""
    MakeDisk(path, mib)
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", str(path)], check=True, env={"PATH": "/usr/sbin:/sbin"})
    return path


def MakeDisk(path: Path, mib: int) -> Path:
    """Make an empty disk."""
    with open(path, "wb") as stream:
        os.truncate(stream.fileno(), mib << 20)
    return path
