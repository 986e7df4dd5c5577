"""An unprivileged user of a node who opens and locks every file below a directory that the system lets him open.

::

    with LocalUser(folder) as user: ...         he keeps looking for new files
    user.Locked()                               paths that he holds locked now
"""

from __future__ import annotations

import subprocess
import sys
from types import TracebackType

NOBODY = 65534

_PROGRAM = r"""
import fcntl, os, select, sys

user = int(sys.argv[3])
os.setgroups([])
os.setresgid(user, user, user)
os.setresuid(user, user, user)
held = {}
exclusive = sys.argv[2] == "exclusive"
while True:
    asked = select.select([0], [], [], 0.05)[0]
    if asked and not os.read(0, 1):
        break
    for folder, _, names in os.walk(sys.argv[1]):
        for name in names:
            path = os.path.join(folder, name)
            try:
                if path in held and os.path.samestat(os.fstat(held[path]), os.lstat(path)):
                    continue
                handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            except OSError:
                continue
            try:
                fcntl.flock(handle, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            except OSError:
                os.close(handle)
                continue
            held[path] = handle
    if asked:
        print("\t".join(sorted(held)), flush=True)
"""


class LocalUser:
    """``folder`` and what is above it must be open to everybody, as /var is.  ``kind``: exclusive or shared locks."""

    def __init__(self, folder: str, kind: str = "exclusive"):
        self._folder = folder
        self._kind = kind

    def __enter__(self) -> LocalUser:
        # It becomes him by itself: the test's own Python may lie where he cannot go.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _PROGRAM, self._folder, self._kind, str(NOBODY)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
        )
        self.Locked()
        return self

    def Locked(self) -> list[str]:
        """The files he has locked, after one more look."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(b"?")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().decode()
        assert answer, "he gave up"
        return answer.split()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
