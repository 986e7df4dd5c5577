"""What the machine starts by itself: cron table, log rotation, units of systemd.

Those of the original would start its daemons on files that are not theirs any longer.  Ours take their places, and the
originals are kept in the record.  Units of the package stay where they are: one of the same name in /etc takes precedence,
and one that we do not have is masked there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Any

from ganeti import pathutils, runtime

_LIMIT = 1024 * 1024
_NULL = "/dev/null"
_UNIT_ENDINGS = (".service", ".target")
# The cron table does what the timers would do.
_UNITS = (
    "ganeti-common.service",
    "ganeti-noded.service",
    "ganeti-confd.service",
    "ganeti-masterd.service",
    "ganeti-rapi.service",
    "ganeti-node.target",
    "ganeti-master.target",
    "ganeti.target",
)
_ENABLED = (
    "ganeti-noded.service",
    "ganeti-confd.service",
    "ganeti-masterd.service",
    "ganeti-rapi.service",
    "ganeti.target",
)
_ORIGINAL_UNITS = ("/lib/systemd/system", "/usr/lib/systemd/system")
# Where people put what is to be started, beside the places that are changed here.
_LOCAL_UNITS = "/usr/local/lib/systemd/system"
_INIT_SCRIPT = "/etc/init.d/ganeti"
_CRON_TABLE = "/etc/crontab"
_WATCHER = "ganeti-watcher"
# Copies that cron does not read.
_COPIES = ("~", ".dpkg-old", ".dpkg-new", ".dpkg-dist", ".dpkg-bak", ".rpmsave", ".rpmorig", ".rpmnew", ".swp")
_SYSTEMCTL_TIMEOUT = 60

Saved = dict[str, list[Any]]
"""Path -> [mode, text] of what was there; [0, text] for a link to ``text``; [0, null] where there was nothing."""


def _OriginalUnits() -> list[str]:
    found: set[str] = set()
    for folder in map(pathutils.AddNodePrefix, _ORIGINAL_UNITS):
        if runtime.IsDir(folder):
            found |= {
                name for name in runtime.ListDir(folder) if name.startswith("ganeti") and name.endswith(_UNIT_ENDINGS)
            }
    return sorted(found)


def _Wanted() -> Iterator[tuple[str, str | None]]:
    """Yield each place to change and the example that goes there; None masks it."""
    if runtime.Exists(pathutils.CRON_FILE):
        yield pathutils.CRON_FILE, "ganeti.cron"
    if runtime.Exists(pathutils.LOGROTATE_FILE):
        yield pathutils.LOGROTATE_FILE, "ganeti.logrotate"
    units = _OriginalUnits()
    if units:
        for name in _UNITS:
            yield f"{pathutils.SYSTEMD_DIR}/{name}", name
        for name in units:
            if name not in _UNITS:
                yield f"{pathutils.SYSTEMD_DIR}/{name}", None


def Changes() -> list[str]:
    """Return the places that will change."""
    return [path for path, _ in _Wanted()]


def Missing() -> list[str]:
    """Return the files of this release that are not where they were installed."""
    examples = {f"{pathutils.EXAMPLES_DIR}/{name}" for _, name in _Wanted() if name is not None}
    return sorted(path for path in examples if not runtime.Exists(path))


def Others() -> list[str]:
    """Return files that start programs of the original and that stay as they are: people have to move them away."""
    return sorted({*_OtherUnits(), *_OtherScripts(), *_OtherTables()})


def _OtherUnits() -> Iterator[str]:
    """Yield units in places that come before those of packages, and timers anywhere."""
    replaced = set(Changes())
    packaged = [pathutils.AddNodePrefix(folder) for folder in _ORIGINAL_UNITS]
    for folder in (pathutils.SYSTEMD_DIR, pathutils.AddNodePrefix(_LOCAL_UNITS), *packaged):
        endings = (".timer",) if folder in packaged else (".timer", *_UNIT_ENDINGS)
        for name in runtime.ListDir(folder) if runtime.IsDir(folder) else ():
            first = f"{pathutils.SYSTEMD_DIR}/{name}"  # takes precedence
            if not (name.startswith("ganeti") and name.endswith(endings)) or first in replaced:
                continue
            if not _IsMasked(first) and not _IsMasked(f"{folder}/{name}"):
                yield f"{folder}/{name}"


def _IsMasked(path: str) -> bool:
    return runtime.Exists(path) and os.path.realpath(path) == _NULL


def _OtherScripts() -> Iterator[str]:
    """Yield the script of old machines; systemd ignores it where there is a unit of its name."""
    folders = (pathutils.SYSTEMD_DIR, *map(pathutils.AddNodePrefix, (_LOCAL_UNITS, *_ORIGINAL_UNITS)))
    path = pathutils.AddNodePrefix(_INIT_SCRIPT)
    ignored = _HasSystemd() and any(runtime.Exists(f"{folder}/ganeti.service") for folder in folders)
    if runtime.Exists(path) and not ignored:
        yield path


def _OtherTables() -> Iterator[str]:
    """Yield tables of cron, but for the original's own, that run its watcher."""
    folder = os.path.dirname(pathutils.CRON_FILE)
    paths = [f"{folder}/{name}" for name in runtime.ListDir(folder)] if runtime.IsDir(folder) else []
    for path in [*paths, pathutils.AddNodePrefix(_CRON_TABLE)]:
        if path != pathutils.CRON_FILE and not path.endswith(_COPIES) and _RunsWatcher(path):
            yield path


def _RunsWatcher(path: str) -> bool:
    try:
        lines = runtime.ReadFile(path, _LIMIT).decode("utf-8", "replace").splitlines()
    except (OSError, runtime.FileTooLarge):
        return False
    ours = pathutils.DaemonProgram(_WATCHER)
    return any(_WATCHER in line and ours not in line for line in lines if not line.lstrip().startswith("#"))


def Save() -> Saved:
    return {path: _SaveOne(path) for path, _ in _Wanted()}


def _SaveOne(path: str) -> list[Any]:
    try:
        info = runtime.Stat(path, follow=False)
    except FileNotFoundError:
        return [0, None]
    if stat.S_ISLNK(info.st_mode):
        return [0, runtime.ReadLink(path)]
    return [stat.S_IMODE(info.st_mode), runtime.ReadText(path, _LIMIT)]


def Switch() -> None:
    """Put what this release needs in place; safe to repeat."""
    places = list(_Wanted())
    for path, name in places:
        source = f"{pathutils.EXAMPLES_DIR}/{name}"
        runtime.MakeDirs(os.path.dirname(path))
        if name is None:
            runtime.RemoveFile(path)
            runtime.Symlink(_NULL, path)
        elif runtime.Exists(source):
            _Replace(path, runtime.ReadText(source, _LIMIT), 0o644)
        elif path in (pathutils.CRON_FILE, pathutils.LOGROTATE_FILE):
            runtime.RemoveFile(path)  # reported as missing; the original's would start its daemons
    if places and _HasSystemd():
        runtime.RunCmd(["systemctl", "daemon-reload"], timeout=_SYSTEMCTL_TIMEOUT)
        runtime.RunCmd(["systemctl", "enable", *_ENABLED], timeout=_SYSTEMCTL_TIMEOUT)


def SwitchBack(saved: Saved) -> None:
    """Put back what was found; safe to repeat."""
    if saved and _HasSystemd():
        # Links that only our units have; those of the same name are the original's too, and are made again.
        runtime.RunCmd(["systemctl", "disable", "ganeti-masterd.service"], timeout=_SYSTEMCTL_TIMEOUT)
    for path, (mode, text) in saved.items():
        if text is None:
            runtime.RemoveFile(path)
        elif mode == 0:
            runtime.RemoveFile(path)
            runtime.Symlink(text, path)
        else:
            _Replace(path, text, mode)
    if saved and _HasSystemd():
        runtime.RunCmd(["systemctl", "daemon-reload"], timeout=_SYSTEMCTL_TIMEOUT)


def _Replace(path: str, text: str, mode: int) -> None:
    if runtime.Exists(path) and stat.S_ISLNK(runtime.Stat(path, follow=False).st_mode):
        runtime.RemoveFile(path)
    runtime.WriteFile(path, text, mode)


def _HasSystemd() -> bool:
    return not pathutils.IsVirtual() and runtime.IsDir("/run/systemd/system")
