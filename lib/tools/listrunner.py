"""ganeti-listrunner: runs a command, or a file, on many machines over SSH, whether they belong to a cluster or not.

Each machine is one process of OpenSSH.  A file and what it needs travel as a tar archive on standard input, into a
directory that only the login user can enter and that is gone afterwards.
"""

from __future__ import annotations

import getpass
import io
import optparse
import os
import sys
import tarfile
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ganeti import constants, errors, runtime, ssh
from ganeti.tools import common
from ganeti.utils import parallel
from ganeti.utils.text import Printable

_TIMEOUT = 4 * 3600.0
_MAX_FILE = 64 * 1024 * 1024
_MAX_LIST = 1024 * 1024
_MAX_HOSTS = 10000
_MAX_BATCH = 256
_HOST_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:%")
# Read by ssh, which asks this program instead of a terminal.
_ASKPASS = '#!/bin/sh\nexec cat "${0%/*}/password"\n'
_EXIT_HOST_FILE = 2
# What ssh returns when it could not run the command.
_SSH_FAILURE = 255

_USAGE = (
    "%prog -l LOGDIR {-c COMMAND | -x FILE [--args ARGUMENTS] [-a FILE]...} {-f HOSTFILE | -h HOST[,HOST...]} [options]"
)


class Task(NamedTuple):
    """What to do everywhere: a command line of the shell, and what it reads."""

    command: str
    archive: bytes | None


def MakeParser() -> optparse.OptionParser:
    parser = optparse.OptionParser(
        usage=_USAGE, version=f"%prog (ganeti) {constants.RELEASE_VERSION}", add_help_option=False
    )
    parser.add_option("--help", action="help", help="Show this help and exit")
    parser.add_option(
        "-l", dest="logdir", metavar="DIR", help="Directory for the log of each host; it is made if it is missing"
    )
    parser.add_option("-x", dest="executable", metavar="FILE",
                      help="Program to copy into a private temporary directory of the hosts and run there")  # fmt: skip
    parser.add_option("--args", dest="arguments", default="", metavar="WORDS", help="Arguments of the program of -x")
    parser.add_option("-a", dest="auxiliary", action="append", default=[], metavar="FILE",
                      help="Another file to copy beside the program; repeat it for several")  # fmt: skip
    parser.add_option("-c", dest="command", metavar="COMMAND", help="Shell command to run")
    parser.add_option("-f", dest="hostfile", metavar="FILE", help="File with a host on each line")
    parser.add_option("-h", dest="hosts", metavar="HOST,...", help="Hosts")
    parser.add_option(
        "-b", dest="batch", type="int", default=15, metavar="NUMBER", help="How many hosts at once [%default]"
    )
    parser.add_option("-u", dest="user", default="root", help="User to log in as [%default]")
    parser.add_option("-p", dest="password", metavar="FILE",
                      help="File whose first line is the password; without -p and -A it is asked for")  # fmt: skip
    parser.add_option("-A", dest="agent", action="store_true", help="Log in with keys, such as those of ssh-agent")
    return parser


def _Wrong(text: str) -> errors.OpPrereqError:
    return errors.OpPrereqError(text, errors.ECODE_INVAL)


# --- what is asked for --------------------------------------------------------------------------------------------------


class HostFileUnreadable(errors.GenericError):
    """The list of hosts cannot be read."""

    exit_code = _EXIT_HOST_FILE


def Hosts(options: optparse.Values) -> list[str]:
    """Return the hosts, each once, in the order given."""
    if (options.hostfile is None) == (options.hosts is None):
        raise _Wrong("Give the hosts either in a file (-f) or by name (-h)")
    if options.hosts is not None:
        words = options.hosts.split(",")
    else:
        try:
            words = runtime.ReadText(options.hostfile, _MAX_LIST).splitlines()
        except (OSError, ValueError) as err:
            raise HostFileUnreadable(f"The list of hosts {options.hostfile} cannot be read: {err}") from err
        words = [word for word in words if not word.lstrip().startswith("#")]
    hosts = list(dict.fromkeys(word.strip() for word in words if word.strip()))
    if not hosts or len(hosts) > _MAX_HOSTS:
        raise _Wrong(f"There are {len(hosts)} hosts; 1 to {_MAX_HOSTS} are possible")
    for host in hosts:
        # A hyphen would make it an option of ssh, a slash another file for its log.
        if host.startswith(("-", ".")) or not _HOST_NAME.issuperset(host):
            raise _Wrong(f"'{host[:80]}' is not the name or address of a host")
    return hosts


def _Archive(files: Sequence[str]) -> bytes:
    """Return the files as a tar archive, the first one executable."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for number, path in enumerate(files):
            try:
                data = runtime.ReadFile(path, _MAX_FILE)
            except OSError as err:
                raise _Wrong(f"{path} cannot be read: {err.strerror}") from err
            entry = tarfile.TarInfo(os.path.basename(path))
            entry.size, entry.mode, entry.mtime = len(data), 0o400 if number else 0o500, int(runtime.Time())
            tar.addfile(entry, io.BytesIO(data))
    return stream.getvalue()


def MakeTask(options: optparse.Values) -> Task:
    if (options.command is None) == (options.executable is None):
        raise _Wrong("Give either a command (-c) or a program to copy (-x)")
    if options.command is not None:
        if options.auxiliary or options.arguments:
            raise _Wrong("-a and --args go with -x only")
        return Task(options.command, None)
    files = [options.executable, *options.auxiliary]
    names = [os.path.basename(path) for path in files]
    if len(set(names)) < len(names):
        raise _Wrong(f"Two of the files have the same name: {', '.join(sorted(names))}")
    program = runtime.ShellQuote(f"./{names[0]}")
    # The shell stays, as it must remove the directory.
    command = (
        'umask 077; d=$(mktemp -d) || exit 1; trap \'rm -rf "$d"\' EXIT; trap "exit 1" HUP INT TERM; cd "$d" &&'
        f" tar xf - && {program} {options.arguments} < /dev/null"
    )
    return Task(command, _Archive(files))


def BuildSsh(host: str, user: str, command: str, keys: bool) -> list[str]:
    """Return the command line; the key of the host must be known, as a password must not go to another machine."""
    argv = ["ssh", f"-oConnectTimeout={ssh.CONNECT_TIMEOUT}", "-oStrictHostKeyChecking=yes", "-oLogLevel=ERROR"]
    argv += ["-oServerAliveInterval=15", "-oServerAliveCountMax=4"]
    if keys:
        argv.append("-oBatchMode=yes")
    else:
        argv += ["-oPreferredAuthentications=password,keyboard-interactive", "-oNumberOfPasswordPrompts=1"]
    return [*argv, "-l", user, "--", host, command]


# --- doing it -----------------------------------------------------------------------------------------------------------


def _WriteLog(logdir: str, host: str, result: runtime.RunResult) -> bool:
    """Write what became of a host; return whether it went well."""
    lines = [f"output = {line}" for line in result.output.splitlines()]
    if result.timeout is not None:
        lines.append(f"ERROR: FAILURE_TIMEOUT: no result within {result.timeout:g} seconds")
    elif result.exit_code == _SSH_FAILURE:
        lines.append("ERROR: FAILURE_SSH: no connection, or the login was rejected; the line before says why")
    elif result.failed:
        how = f"signal {result.signal}" if result.exit_code is None else f"exit code {result.exit_code}"
        lines.append(f"ERROR: FAILURE_COMMAND: {how}")
    else:
        lines.append("SUCCESS: command executed successfully")
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(runtime.Time()))
    text = "".join(f"{stamp} {Printable(line)}\n" for line in lines)
    runtime.WriteFile(os.path.join(logdir, f"{host}.log"), text, mode=0o600)
    return not result.failed


def _Password(options: optparse.Values) -> str:
    if options.password is None:
        return getpass.getpass(f"{options.user}'s password for all nodes: ")
    try:
        lines = runtime.ReadText(options.password, _MAX_LIST).splitlines()
    except (OSError, ValueError) as err:
        raise _Wrong(f"The file with the password, {options.password}, cannot be read: {err}") from err
    if not lines or not lines[0]:
        raise _Wrong(f"The first line of {options.password} is empty; it should be the password")
    return lines[0]


def _RunAll(hosts: Sequence[str], task: Task, options: optparse.Values, env: Mapping[str, str]) -> int:
    def run(host: str) -> runtime.RunResult:
        argv = BuildSsh(host, options.user, task.command, options.agent)
        return runtime.RunCmd(argv, env=env, stdin=task.archive, timeout=_TIMEOUT)

    good = 0
    for host, result in parallel.Each(hosts, run, str, options.batch):
        done = _WriteLog(options.logdir, host, result)
        good += done
        print(f"{host}: {'SUCCESS' if done else 'ERROR'}, see {os.path.join(options.logdir, host)}.log", flush=True)
    print(f"All done, {good} successful and {len(hosts) - good} failed hosts")
    # As in 3.1, whatever became of the hosts.
    return constants.EXIT_SUCCESS


def _Run(options: optparse.Values) -> int:
    if not options.logdir:
        raise _Wrong("Give the directory for the logs (-l)")
    if not 1 <= options.batch <= _MAX_BATCH:
        raise _Wrong(f"{options.batch} hosts at once are not possible; 1 to {_MAX_BATCH} are")
    if not options.user or options.user.startswith("-"):
        raise _Wrong(f"'{options.user}' is not the name of a user")
    if options.agent and options.password is not None:
        raise _Wrong("Give either a password (-p) or -A")
    hosts = Hosts(options)
    task = MakeTask(options)
    try:
        runtime.MakeDirs(options.logdir, 0o700)
        runtime.ListDir(options.logdir)
    except OSError as err:
        raise _Wrong(f"The directory for the logs, {options.logdir}, cannot be used: {err.strerror}") from err
    env = dict(runtime.Environment())
    if options.agent:
        return _RunAll(hosts, task, options, env)
    password = _Password(options)
    # Nobody can guess the name, or make the directory first.
    name = f"ganeti-listrunner.{runtime.RandomBytes(12).hex()}"
    place = os.path.join(env.get("TMPDIR", "/tmp"), name)  # noqa: S108 - see above
    runtime.MakeDirs(place, 0o700)
    try:
        runtime.WriteFile(f"{place}/password", password + "\n", mode=0o600, sync=False)
        runtime.WriteFile(f"{place}/ask", _ASKPASS, mode=0o700, sync=False)
        env |= {"SSH_ASKPASS": f"{place}/ask", "SSH_ASKPASS_REQUIRE": "force"}
        return _RunAll(hosts, task, options, env)
    finally:
        runtime.RemoveTree(place)


def Main() -> int:
    parser = MakeParser()
    options, arguments = parser.parse_args()
    common.LogToStderr(0, 0)
    if arguments:
        parser.error("no arguments are expected besides options")
    if len(sys.argv) == 1:
        parser.print_usage(sys.stderr)
        return constants.EXIT_FAILURE
    return common.RunTool(lambda: _Run(options))
