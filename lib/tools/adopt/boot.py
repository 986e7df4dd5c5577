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
