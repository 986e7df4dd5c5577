"""The main program of a daemon, from its command line to its end."""

from __future__ import annotations

import faulthandler
import gc
import logging
import optparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

from ganeti import _autoconf, constants, errors, hosts, pathutils, runtime, serializer
from ganeti.daemon import logs, memory, pidfile, signals, users

Option = optparse.Option
Options = optparse.Values
T = TypeVar("T")

# How long the terminal waits for a daemon to come up; a vote among nodes may take a minute.
START_TIMEOUT = 600.0
_UMASK = 0o077

_pid_lock: Any = None


def NetworkOptions(
    daemon: str, default_port: int, protocol: str = "tcp", default_address: str = "all addresses"
) -> list[Option]:
    """Return -p, -b and -i.  The services database may know another port under the daemon's name.

    ``default_address``: what the daemon binds to by itself, for the help.
    """
    port = hosts.DaemonPort(daemon, default_port, protocol)
    return [
        Option(
            "-p",
            "--port",
            dest="port",
            type="int",
            default=port,
            metavar="PORT",
            help=f"Network port (default: {port})",
        ),
        Option(
            "-b",
            "--bind",
            dest="bind_address",
            default=None,
            metavar="ADDRESS",
            help=f"Bind address (default: {default_address})",
        ),
        Option(
            "-i",
            "--interface",
            dest="bind_interface",
            default=None,
            metavar="INTERFACE",
            help="Bind to the address of this network interface",
        ),
    ]


def SslOptions(certificate: str) -> list[Option]:
    return [
        Option("--no-ssl", dest="ssl", action="store_false", default=True, help="Do not secure the protocol with SSL"),
        Option("-K", "--ssl-key", dest="ssl_key", default=certificate, metavar="FILE", help="SSL key"),
        Option("-C", "--ssl-cert", dest="ssl_cert", default=certificate, metavar="FILE", help="SSL certificate"),
    ]


def ClientsOption(what: str) -> Option:
    """Return --max-clients; ``what``: what there may be so many of at the same time, for the help."""
    return Option("--max-clients", dest="max_clients", type="int", default=20, metavar="N", help=f"{what} [%default]")


def CheckClients(options: Options) -> None:
    """Check the value of --max-clients; raise ParameterError."""
    if not 1 <= options.max_clients <= 1000:
        raise errors.ParameterError(f"--max-clients must be from 1 to 1000, not {options.max_clients}")


_COMMON_OPTIONS = (
    (("-f", "--foreground"), {"dest": "foreground", "action": "store_true", "help": "Don't detach from the terminal"}),
    (("-d", "--debug"), {"dest": "debug", "action": "store_true", "help": "Enable some debug messages"}),
    (
        ("--syslog",),
        {
            "dest": "syslog",
            "type": "choice",
            "choices": logs.SYSLOG_CHOICES,
            "metavar": "SYSLOG",
            "help": "Enable logging to syslog (except debug messages); one of 'no', 'yes' or 'only' [%default]",
        },
    ),
    (
        ("--no-user-checks",),
        {"dest": "user_checks", "action": "store_false", "help": "Start under whatever user this is"},
    ),
)


def _Parser(name: str, title: str, options: Sequence[Option]) -> optparse.OptionParser:
    shapes = {"port": " [-p port]", "bind_address": " [-b ADDRESS]", "bind_interface": " [-i INTERFACE]"}
    usage = "%prog [-f] [-d]" + "".join(shapes.get(str(option.dest), "") for option in options)
    parser = optparse.OptionParser(
        prog=name,
        usage=usage,
        description=title,
        version=f"%prog (ganeti) {constants.RELEASE_VERSION}",
    )
    for option in options:
        parser.add_option(option)
    for names, settings in _COMMON_OPTIONS:
        parser.add_option(*names, **settings)
    parser.set_defaults(foreground=False, debug=False, syslog=_autoconf.SYSLOG_USAGE, user_checks=True)
    return parser


class _Starter:
    """The channel on which the new process reports to the terminal how its start went."""

    def __init__(self, descriptor: int):
        self._descriptor = descriptor

    def Tell(self, code: int, text: str) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.write(descriptor, serializer.DumpBytes([code, text[:2000]]))
            os.close(descriptor)
        elif text:
            sys.stderr.write(text + "\n")


def _WaitForWord(descriptor: int, name: str, log: str) -> int:
    """Read what the daemon's process says about its start; return the exit code for the terminal."""
    poller = runtime.Poller()
    parts: list[bytes] = []
    end = runtime.Monotonic() + START_TIMEOUT
    try:
        poller.Register(descriptor, runtime.IN)
        while True:
            left = end - runtime.Monotonic()
            if left <= 0 or not poller.Poll(left):
                sys.stderr.write(f"{name} has not started within {START_TIMEOUT:g} s and keeps trying; see {log}\n")
                return constants.EXIT_FAILURE
            part = os.read(descriptor, 65536)
            if not part:
                break
            parts.append(part)
    finally:
        poller.Close()
        os.close(descriptor)
    try:
        code, text = serializer.Load(b"".join(parts))
    except errors.ParseError:
        code, text = constants.EXIT_FAILURE, f"{name} ended while it started; see {log}"
    if text:
        sys.stderr.write(text + "\n")
    return int(code)


def _Detach(name: str, log: str) -> _Starter:
    """Continue in a process without terminal; the first process waits for its report and ends here."""
    reader, writer = os.pipe()
    if runtime.Fork():
        os.close(writer)
        _Leave(_WaitForWord(reader, name, log))
    os.close(reader)
    os.setsid()
    if runtime.Fork():  # not a session leader: can never get a terminal
        _Leave(0)
    os.chdir("/")
    _DropInherited()
    return _Starter(writer)


def _DropInherited() -> None:
    """Close what the starter left open for us, such as a lock of the watcher; our own descriptors end at an exec."""
    for text in os.listdir("/proc/self/fd"):  # noqa: TID251
        descriptor = int(text)
        try:
            if descriptor > 2 and os.get_inheritable(descriptor):
                os.close(descriptor)
        except OSError:
            pass  # the one that was open for the listing


def _Leave(code: int) -> NoReturn:
    """End a process that stays behind: buffers and handlers belong to the one that continues."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _RedirectStreams(path: str | None) -> None:
    """Empty standard input; send what a library or a crash writes to the standard streams to the log."""
    null = os.open(os.devnull, os.O_RDWR)  # noqa: TID251 - the descriptors themselves are meant
    output = null
    if path is not None:
        try:
            output = logs.OpenForAppending(path)
        except OSError:
            pass  # reported by the set-up of the log
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for descriptor in {null, output}:
        if descriptor > 2:
            os.close(descriptor)


def ForkedChild() -> None:
    """Give up what belongs to the parent alone, in a forked child: the pid file and the signals.

    Without this the lock on the pid file would live as long as the child, and a new daemon could not start.
    """
    global _pid_lock
    if _pid_lock is not None:
        _pid_lock.release()
        _pid_lock = None
    signals.RestoreDefaults()


def _InterfaceAddress(interface: str) -> str:
    result = runtime.RunCmd(["ip", "-o", "addr", "show", "dev", interface, "scope", "global"], timeout=10)
    words = result.stdout.split()
    for family in ("inet", "inet6"):
        if family in words[:-1]:
            return words[words.index(family) + 1].partition("/")[0]
    raise errors.OpPrereqError(f"Network interface '{interface}' has no address to bind to")


def _SettleOptions(parser: optparse.OptionParser, options: Options) -> None:
    if not hasattr(options, "port"):
        return
    if not 0 <= options.port <= 65535:
        parser.error(f"option -p: {options.port} is not a port number")
    if options.bind_interface is not None:
        if options.bind_address is not None:
            parser.error("options -b and -i exclude each other")
        options.bind_address = _InterfaceAddress(options.bind_interface)


def GenericMain(
    name: str,
    title: str,
    options: Sequence[Option],
    check: Callable[[Options], int],
    prepare: Callable[[Options], T],
    execute: Callable[[Options, T, signals.StopSignal], int | None],
    argv: Sequence[str] | None = None,
) -> int:
    """Run a daemon and return its exit code.

    ``check`` answers an exit code, 0 to go on; all three may raise GenericError, whose text reaches the terminal (``check``,
    ``prepare``) or the log (``execute``).  All run under the daemon's user.
    """
    parser = _Parser(name, title, options)
    values, arguments = parser.parse_args(None if argv is None else list(argv))
    if arguments:
        parser.error("No arguments are expected")
    os.umask(_UMASK)
    log = pathutils.DaemonLog(name)
    try:
        _SettleOptions(parser, values)
        users.BecomeUser(name, *users.DAEMON_USERS[name], check=values.user_checks)
        code = check(values)
    except errors.GenericError as err:
        return _Report(err)
    if code:
        return code
    starter = _Starter(-1) if values.foreground else _Detach(name, log)
    try:
        code = _Live(name, values, log, starter, prepare, execute)
    except BaseException:
        if values.foreground:
            raise
        logging.critical("%s ends by an error", name, exc_info=True)
        code = constants.EXIT_FAILURE
    if not values.foreground:
        logging.shutdown()
        os._exit(code)
    return code


def _Report(err: errors.GenericError) -> int:
    sys.stderr.write(ErrorText(err) + "\n")
    return err.exit_code


def ErrorText(err: errors.GenericError) -> str:
    """Return the words of an error for an administrator, with what to do next."""
    text = str(err.args[0]) if isinstance(err, errors.OpPrereqError) and err.args else str(err)
    return text + (f"\n{err.hint}" if err.hint else "")


def _StartLogs(name: str, options: Options, log: str) -> None:
    def redirect() -> None:
        if not options.foreground:
            _RedirectStreams(None if options.syslog == logs.SYSLOG_ONLY else log)

    redirect()
    terminal = logging.DEBUG if options.foreground else None
    try:
        logs.SetUp(name, log, debug=options.debug, usage=options.syslog, terminal=terminal)
    except OSError as err:
        logging.error("Log file %s cannot be written, messages go to the console: %s", log, err.strerror)
    faulthandler.enable(all_threads=True)
    # Log lines follow a rotated file by themselves, the standard streams at SIGHUP.
    signals.OnHangup(redirect)


def _Live(
    name: str,
    options: Options,
    log: str,
    starter: _Starter,
    prepare: Callable[[Options], T],
    execute: Callable[[Options, T, signals.StopSignal], int | None],
) -> int:
    global _pid_lock
    try:
        _pid_lock = pidfile.Lock(name)
        _StartLogs(name, options, log)
        stop = signals.StopSignal()
        stop.Install()
        logging.info("%s daemon startup", name)
        with memory.MakingWhatStays():
            prepared = prepare(options)
    except errors.GenericError as err:
        if _pid_lock is not None:
            logging.error("%s cannot start: %s", name, ErrorText(err))
        _RemovePidFile(name)
        starter.Tell(err.exit_code, ErrorText(err))
        return err.exit_code
    except Exception as err:
        _RemovePidFile(name)  # before whoever waits for the start continues
        starter.Tell(constants.EXIT_FAILURE, f"{name} cannot start: {err}; see {log}")
        raise
    # It lives as long as the daemon: later collections need not look at it again.
    gc.collect()
    gc.freeze()
    starter.Tell(0, "")
    try:
        return execute(options, prepared, stop) or 0
    except errors.GenericError as err:
        logging.error("%s ends: %s", name, ErrorText(err))
        return err.exit_code
    finally:
        logging.info("%s daemon shutdown", name)
        _RemovePidFile(name)


def _RemovePidFile(name: str) -> None:
    """Remove the file if this process holds its lock; otherwise it may be another daemon's."""
    global _pid_lock
    if _pid_lock is not None:
        runtime.RemoveFile(pathutils.DaemonPidFile(name))
        _pid_lock.release()
        _pid_lock = None


def AskTerminal(lines: list[str]) -> bool:
    """Show the lines and ask for a yes; where nobody can answer, the answer is no."""
    sys.stderr.write("\n".join(lines) + "\nDo you want to continue? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
