"""import-export: sends or receives the content of one disk (doc/reference/tools.md 10); the node daemon runs it.

STATUSFILE lies in a directory of the transfer's own; there the program also keeps its pid file, whose lock is held as long as
anything of the transfer runs.
"""

from __future__ import annotations

import optparse
from typing import TYPE_CHECKING

from ganeti import constants, runtime
from ganeti.daemon import signals
from ganeti.impexpd import compression, settings, transfer
from ganeti.impexpd.settings import EXPORT, Settings
from ganeti.params import checks
from ganeti.tools import common

if TYPE_CHECKING:
    from ganeti.runtime import protocols

_USAGE = "%prog [options] STATUSFILE import|export"
_HIGHEST_PORT = 65535
# A look of the node daemon at the lock takes an instant.
_LOCK_SECONDS = 5.0
# Held until the process ends: whoever finds the lock free may count on that.
_lock: protocols.FileLock | None = None


def MakeParser() -> optparse.OptionParser:
    parser = common.Parser(_USAGE)
    parser.prog = "import-export"
    parser.add_option("--key", dest="key", metavar="FILE", help="Private key of this side (PEM)")
    parser.add_option("--cert", dest="cert", metavar="FILE", help="Certificate of this side (PEM)")
    parser.add_option("--ca", dest="ca", metavar="FILE", help="Certificate that vouches for the other side's (PEM)")
    parser.add_option("--bind", dest="bind", metavar="ADDRESS", help="Local address to listen on, or to connect from")
    parser.add_option("--ipv4", dest="ipv4", action="store_true", default=False, help="Use IPv4 only")
    parser.add_option("--ipv6", dest="ipv6", action="store_true", default=False, help="Use IPv6 only")
    parser.add_option("--host", dest="host", help="Where to send to (export)")
    parser.add_option("--port", dest="port", type="int", metavar="PORT",
                      help="Where to send to, or to listen on; a free one if an import has none")  # fmt: skip
    parser.add_option("--connect-retries", dest="connect_retries", type="int", default=0, metavar="N",
                      help="How often an export tries again to connect, once a second [%default]")  # fmt: skip
    parser.add_option("--connect-timeout", dest="connect_timeout", type="int", metavar="SECONDS",
                      default=settings.DEFAULT_CONNECT_TIMEOUT,
                      help="Time for one try to connect, or for an import until somebody has [%default]")  # fmt: skip
    parser.add_option("--compress", dest="compress", default=settings.DEFAULT_COMPRESSION, metavar="TOOL",
                      help=f"{constants.NO_COMPRESSION}, {', '.join(compression.KNOWN)} or another program [%default]")  # fmt: skip
    parser.add_option("--expected-size", dest="expected_size", metavar="SIZE",
                      help="MiB that will be transferred, or fd if the command says so")  # fmt: skip
    parser.add_option("--magic", dest="magic", metavar="TEXT", help="Text that the data must begin with")
    parser.add_option("--cmd-prefix", dest="cmd_prefix", default="", metavar="TEXT",
                      help="What stands before the data in the shell's line")  # fmt: skip
    parser.add_option("--cmd-suffix", dest="cmd_suffix", default="", metavar="TEXT",
                      help="What stands behind the data in the shell's line")  # fmt: skip
    parser.add_option("--unasked-timeout", dest="unasked_timeout", type="int", metavar="SECONDS",
                      help="End when the time of the pid file, which is touched by whoever asks for the status, stays the"
                      " same for so long")  # fmt: skip
    return parser


def ReadSettings(parser: optparse.OptionParser, options: optparse.Values, arguments: list[str]) -> Settings:
    """Return what the command line asks for; a mistake in it ends the program."""
    if len(arguments) != 2:
        parser.error("Expected exactly two arguments, STATUSFILE and import or export")
    status_file, mode = arguments
    if mode not in settings.MODES:
        parser.error(f"'{mode[:60]}' is not a mode; there are {' and '.join(settings.MODES)}")
    for name in ("key", "cert", "ca"):
        if not getattr(options, name):
            parser.error(f"--{name} is missing")
    _CheckPlace(parser, options, mode)
    if not 0 < options.connect_timeout < 2**31 or not 0 <= options.connect_retries < 2**31:
        parser.error("--connect-timeout must be positive, and --connect-retries must not be negative")
    if options.unasked_timeout is not None and not 0 < options.unasked_timeout < 2**31:
        parser.error("--unasked-timeout must be positive")
    if not checks.IsCompressionTool(options.compress):
        parser.error(f"--compress: '{options.compress[:60]}' is not the name of a program")
    if options.magic is not None and not checks.IsMagic(options.magic):
        parser.error(f"--magic needs {checks.MAGIC_RULE}")
    return Settings(
        mode=mode,
        status_file=status_file,
        key_file=options.key,
        cert_file=options.cert,
        ca_file=options.ca,
        host=options.host or "",
        port=options.port or 0,
        bind=options.bind,
        family=6 if options.ipv6 else 4 if options.ipv4 else None,
        connect_retries=options.connect_retries,
        connect_timeout=options.connect_timeout,
        compress=options.compress,
        expected_size=_ReadSize(parser, options.expected_size),
        magic=options.magic,
        prefix=options.cmd_prefix,
        suffix=options.cmd_suffix,
        unasked_timeout=options.unasked_timeout,
    )


def _CheckPlace(parser: optparse.OptionParser, options: optparse.Values, mode: str) -> None:
    if options.ipv4 and options.ipv6:
        parser.error("--ipv4 and --ipv6 exclude each other")
    if options.bind is not None:
        family = checks.AddressFamily(options.bind)
        if family is None or (family == 4 and options.ipv6) or (family == 6 and options.ipv4):
            parser.error(f"--bind: '{options.bind[:60]}' is not an address that can be used")
    if options.port is not None and not 0 <= options.port <= _HIGHEST_PORT:
        parser.error(f"--port: {options.port} is not between 0 and {_HIGHEST_PORT}")
    if mode == EXPORT and not (options.host and options.port):
        parser.error("An export needs --host and --port")


def _ReadSize(parser: optparse.OptionParser, text: str | None) -> int | str | None:
    if text is None or text == settings.SIZE_FROM_DESCRIPTOR:
        return text
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        parser.error(f"--expected-size: '{text[:60]}' is neither a number of MiB nor {settings.SIZE_FROM_DESCRIPTOR}")
    return int(text)


def Main() -> int:
    parser = MakeParser()
    options, arguments = parser.parse_args()
    wanted = ReadSettings(parser, options, arguments)
    common.LogToStderr(options.debug, options.verbose)
    return common.RunTool(lambda: _Transfer(wanted))


def _Transfer(wanted: Settings) -> int:
    stop = signals.StopSignal()
    stop.Install()
    global _lock
    _lock = runtime.LockFile(wanted.pid_file, timeout=_LOCK_SECONDS)
    _lock.Write(b"%d\n" % runtime.ProcessId())
    return transfer.Make(wanted, stop, _lock).Run()
