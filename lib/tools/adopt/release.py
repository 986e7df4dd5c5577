"""The programs of a release: both have the same command line."""

from __future__ import annotations

import os
from typing import NamedTuple

from ganeti import errors, pathutils, runtime

# daemon-util waits for daemons; the master daemon may need long for a large queue.
_DAEMONS_TIMEOUT = 700.0
_COMMAND_TIMEOUT = 300.0
_LIVE = frozenset(["queued", "waiting", "canceling", "running"])


class Release(NamedTuple):
    """``name``: as messages call it."""

    name: str
    sbin: str
    lib: str

    def DaemonUtil(self, *words: str) -> str:
        """Run daemon-util; OpExecError if it fails."""
        return self._Run([f"{self.lib}/daemon-util", *words], _DAEMONS_TIMEOUT)

    def Command(self, program: str, *words: str) -> str:
        """Run a command of the administrator and return its output; OpExecError if it fails."""
        return self._Run([f"{self.sbin}/{program}", *words], _COMMAND_TIMEOUT)

    def _Run(self, argv: list[str], timeout: float) -> str:
        result = runtime.RunCmd(argv, timeout=timeout)
        if result.failed:
            said = result.output.strip()[-500:]
            raise errors.OpExecError(f"'{' '.join(argv)}' failed ({result.fail_reason}){': ' if said else ''}{said}")
        return result.stdout

    def LiveJobs(self) -> list[str]:
        """Return the ids of jobs that are not finished."""
        rows = self._Rows("gnt-job", "id,status")
        return [row[0] for row in rows if row[1] in _LIVE]

    def Instances(self) -> list[list[str]]:
        """Return name, primary node and status of every instance."""
        return sorted(self._Rows("gnt-instance", "name,pnode,status"))

    def _Rows(self, program: str, fields: str) -> list[list[str]]:
        text = self.Command(program, "list", "--no-headers", "--separator=|", "-o", fields)
        return [line.split("|") for line in text.splitlines() if "|" in line]

    def Version(self) -> str:
        """Return the version of the node daemon's program, ``3.0.2``; OpExecError if there is none."""
        words = self.Command("ganeti-noded", "--version").split()
        return words[-1] if words else ""


OURS = Release("this release", pathutils.SBIN_DIR, pathutils.PKGLIB_DIR)


def Original(prefix: str) -> Release:
    return Release("the original", f"{prefix}/sbin", f"{prefix}/lib/ganeti")


def IsInstalledOver(original: Release) -> bool:
    """Return whether this release lies where the original should be."""
    return os.path.realpath(f"{original.lib}/daemon-util") == os.path.realpath(pathutils.DAEMON_UTIL)
