"""What one node does: with ``--on-node`` the program reads from standard input what to do, one thing after the other, and writes one
JSON object with what the last one returned.

Everything but ``look``, ``guests`` and ``started-here`` changes something, can be repeated, and finds what it needs in the node's record.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from ganeti import constants, errors, pathutils, runtime, serializer, ssconf, watcherpause
from ganeti.daemon.main import ErrorText
from ganeti.hypervisor.kvm import runfile
from ganeti.server import ownnode
from ganeti.tools import daemon_util, ensure_dirs, hand_back
from ganeti.tools.adopt import boot, records, release, watching
from ganeti.utils import procfs

_LIMIT = 1024 * 1024
_RUNTIME_LIMIT = 4 * 1024 * 1024
_DAEMONS = (
    "ganeti-noded",
    "ganeti-confd",
    "ganeti-wconfd",
    "ganeti-luxid",
    "ganeti-masterd",
    "ganeti-rapi",
    "ganeti-kvmd",
    "ganeti-mond",
    "ganeti-metad",
)
_OURS, _ORIGINAL = "ours", "original"
_READING = frozenset(["look", "guests", "started-here"])
# Seconds for what an earlier run has a node do; for a run of the watcher that is under way, and for the daemons' processes to be gone after they were stopped.
_ALONE_TIMEOUT = 120.0
_WATCHER_TIMEOUT = 120.0
_END_TIMEOUT = 40.0
_PAUSE = 24 * 3600.0
# How often files that are behind the store are waited for, with the node daemon running.
_EXACT_TRIES = 5
_EXACT_PAUSE = 2.0
_TAR_TIMEOUT = 300.0
# Parts of DATA that are large, and are left alone.
_NOT_COPIED = ("/queue/archive", "/export")
_COPYING = f"{pathutils.BACKUP_DIR}/ganeti-adoption.tar.part"


def Main() -> int:
    """Do what standard input says; an error is part of the answer."""
    try:
        request = serializer.Load(sys.stdin.buffer.read(_LIMIT))
        with _Alone(request["steps"]):
            values = [STEPS[step](request) for step in request["steps"]]
        answer: dict[str, Any] = {"ok": True, "value": values[-1]}
    except errors.GenericError as err:
        answer = {"ok": False, "value": ErrorText(err)}
    except (OSError, KeyError, TypeError, ValueError) as err:
        answer = {"ok": False, "value": f"{type(err).__name__}: {err}"}
    sys.stdout.write(serializer.Dump(answer) + "\n")
    return constants.EXIT_SUCCESS


def _Alone(steps: Sequence[str]) -> AbstractContextManager[None]:
    """Let steps that change something wait for those of a run whose connection broke: they go on until they have ended."""
    if _READING.issuperset(steps):
        return contextlib.nullcontext()
    busy = "What an earlier run began on this node is still at work; try again later"
    return records.Alone(pathutils.ADOPTION_NODE_LOCK, _ALONE_TIMEOUT, busy)


def _Original(request: Mapping[str, Any]) -> release.Release:
    return release.Original(request["original"])


def _Record() -> dict[str, Any]:
    record = records.Read()
    if record is None:
        raise errors.OpPrereqError(
            f"{pathutils.ADOPTION_RECORD} is missing: this node was not prepared", errors.ECODE_STATE
        )
    return record


# --- read-only ----------------------------------------------------------------------------------------------------------


def _Look(request: Mapping[str, Any]) -> dict[str, Any]:
    """Report what ``plan`` judges; nothing is changed."""
    original = _Original(request)
    try:
        differences: list[Any] = [list(difference) for difference in ensure_dirs.Differences()]
        lacking = None
    except errors.ConfigurationError as err:
        differences, lacking = [], str(err)
    try:
        version, broken = original.Version(), None
    except errors.OpExecError as err:
        version, broken = "", str(err)
    return {
        "version": version,
        "broken": broken,
        "ours": constants.RELEASE_VERSION,
        "over": release.IsInstalledOver(original),
        "daemons": _Daemons(),
        "differences": differences,
        "lacking": lacking,
        "boot": boot.Changes(),
        "boot_missing": boot.Missing(),
        "boot_others": boot.Others(),
        "free": runtime.DiskFree(pathutils.DATA_DIR) >> 20,
        "data": _CopySize() >> 20,
        "backup_free": _BackupFree() >> 20,
        "time": runtime.Time(),
        "store": ownnode.HoldsCluster(),
        "record": records.Read() is not None,
    }


def _CopySize() -> int:
    """Return the bytes of DATA that a copy would have."""
    folders, size = [pathutils.DATA_DIR], 0
    while folders:
        folder = folders.pop()
        for name, info in runtime.ListStats(folder).items() if runtime.IsDir(folder) else ():
            path = f"{folder}/{name}"
            if not stat.S_ISDIR(info.st_mode):
                size += info.st_size
            elif not path.endswith(_NOT_COPIED):
                folders.append(path)
    return size


def _BackupFree() -> int:
    folder = pathutils.BACKUP_DIR
    while not runtime.IsDir(folder):
        folder = os.path.dirname(folder)
    return runtime.DiskFree(folder)


def BelongsToUs() -> bool:
    """Return whether this node is at work for a cluster of this release, whoever made that: nothing is left to take over."""
    return ownnode.HoldsCluster() and _OURS in _Daemons().values()


def Joined(report: Mapping[str, Any]) -> bool:
    """Return whether a node that sent this report was added to the cluster of this release, and is none that it took over."""
    owners = report["daemons"].values()
    return not report["record"] and _OURS in owners and _ORIGINAL not in owners


def _Daemons() -> dict[str, str]:
    """Return the daemons that run, each with whose it is."""
    found = {}
    for name in _DAEMONS:
        program = _ProgramOf(name)
        if program is not None:
            ours = os.path.realpath(program) == os.path.realpath(pathutils.DaemonProgram(name))
            found[name] = _OURS if ours else _ORIGINAL
    return found


def _ProgramOf(name: str) -> str | None:
    """Return the program of the process that a daemon's pid file names, None if the daemon does not run."""
    try:
        pid = int(runtime.ReadText(pathutils.DaemonPidFile(name), 100))
        words = runtime.ReadFile(f"/proc/{pid}/cmdline", _LIMIT).decode("utf-8", "replace").split("\0")
    except (OSError, ValueError):
        return None
    return next((word for word in words if os.path.basename(word) == name), None)


def _Guests(_request: Mapping[str, Any]) -> dict[str, str]:
    """Return what changes when a guest is started anew: its process and when that began, or its file."""
    found = {}
    pids = f"{pathutils.KVM_DIR}/pid"
    for name in runtime.ListDir(pids) if runtime.IsDir(pids) else ():
        try:
            pid = int(runtime.ReadText(f"{pids}/{name}", 100))
            status = procfs.ReadText(f"/proc/{pid}/stat", _LIMIT)
        except (OSError, ValueError):
            continue
        # The 22nd field; the second one may hold blanks and ends with the last parenthesis.
        found[name] = f"process {pid} of {status.rpartition(')')[2].split()[19]}"
    if runtime.IsDir(pathutils.FAKE_DIR):
        for name, info in runtime.ListStats(pathutils.FAKE_DIR).items():
            found[name] = f"file {info.st_ino} of {info.st_mtime_ns}"
    return found


def _StartedHere(_request: Mapping[str, Any]) -> list[str]:
    """Return the running guests of KVM that this release has started: the original saves more of the command line."""
    found = []
    for name in _Guests(_request):
        path = f"{pathutils.KVM_DIR}/conf/{name}.runtime"
        try:
            if not runfile.Parse(runtime.ReadText(path, _RUNTIME_LIMIT), path).is_of_another_release:
                found.append(name)
        except (OSError, ValueError, runtime.FileTooLarge, errors.GenericError):
            continue  # not one of KVM, or just ended
    return found


# --- there ----------------------------------------------------------------------------------------------------------------


def _MakeRecord(request: Mapping[str, Any]) -> None:
    if records.Read() is not None:
        return
    until = watcherpause.PausedUntil()
    ssconf_release = pathutils.SsconfFile("release_version")
    records.Write(
        {
            "original": request["original"],
            "owners": records.Owners(),
            "boot": boot.Save(),
            "pause": until,
            "release_version": runtime.ReadText(ssconf_release, 100) if runtime.Exists(ssconf_release) else None,
        }
    )


def _Pause(_request: Mapping[str, Any]) -> list[str]:
    """Keep watchers from starting anything, and wait for one that is at work; return who else has locked its file."""
    watcherpause.Write(runtime.Time() + _PAUSE)
    return watching.AwaitFree(_WATCHER_TIMEOUT)


def _Unpause(_request: Mapping[str, Any]) -> None:
    record = records.Read()
    until = record["pause"] if record else None
    watcherpause.Write(until if until is not None and until > runtime.Time() else None)


def _StopOriginal(request: Mapping[str, Any]) -> None:
    _Original(request).DaemonUtil("stop-all")
    _WaitUntilGone(_ORIGINAL)


def _WaitUntilGone(whose: str) -> None:
    deadline = runtime.Monotonic() + _END_TIMEOUT
    while left := [name for name, owner in _Daemons().items() if owner == whose]:
        if runtime.Monotonic() > deadline:
            raise errors.OpExecError(f"{', '.join(left)} did not end within {_END_TIMEOUT:g} seconds")
        runtime.Sleep(0.05)


def _StartOriginal(request: Mapping[str, Any]) -> None:
    _Original(request).DaemonUtil("start-all")


def _Switch(_request: Mapping[str, Any]) -> str:
    """Keep a copy of DATA, and let the machine start this release's daemons; return the path of the copy."""
    _Record()
    path = f"{pathutils.BACKUP_DIR}/ganeti-adoption-{int(runtime.Time())}.tar"
    runtime.MakeDirs(pathutils.BACKUP_DIR)
    # Nobody shall take a part of one for a copy.
    runtime.WriteFile(_COPYING, b"", 0o600)
    excluded = [f"--exclude={path[1:]}" for path in _NOT_COPIED]
    argv = ["tar", "-cf", _COPYING, *excluded, "-C", os.path.dirname(pathutils.DATA_DIR)]
    result = runtime.RunCmd([*argv, os.path.basename(pathutils.DATA_DIR)], timeout=_TAR_TIMEOUT)
    if not result.failed:
        result = runtime.RunCmd(["sync", _COPYING], timeout=_TAR_TIMEOUT)
    if result.failed:
        runtime.RemoveFile(_COPYING)
        raise errors.OpExecError(f"No copy of {pathutils.DATA_DIR} could be made: {result.fail_reason}")
    runtime.Rename(_COPYING, path)
    boot.Switch()
    records.TakeFolders()
    return path


def _Start(_request: Mapping[str, Any]) -> None:
    _Started(constants.NODED)


def _StartMaster(_request: Mapping[str, Any]) -> None:
    _Started(constants.MASTERD)


def _StartRest(_request: Mapping[str, Any]) -> None:
    _Started(constants.CONFD)
    if ssconf.SimpleStore().IsMaster():
        _Started(constants.RAPI)


def _Started(name: str) -> None:
    """Start a daemon in this process, as each further one takes a part of a second; OpExecError if it fails."""
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
        code = daemon_util.Start(name)
    if code != constants.EXIT_SUCCESS:
        raise errors.OpExecError(f"{name} did not start (exit code {code}): {said.getvalue().strip()[-500:]}")


# --- and back ---------------------------------------------------------------------------------------------------------------


def _StopMaster(_request: Mapping[str, Any]) -> None:
    release.OURS.DaemonUtil("stop-master")


def _HandBack(request: Mapping[str, Any]) -> list[str]:
    """Stop what runs of this release, and leave files that the original reads; return what was removed from them."""
    removed = _GiveBack(_ReleaseOf(_Record()))
    _AllowJobs(request)
    return removed


def _HandBackLate(request: Mapping[str, Any]) -> list[str]:
    """Do the same where this node was away: its files may be old, and the original's master will send it others."""
    version = _ReleaseOf(_Record())
    _Stop()
    removed = hand_back.HandBack(version, exact=False)
    _AllowJobs(request)
    return removed


def _AllowJobs(request: Mapping[str, Any]) -> None:
    if not request["drained"]:
        # The original's master removes its own; here it would count when this node becomes the master.
        runtime.RemoveFile(pathutils.JOB_QUEUE_DRAIN_FILE)


def _GiveBack(version: str) -> list[str]:
    """Stop the daemons and give the files back; while these are behind, the node daemon writes them."""
    if not runtime.IsDir(pathutils.DATA_EXT_DIR):
        _Stop()
        hand_back.RemoveCopy()
        return []
    for attempt in range(_EXACT_TRIES):
        _Stop()
        try:
            return hand_back.HandBack(version)
        except hand_back.FilesBehind:
            if attempt == _EXACT_TRIES - 1:
                raise
        release.OURS.DaemonUtil("start", constants.NODED)
        runtime.Sleep(_EXACT_PAUSE)
    raise AssertionError


def _Stop() -> None:
    release.OURS.DaemonUtil("stop-all")
    _WaitUntilGone(_OURS)


def _ReleaseOf(record: Mapping[str, Any]) -> str:
    version = release.Original(record["original"]).Version()
    return ".".join(version.split(".")[:2])


def _SwitchBack(request: Mapping[str, Any]) -> None:
    """Bring back what the machine starts, and owners and modes as they were found."""
    record = _Record()
    boot.SwitchBack(record["boot"])
    text = record["release_version"]
    path = pathutils.SsconfFile("release_version")
    if text is not None and runtime.Exists(path):
        runtime.WriteFile(path, text, 0o444)
    original = f"{_Original(request).lib}/ensure-dirs"
    if runtime.Exists(original):
        runtime.RunCmd([original, "--full-run"], timeout=_TAR_TIMEOUT)
    records.Restore(record["owners"])


def _Forget(_request: Mapping[str, Any]) -> None:
    runtime.RemoveFile(_COPYING)
    records.Remove(pathutils.ADOPTION_RECORD)


STEPS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "look": _Look,
    "guests": _Guests,
    "started-here": _StartedHere,
    "record": _MakeRecord,
    "pause": _Pause,
    "unpause": _Unpause,
    "stop-original": _StopOriginal,
    "start-original": _StartOriginal,
    "switch": _Switch,
    "switch-back": _SwitchBack,
    "start": _Start,
    "start-master": _StartMaster,
    "start-rest": _StartRest,
    "stop-master": _StopMaster,
    "hand-back": _HandBack,
    "hand-back-late": _HandBackLate,
    "forget": _Forget,
}
