"""Programs of others that we run: directories of an administrator's plug-ins, and who could have put a program there."""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections import deque
from collections.abc import Iterator, Mapping

from ganeti import constants, runtime

# What may be run from a directory of plug-ins: no dots, so no editor's or package manager's leftovers.
_PLUGIN = re.compile(r"[a-zA-Z0-9_-]+")
# What plug-ins leave behind is theirs, unless they say otherwise.
_UMASK = 0o077
_MAX_LINKS = 40


def IsPluginName(name: str) -> bool:
    return _PLUGIN.fullmatch(name) is not None


def RunPlugins(directory: str, env: Mapping[str, str] | None, seconds: float) -> Iterator[tuple[str, int, str]]:
    """Run the plug-ins of a directory in byte order and yield (name, HKR_*, output) of each; none if it is missing.

    ``env``: None is our own environment; ``seconds``: for all of them together.
    """
    deadline = runtime.Monotonic() + seconds
    try:
        names = runtime.ListDir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in sorted((name for name in names if not name.startswith(".")), key=lambda name: name.encode()):
        left = max(1.0, deadline - runtime.Monotonic())
        yield (name, *_RunPlugin(posixpath.join(directory, name), env, left))


def _RunPlugin(path: str, env: Mapping[str, str] | None, seconds: float) -> tuple[int, str]:
    if not IsPluginName(posixpath.basename(path)) or not _IsExecutableFile(path):
        return constants.HKR_SKIP, ""
    result = runtime.RunCmd([path], env=env, timeout=seconds, cwd="/", umask=_UMASK)
    if result.exit_code in (126, 127) and not result.output:
        return constants.HKR_FAIL, f"Hook script execution error: {result.fail_reason}"
    output = result.output.strip()
    if result.failed:
        if result.exit_code is None or result.timeout is not None:
            output = "\n".join(filter(None, [output, result.fail_reason]))
        return constants.HKR_FAIL, output
    return constants.HKR_SUCCESS, output


def _IsExecutableFile(path: str) -> bool:
    try:
        mode = runtime.Stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & 0o111)


def Problem(path: str) -> str | None:
    """Return why ``path`` must not be run; None for a program of root's, or of this process's user.

    Every directory and link on the way counts: who can replace one of them can replace the program.
    """
    if not posixpath.isabs(path):
        return "it is not an absolute path"
    try:
        return _Walk(path)
    except OSError as err:
        return str(err.strerror)


def _Walk(path: str) -> str | None:
    here, left, links = "/", deque(path.split("/")), 0
    while left:
        part = left.popleft()
        if part in ("", "."):
            continue
        if part == "..":
            here = posixpath.dirname(here)
            continue
        full = posixpath.join(here, part)
        info = runtime.Stat(full, follow=False)
        if info.st_uid not in (0, os.geteuid()):
            return f"{full} belongs to user {info.st_uid}"
        if stat.S_ISLNK(info.st_mode):
            links += 1
            if links > _MAX_LINKS:
                return "it leads through too many links"
            target = runtime.ReadLink(full)
            left.extendleft(reversed(target.split("/")))
            here = "/" if posixpath.isabs(target) else here
        elif stat.S_ISDIR(info.st_mode):
            if info.st_mode & stat.S_IWOTH and not info.st_mode & stat.S_ISVTX:
                return f"everybody can write to {full}"
            here = full
        elif left:
            return f"{full} is not a directory"
        else:
            return _FileProblem(full, info.st_mode)
    return "it is not a file"


def _FileProblem(path: str, mode: int) -> str | None:
    if not stat.S_ISREG(mode) or not mode & 0o111:
        return f"{path} is not an executable file"
    if mode & 0o022:
        return f"others than its owner can write to {path}"
    return None
