"""Addresses and ports for tests: every run on this machine gets its own, so that runs do not disturb each other.

A lease is one network 127.X.Y.0/24, held by a locked file; it ends with the process that took it, however that ends.
What a run that was killed left behind may still listen there: such a network is passed over.
X is derived from the user, so that users cannot block each other by files of another owner::

    lease = allocator.Lease()
    node1, node2 = lease.Address(), lease.Address()     # 127.93.4.1, 127.93.4.2
    lease.Port()                                        # a number nobody else of this lease got
    lease.Users()                                       # numbers that no user of the machine or of another lease has

Daemons of different nodes use their usual port on different addresses.
"""

from __future__ import annotations

import fcntl
import os
import stat

_FIRST_PORT = 20000
# Ephemeral ports of the kernel begin above.
_LAST_PORT = 32000
# Far above those of the machine's users.
_FIRST_USER, _USERS = 1_000_000_000, 100
# TCP_LISTEN in /proc/net/tcp.
_LISTEN = "0A"


def _Listens(*network: int) -> bool:
    """Return whether somebody listens on an address of these three bytes."""
    # The kernel writes addresses with their last byte first.
    ending = "".join(f"{byte:02X}" for byte in reversed(network))
    with open("/proc/net/tcp", encoding="ascii") as stream:
        rows = [line.split() for line in stream][1:]
    return any(row[3] == _LISTEN and row[1].partition(":")[0].endswith(ending) for row in rows)


class Lease:
    """One network of 254 addresses."""

    def __init__(self) -> None:
        directory = f"/tmp/ganeti-test-addresses-{os.getuid()}"
        os.makedirs(directory, mode=0o700, exist_ok=True)
        info = os.lstat(directory)
        if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid():
            raise RuntimeError(f"{directory} belongs to somebody else: remove it")
        # 127.0 and 127.1 are left to others (127.0.0.1, 127.0.1.1 of Debian).
        second = 2 + os.getuid() % 250
        for third in range(256):
            descriptor = os.open(f"{directory}/127.{second}.{third}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                continue
            if _Listens(127, second, third):
                os.close(descriptor)
                continue
            self._descriptor = descriptor
            self.prefix = f"127.{second}.{third}"
            break
        else:
            raise RuntimeError(f"All 256 test networks of user {os.getuid()} are in use (see {directory})")
        self._host = 0
        self._port = _FIRST_PORT

    def Address(self) -> str:
        """An address that was not given out before."""
        if self._host >= 254:
            raise RuntimeError(f"All addresses of {self.prefix}.0/24 were given out: take a new lease")
        self._host += 1
        return f"{self.prefix}.{self._host}"

    def Port(self) -> int:
        """A port that was not given out before, for use on an address of this lease."""
        if self._port >= _LAST_PORT:
            raise RuntimeError("All ports of this lease were given out: take a new lease")
        self._port += 1
        return self._port

    def Users(self) -> range:
        """Numbers for users and groups: who removes a user looks at the processes of the whole machine."""
        second, third = map(int, self.prefix.split(".")[1:])
        first = _FIRST_USER + _USERS * (256 * second + third)
        return range(first, first + _USERS)

    def Release(self) -> None:
        """Gives the network back; its addresses must not be used afterwards."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
