"""A node's directory tree for programs of ours, as in a virtual cluster: nothing outside is touched."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from support import patience

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))

DIRECTORIES = (
    "etc/default",
    "etc/ganeti",
    "var/lib/ganeti",
    "var/run/ganeti/socket",
    "var/log/ganeti",
    "var/lock",
)


class VirtualNode:
    """A node of a virtual cluster below ``base``."""

    def __init__(self, base: str, name: str = "node1.example.com"):
        self.name = name
        self.root = os.path.join(str(base), name)
        for directory in DIRECTORIES:
            os.makedirs(os.path.join(self.root, directory), exist_ok=True)

    def Path(self, path: str) -> str:
        """The place of ``path``, as it is called outside virtual clusters."""
        return self.root + path

    def Environment(self, **more: str) -> dict[str, str]:
        return {
            **os.environ,
            "GANETI_ROOTDIR": self.root,
            "GANETI_HOSTNAME": self.name,
            "PYTHONPATH": TOP,
            **more,
        }

    def Run(
        self, argv: Sequence[str], stdin: str | None = None, timeout: float = 50, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program to its end as this node; ``timeout``: seconds after which it hangs, on a machine that is not busy."""
        return subprocess.run(
            list(argv),
            env=self.Environment(**more),
            cwd=self.root,
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout * patience.MOST,
        )

    def Python(
        self, code: str, *argv: str, stdin: str | None = None, timeout: float = 50, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs Python code as this node."""
        return self.Run([sys.executable, "-c", code, *argv], stdin=stdin, timeout=timeout, **more)

    def Read(self, path: str) -> str:
        with open(self.Path(path), encoding="utf-8") as stream:
            return stream.read()

    def Write(self, path: str, text: str, mode: int = 0o644) -> str:
        full = self.Path(path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(full, mode)
        return full
