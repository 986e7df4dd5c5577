"""ganeti-cleaner: removes what nobody needs after some weeks (doc/reference/tools.md 3)."""

from __future__ import annotations

import logging
import posixpath
import re
import stat
import sys
from collections.abc import Callable, Iterator
from datetime import datetime

from ganeti import constants, pathutils, runtime, ssconf, transferkeys
from ganeti.daemon import logs

PROGRAM = "ganeti-cleaner"
_DAY = 24 * 3600.0
KEEP_SECONDS = 21 * _DAY
# No file takes that long to be written.
UNFINISHED_SECONDS = _DAY
KEEP_LOGS = 50
_WATCHER_FILE = re.compile(r"watcher\.[^/]*-[^/]*-[^/]*-[^/]*\.(data|instance-status|volume-groups)")


def CleanNode() -> None:
    """Remove keys of transfers whose certificates are not in force, watcher files of groups that are gone, unfinished files.

    The next boot empties the directories in RUN.
    """
    transferkeys.RemoveExpired()
    if ssconf.InCluster():
        _RemoveOld(
            posixpath.join(pathutils.DATA_DIR, name)
            for name in runtime.ListDir(pathutils.DATA_DIR)
            if _WATCHER_FILE.fullmatch(name)
        )
        _RemoveUnfinished(pathutils.DATA_DIR)


def CleanMaster() -> None:
    """Remove jobs that were archived long ago, and unfinished files of the queue."""
    if ssconf.InCluster():
        _RemoveUnfinished(pathutils.QUEUE_DIR)
        top = pathutils.JOB_QUEUE_ARCHIVE_DIR
        for directory in _Names(top):
            _RemoveOld(_FilesBelow(posixpath.join(top, directory)))
            _RemoveUnfinished(posixpath.join(top, directory))


def _Names(directory: str) -> list[str]:
    try:
        return runtime.ListDir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _FilesBelow(directory: str) -> Iterator[str]:
    """Yield the files in a directory and below; links are not followed."""
    for name in _Names(directory):
        path = posixpath.join(directory, name)
        if _IsDirectory(path):
            yield from _FilesBelow(path)
        else:
            yield path


def _IsDirectory(path: str) -> bool:
    try:
        return stat.S_ISDIR(runtime.Stat(path, follow=False).st_mode)
    except OSError:
        # Somebody else has removed it, or whoever wants to remove it gets the error.
        return False


def _RemoveUnfinished(directory: str) -> None:
    """Remove what a process that was killed, or a power cut, has left of the files it was writing."""
    names = [name for name in _Names(directory) if runtime.UnfinishedName(name) is not None]
    _RemoveOld((posixpath.join(directory, name) for name in names), UNFINISHED_SECONDS, "unfinished files")


def _RemoveOld(paths: Iterator[str], seconds: float = KEEP_SECONDS, what: str = "files") -> None:
    """Remove regular files that were not changed for three weeks, or for so many seconds."""
    count = 0
    limit = runtime.Time() - seconds
    for path in paths:
        try:
            info = runtime.Stat(path, follow=False)
            if stat.S_ISREG(info.st_mode) and info.st_mtime < limit:
                runtime.RemoveFile(path)
                count += 1
                logging.debug("Removed %s", path)
        except FileNotFoundError:
            continue
        except OSError as err:
            logging.error("%s cannot be removed: %s", path, err.strerror)
    if count:
        logging.info("Removed %d %s that were not changed for %d d", count, what, seconds / _DAY)


# mode -> (directory of its logs, what it does)
MODES: dict[str, tuple[str, Callable[[], None]]] = {
    "node": (pathutils.LOG_CLEANER_DIR, CleanNode),
    "master": (pathutils.LOG_MASTER_CLEANER_DIR, CleanMaster),
}


def _OpenLog(directory: str) -> None:
    """Log to a file of this run's own; only the newest files are kept."""
    stamp = datetime.fromtimestamp(runtime.Time()).strftime("%Y-%m-%dT%H_%M")
    runtime.MakeDirs(directory, 0o750)
    logs.SetUp(PROGRAM, f"{directory}/cleaner-{stamp}.{runtime.ProcessId()}.log", debug=1)
    ours = [(info.st_mtime, name) for name, info in runtime.ListStats(directory).items() if name.startswith("cleaner-")]
    for _, name in sorted(ours)[:-KEEP_LOGS]:
        runtime.RemoveFile(posixpath.join(directory, name))


def Run(mode: str) -> int:
    """Clean up; what fails is logged and tried again tomorrow."""
    directory, action = MODES[mode]
    try:
        try:
            _OpenLog(directory)
        except OSError as err:
            sys.stderr.write(f"{PROGRAM}: cannot log to {err.filename or directory}: {err.strerror}\n")
        action()
    except OSError as err:
        logging.error("%s: %s", err.filename or directory, err.strerror)
    except Exception:
        logging.exception("%s ends because of an unexpected error", PROGRAM)
    logs.Complain(PROGRAM)
    return constants.EXIT_SUCCESS


def Main() -> int:
    program, *arguments = sys.argv
    usage = f"Usage: {program} {'|'.join(MODES)}"
    if arguments == ["--help-completion"]:
        print(f"choices={','.join(MODES)} 1 1")
        return constants.EXIT_SUCCESS
    if arguments in (["--help"], ["-h"]):
        print(usage)
        return constants.EXIT_SUCCESS
    if len(arguments) != 1 or arguments[0] not in MODES:
        print(usage)
        return constants.EXIT_FAILURE
    return Run(arguments[0])
