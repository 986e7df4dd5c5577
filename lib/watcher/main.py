"""The watcher's command line, its log and its exit codes."""

from __future__ import annotations

import ipaddress
import logging
import optparse
import sys

from ganeti import _autoconf, constants, errors, pathutils, runtime, ssconf
from ganeti.daemon import logs
from ganeti.utils.text import ParseTimespec
from ganeti.watcher import guard

PROGRAM = "ganeti-watcher"
_USAGE = """\
%prog [options]

Starts daemons and instances that should run, and activates disks after a node's reboot"""
_JOB_AGE = "6h"


def Parser() -> optparse.OptionParser:
    release = f"%prog (ganeti) {constants.RELEASE_VERSION}"
    parser = optparse.OptionParser(prog=PROGRAM, usage=_USAGE, version=release)
    add = parser.add_option
    add("-d", "--debug", action="count", default=0, help="Log what is looked at too, and show the log on the terminal")
    add("-g", "--node-group", dest="group", metavar="UUID", help="Look after this node group only")
    add("-A", "--job-age", metavar="AGE", default=_JOB_AGE,
        help=f"Archive jobs that ended longer ago, such as 30m or 2d (default: {_JOB_AGE})")  # fmt: skip
    add("--ignore-pause", action="store_true", default=False, help="Work although the watcher is paused")
    add("--wait-children", action="store_true", default=True, help="Wait for the processes of the groups (default)")
    add("--no-wait-children", dest="wait_children", action="store_false", help="Do not wait for them")
    add("--no-verify-disks", dest="verify_disks", action="store_false", default=True, help="Do not verify disks")
    add("--no-strict", dest="strict", action="store_false", default=True,
        help="Verify only disks of instances that no job has locked")  # fmt: skip
    add("--repair-volume-groups", action="store_true", default=False,
        help="Repair volume groups that have lost a disk, where tags permit it; without this option they are only reported")  # fmt: skip
    add("--rapi-ip", metavar="IP",
        help="Address at which ganeti-rapi is checked (default: 127.0.0.1, then the addresses of this node"
        " and of the cluster)")  # fmt: skip
    return parser


def _Parse() -> optparse.Values:
    parser = Parser()
    options, arguments = parser.parse_args()
    if arguments:
        parser.error("No arguments are expected")
    try:
        options.job_age = ParseTimespec(options.job_age)
    except errors.OpPrereqError as err:
        parser.error(f"option -A: {err.args[0]}")
    if options.rapi_ip is not None and not _IsAddress(options.rapi_ip):
        parser.error(f"option --rapi-ip: '{options.rapi_ip}' is not an IP address")
    return options


def _IsAddress(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def Main() -> int:
    options = _Parse()
    if not ssconf.InCluster():
        return constants.EXIT_SUCCESS
    terminal = logging.DEBUG if options.debug else None
    try:
        logs.SetUp(PROGRAM, pathutils.LOG_WATCHER, debug=options.debug, usage=_autoconf.SYSLOG_USAGE, terminal=terminal)
    except OSError as err:
        sys.stderr.write(f"{PROGRAM}: {pathutils.LOG_WATCHER} cannot be written: {err.strerror}\n")
        return constants.EXIT_FAILURE
    try:
        return Guarded(lambda: _Run(options))
    finally:
        logs.Complain(PROGRAM)


def _Run(options: optparse.Values) -> int:
    if not guard.MayWork(options):
        return constants.EXIT_SUCCESS
    try:
        lock = guard.TakeLock()
    except runtime.LockBusy as err:
        logging.error("Nothing is done: another program stops or changes the daemons of this node (%s)", err)
        return constants.EXIT_SUCCESS
    # Held to the end of this process; the processes of the groups inherit it.
    with lock:
        if options.group is None:
            from ganeti.watcher import whole

            return whole.Run(options, Guarded)
        from ganeti.watcher import group

        return group.Run(options, options.group)


def Guarded(action: guard.Action) -> int:
    """Run a part of the watcher; an error becomes a line of the log and an exit code."""
    try:
        return action()
    except (errors.JobQueueDrainError, errors.JobQueueFull) as err:
        logging.warning("No jobs can be submitted now: %s", err)
        return constants.EXIT_SUCCESS
    except errors.GenericError as err:
        logging.error("%s", " ".join(_Words(err).split()))
        return _ExitCode(err)
    except Exception:
        logging.exception("The watcher ends because of an unexpected error")
        return constants.EXIT_FAILURE


def _Words(err: errors.GenericError) -> str:
    from ganeti.daemon.main import ErrorText

    return ErrorText(err)


def _ExitCode(err: errors.GenericError) -> int:
    resolver = isinstance(err, errors.OpPrereqError) and err.args[1:] == (errors.ECODE_RESOLVER,)
    if resolver or isinstance(err, errors.ResolverError):
        return constants.EXIT_NODESETUP_ERROR
    return err.exit_code
