"""daemon-util: starts, stops and looks after the daemons of this node (doc/reference/files.md 10, tools.md 4)."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ganeti import _autoconf, constants, errors, pathutils, runtime
from ganeti.daemon import memory, pidfile
from ganeti.luxi import client as luxi_client
from ganeti.tools import ensure_dirs

STOP_TIMEOUT = 30.0
ABORT_JOBS = "--abort-jobs"
# Seconds between two signals to a master daemon that is to give up its jobs, until the person who waits is told why,
# and for its answer to that question.
_SIGNAL_AGAIN = 1.0
_PATIENCE = 2.0
_ASK_TIMEOUT = 5.0
_AT_WORK = ["|", ["=", "status", "running"], ["=", "status", "canceling"]]
# A daemon may take its time to come up (daemon.main.START_TIMEOUT), but not forever.
_START_TIMEOUT = 660.0
_SYSTEMCTL_TIMEOUT = 700.0
_STANDARD_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")

START_ORDER = (constants.NODED, constants.CONFD, constants.MASTERD, constants.RAPI)
MASTER_ORDER = (constants.MASTERD, constants.RAPI)

# Daemons of 3.1 whose work the master daemon does (doc/compatibility.rst), and those that have no counterpart.
ALIASES = {"ganeti-wconfd": constants.MASTERD, "ganeti-luxid": constants.MASTERD}
ABSENT = {
    "ganeti-kvmd": "guests that shut themselves down are noticed by the node daemon",
    "ganeti-mond": "there is no monitoring daemon",
    "ganeti-metad": "there is no metadata daemon",
}

# Variables of /etc/default/ganeti; those of the old names belong to the master daemon too.
ARGUMENT_VARIABLES = {
    constants.NODED: ("NODED_ARGS",),
    constants.CONFD: ("CONFD_ARGS",),
    constants.MASTERD: ("MASTERD_ARGS", "WCONFD_ARGS", "LUXID_ARGS"),
    constants.RAPI: ("RAPI_ARGS",),
}


class Refusal(errors.GenericError):
    """The request makes no sense here; its text goes to stderr."""


def Canonical(name: str) -> str:
    """Return the daemon meant by ``name``; raise Refusal."""
    if name in START_ORDER:
        return name
    if name in ALIASES:
        return ALIASES[name]
    if name in ABSENT:
        raise Refusal(f"There is no '{name}' in this release: {ABSENT[name]}")
    raise Refusal(f"Unknown daemon name '{name}'")


# --- arguments of daemons ------------------------------------------------------------------------------------------------


def ConfiguredArguments(name: str) -> list[str]:
    """Return the daemon's arguments from /etc/default/ganeti and the environment."""
    variables = [v for old in ARGUMENT_VARIABLES[name] for v in (old, f"EXTRA_{old}")]
    wanted = " ".join(f'"${{{v}-}}"' for v in variables)
    script = f'if [ -e "$1" ]; then . "$1" >&2 || exit 1; fi; printf "%s\\0" {wanted}'
    argv = ["/bin/sh", "-c", script, "sh", pathutils.DEFAULT_FILE]
    result = runtime.RunCmd(argv, env=_DaemonEnvironment(), timeout=30)
    if result.failed:
        raise Refusal(f"{pathutils.DEFAULT_FILE} cannot be read: {result.stderr.strip() or result.fail_reason}")
    values = result.stdout.split("\0")[:-1]
    try:
        return [word for value in values for word in shlex.split(value)]
    except ValueError as err:
        raise Refusal(f"{pathutils.DEFAULT_FILE}: the arguments of {name} cannot be read: {err}") from err


def _DaemonEnvironment() -> dict[str, str]:
    """Our own environment, with a search path in which the system's programs are found."""
    environment = dict(runtime.Environment())
    given = [d for d in environment.get("PATH", "").split(":") if d]
    environment["PATH"] = ":".join(given + [d for d in _STANDARD_PATH if d not in given])
    environment["LC_ALL"] = "C"
    return environment


# --- systemd -------------------------------------------------------------------------------------------------------------


def UseSystemctl() -> bool:
    """Return whether systemd manages the daemons of this node."""
    if pathutils.IsVirtual() or not runtime.IsDir("/run/systemd/system"):
        return False
    result = runtime.RunCmd(["systemctl", "show", "--property=LoadState", "ganeti.target"], timeout=30)
    return not result.failed and result.stdout.strip() == "LoadState=loaded"


def _Systemctl(*words: str) -> int:
    result = runtime.RunCmd(["systemctl", *words], timeout=_SYSTEMCTL_TIMEOUT)
    return _Relay(result)


def _Relay(result: runtime.RunResult) -> int:
    """Show a program's output and return its exit code."""
    sys.stdout.write(result.stdout)
    sys.stderr.write(result.stderr)
    if result.exit_code is None or (result.failed and not result.stderr):
        sys.stderr.write(f"{result.fail_reason}\n")
    return constants.EXIT_FAILURE if result.exit_code is None else result.exit_code


# --- one daemon ----------------------------------------------------------------------------------------------------------


def Start(name: str, arguments: Sequence[str] = ()) -> int:
    """Start a daemon unless it runs; return its exit code, 11 for "not the master"."""
    if ensure_dirs.EnsureAll() != constants.EXIT_SUCCESS:
        return constants.EXIT_FAILURE
    if UseSystemctl():
        if arguments:
            text = "ONETIME_ARGS=" + shlex.quote(shlex.join(arguments)) + "\n"
            runtime.WriteFile(pathutils.OnetimeArgsFile(name), text, mode=0o644)
        try:
            return _Systemctl("start", f"{name}.service")
        finally:
            if arguments:
                runtime.RemoveFile(pathutils.OnetimeArgsFile(name))
    if pidfile.Running(name) is not None:
        return constants.EXIT_SUCCESS
    argv = [pathutils.DaemonProgram(name), *ConfiguredArguments(name), *arguments]
    environment = _DaemonEnvironment()
    if name == constants.MASTERD:  # as in its unit of systemd
        environment = {**memory.RETURNED, **environment}
    return _Relay(runtime.RunCmd(argv, env=environment, timeout=_START_TIMEOUT))


def Stop(name: str, abort_jobs: bool = False) -> int:
    """Ask a daemon to end and wait for it.

    The master daemon refuses while jobs run, unless ``abort_jobs``: they then become errors.  systemd would kill it after
    a while, jobs or not; so it is asked here first.
    """
    systemd = UseSystemctl()
    if name == constants.MASTERD or not systemd:
        code = _StopProcess(name, abort_jobs)
        if code != constants.EXIT_SUCCESS:
            return code
    return _Systemctl("stop", f"{name}.service") if systemd else constants.EXIT_SUCCESS


def _StopProcess(name: str, abort_jobs: bool) -> int:
    pid = pidfile.Running(name)
    if pid is None:
        return constants.EXIT_SUCCESS
    started = runtime.Monotonic()
    signals, told = 0, False
    while pidfile.Running(name) == pid or runtime.ProcessAlive(pid):
        waited = runtime.Monotonic() - started
        if waited >= STOP_TIMEOUT:
            sys.stderr.write(_StillRunning(name, pid))
            return constants.EXIT_FAILURE
        # A second signal soon after the first ends the master daemon whatever runs.
        if signals == 0 or (abort_jobs and waited >= signals * _SIGNAL_AGAIN):
            if not _Signal(name, pid, signal.SIGTERM):
                return constants.EXIT_FAILURE
            signals += 1
        if name == constants.MASTERD and not told and waited >= _PATIENCE:
            told = True
            jobs = _RunningJobs()
            if jobs and not abort_jobs:
                sys.stderr.write(f"Waiting for running jobs: {jobs}\n")
        runtime.Sleep(0.05)
    return constants.EXIT_SUCCESS


def _RunningJobs() -> str:
    """Return ids and summaries of the jobs that run; empty where the master daemon does not answer."""
    try:
        with luxi_client.Client(connect_timeout=0, io_timeout=_ASK_TIMEOUT, retry_delays=()) as client:
            found = client.Query("job", ["id", "summary"], _AT_WORK)
    except (errors.GenericError, OSError):
        return ""
    return ", ".join(f"{job_id} ({', '.join(summary)})" for (_, job_id), (_, summary) in found["data"])


def _StillRunning(name: str, pid: int) -> str:
    """Return the message about a daemon that did not end."""
    jobs = _RunningJobs() if name == constants.MASTERD else ""
    if not jobs:
        return f"{name} (process {pid}) has not ended within {STOP_TIMEOUT:g} s; see {pathutils.DaemonLog(name)}\n"
    return (
        f"{name} (process {pid}) continues working, because jobs are running: {jobs}\n"
        "Wait for them ('gnt-job watch ID'), cancel them ('gnt-job cancel --kill ID'), or stop it anyway; they then\n"
        f"become errors: '{pathutils.DAEMON_UTIL} stop {name} {ABORT_JOBS}'\n"
    )


def Check(name: str) -> int:
    return constants.EXIT_FAILURE if pidfile.Running(name) is None else constants.EXIT_SUCCESS


def CheckAndStart(name: str) -> int:
    if Check(name) == constants.EXIT_SUCCESS:
        return constants.EXIT_SUCCESS
    if UseSystemctl():
        raise Refusal(
            f"{name} is supervised by systemd, which restarts it after a failure only; start it with"
            f" 'systemctl start {name}'"
        )
    return Start(name)


def RotateLogs(name: str) -> int:
    """Make the daemon reopen its log file after that was renamed."""
    pid = pidfile.Running(name)
    return constants.EXIT_SUCCESS if pid is None or _Signal(name, pid, signal.SIGHUP) else constants.EXIT_FAILURE


def _Signal(name: str, pid: int, number: int) -> bool:
    """Send a signal to a daemon; if the process is another program, say so and return False."""
    try:
        pidfile.Signal(name, pid, number)
    except errors.PidFileLockError as err:
        sys.stderr.write(f"{err}\n")
        return False
    return True


# --- all of them ---------------------------------------------------------------------------------------------------------


def CheckExitcode(code: int) -> int:
    """0 and 11 are fine: only one node is the master."""
    if code == constants.EXIT_SUCCESS:
        return constants.EXIT_SUCCESS
    if code == constants.EXIT_NOTMASTER:
        print("not master")
        return constants.EXIT_SUCCESS
    print(f"exit code {code}")
    return constants.EXIT_FAILURE


def Installed(names: Sequence[str]) -> list[str]:
    """Return the daemons whose program is installed: a package may leave out what a node does not need."""
    return [name for name in names if runtime.Exists(pathutils.DaemonProgram(name))]


def _Each(names: Sequence[str], action: Callable[[str], int], not_master: int = constants.EXIT_SUCCESS) -> int:
    """Handle all of them, so that one failing daemon does not keep the others from starting or ending.

    ``not_master``: what it counts that a daemon does not start because this node is not the master.
    """
    codes = [action(name) for name in Installed(names)]
    if set(codes) - {constants.EXIT_SUCCESS, constants.EXIT_NOTMASTER}:
        return constants.EXIT_FAILURE
    return not_master if constants.EXIT_NOTMASTER in codes else constants.EXIT_SUCCESS


def StartMaster() -> int:
    if UseSystemctl():
        return _Systemctl("start", "ganeti-master.target")
    return _Each(MASTER_ORDER, Start, constants.EXIT_NOTMASTER)


def StopMaster(abort_jobs: bool = False) -> int:
    return _StopAfterMaster(MASTER_ORDER, "ganeti-master.target", abort_jobs)


def StartAll() -> int:
    if UseSystemctl():
        return _Systemctl("start", "ganeti.target")
    return _Each(START_ORDER, Start)


def StopAll(abort_jobs: bool = False) -> int:
    return _StopAfterMaster(START_ORDER, "ganeti.target", abort_jobs)


def _StopAfterMaster(names: Sequence[str], target: str, abort_jobs: bool) -> int:
    """Stop the master daemon, then the others; while it works for a job they are needed, and go on too."""
    code = Stop(constants.MASTERD, abort_jobs) if constants.MASTERD in Installed(names) else constants.EXIT_SUCCESS
    if code != constants.EXIT_SUCCESS:
        sys.stderr.write("No other daemon was stopped.\n")
        return code
    if UseSystemctl():
        return _Systemctl("stop", target)
    return _Each([name for name in names[::-1] if name != constants.MASTERD], Stop)


def _WithAbort(stop: Callable[[bool], int], words: Sequence[str]) -> int:
    """Call ``stop`` with whether the only word allowed was given."""
    if words not in ([], [ABORT_JOBS]):
        raise Refusal(f"'{words[0]}' is not known here; '{ABORT_JOBS}' is")
    return stop(bool(words))


def CheckConfig() -> int:
    if runtime.Exists(pathutils.NODED_CERT_FILE):
        return constants.EXIT_SUCCESS
    raise Refusal(f"{pathutils.NODED_CERT_FILE} is missing: this node is not part of a cluster")


def ReloadSshKeys() -> int:
    """Reload the SSH daemon, except in a virtual cluster, whose nodes share the machine's daemon and not its keys."""
    if pathutils.IsVirtual():
        return constants.EXIT_SUCCESS
    return _Relay(runtime.RunCmd(shlex.split(_autoconf.RELOAD_SSH_KEYS), timeout=120))


def _PrintLines(lines: Sequence[str]) -> int:
    for line in lines:
        print(line)
    return constants.EXIT_SUCCESS


def _IsDaemonName(name: str) -> int:
    Canonical(name)
    return constants.EXIT_SUCCESS


def _Number(text: str) -> int:
    if not text.isdigit():
        raise Refusal(f"'{text}' is not an exit code")
    return int(text)


# --- command line --------------------------------------------------------------------------------------------------------


class Verb(NamedTuple):
    """An action: what its arguments are called, and what it does with them.  ``[args]`` takes any number."""

    words: tuple[str, ...]
    action: Callable[[list[str]], int]


VERBS: dict[str, Verb] = {
    "check-config": Verb((), lambda a: CheckConfig()),
    "check-exitcode": Verb(("RC",), lambda a: CheckExitcode(_Number(a[0]))),
    "daemon-pidfile": Verb(("NAME",), lambda a: _PrintLines([pathutils.DaemonPidFile(Canonical(a[0]))])),
    "daemon-executable": Verb(("NAME",), lambda a: _PrintLines([pathutils.DaemonProgram(Canonical(a[0]))])),
    "list-start-daemons": Verb((), lambda a: _PrintLines(Installed(START_ORDER))),
    "list-stop-daemons": Verb((), lambda a: _PrintLines(Installed(START_ORDER[::-1]))),
    "is-daemon-name": Verb(("NAME",), lambda a: _IsDaemonName(a[0])),
    "check": Verb(("NAME",), lambda a: Check(Canonical(a[0]))),
    "start": Verb(("NAME", "[args]"), lambda a: Start(Canonical(a[0]), a[1:])),
    "stop": Verb(("NAME", "[--abort-jobs]"), lambda a: _WithAbort(lambda abort: Stop(Canonical(a[0]), abort), a[1:])),
    "check-and-start": Verb(("NAME",), lambda a: CheckAndStart(Canonical(a[0]))),
    "start-master": Verb((), lambda a: StartMaster()),
    "stop-master": Verb(("[--abort-jobs]",), lambda a: _WithAbort(StopMaster, a)),
    "start-all": Verb((), lambda a: StartAll()),
    "stop-all": Verb(("[--abort-jobs]",), lambda a: _WithAbort(StopAll, a)),
    "rotate-logs": Verb(("NAME",), lambda a: RotateLogs(Canonical(a[0]))),
    "rotate-all-logs": Verb((), lambda a: _Each(START_ORDER, RotateLogs)),
    "reload-ssh-keys": Verb((), lambda a: ReloadSshKeys()),
    "use-systemctl": Verb((), lambda a: constants.EXIT_SUCCESS if UseSystemctl() else constants.EXIT_FAILURE),
}


def _Usage() -> str:
    lines = ["Usage: daemon-util ACTION [arguments]", "", "Actions:"]
    return "\n".join(lines + [f"  {' '.join((name, *verb.words))}" for name, verb in VERBS.items()]) + "\n"


def Run(argv: Sequence[str]) -> int:
    """Run ``daemon-util ARGV`` and return its exit code; raise Refusal."""
    if not argv:
        sys.stderr.write(_Usage())
        return constants.EXIT_FAILURE
    name, arguments = argv[0], list(argv[1:])
    if "_" in name:
        raise Refusal("Command must not contain underscores")
    verb = VERBS.get(name)
    if verb is None:
        raise Refusal(f"Unknown command: {name}")
    fixed = [word for word in verb.words if not word.startswith("[")]
    if len(arguments) < len(fixed) or (len(arguments) > len(fixed) and len(fixed) == len(verb.words)):
        raise Refusal(f"Usage: daemon-util {' '.join((name, *verb.words))}")
    return verb.action(arguments)


def Main() -> int:
    try:
        return Run(sys.argv[1:])
    except errors.GenericError as err:
        sys.stderr.write(f"{err}\n")
        return constants.EXIT_FAILURE
    except OSError as err:
        sys.stderr.write(f"{err.filename}: {err.strerror}\n")
        return constants.EXIT_FAILURE
