"""Procedures that send and receive the content of disks (doc/reference/interfaces.md f.1, doc/design-transfers.rst).

The bytes are moved by the program ``import-export`` (``impexpd``), one process per disk.  A transfer is known by the name of its
directory in RUN/import-export, which holds the program's status, its pid file, and the certificate of the other side's authority.
"""

from __future__ import annotations

import contextlib
import dataclasses
import posixpath
import re
import signal
import stat
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ganeti import errors, ht, objects, pathutils, runtime, serializer, x509
from ganeti.backend import blockdev, exports, wire
from ganeti.backend.guestos import osdef, osenv, osrun
from ganeti.backend.trust.certificates import CertificateFiles
from ganeti.impexpd import programs, status
from ganeti.impexpd.settings import CA_FILE, EXPORT, IMPORT, PID_FILE, SIZE_FROM_DESCRIPTOR, STATUS_FILE
from ganeti.params import checks
from ganeti.storage import base, tree
from ganeti.utils import definitions, owndirs, procfs

Dict = dict[str, Any]

EXPORT_CONNECT_RETRIES, EXPORT_CONNECT_TIMEOUT = 10, 20
_COMPONENT = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,99}")
_NAME = re.compile(rf"({IMPORT}|{EXPORT})-[a-zA-Z0-9_.-]{{1,200}}")
_OPTIONS = ht.TStrictDict(
    {},
    {
        "key_name": ht.TMaybe(ht.TString),
        "ca_pem": ht.TMaybe(ht.TString),
        "compress": ht.TMaybe(ht.TString),
        "magic": ht.TMaybe(ht.TString),
        "ipv6": ht.TMaybe(ht.TBool),
        "connect_timeout": ht.TMaybe(ht.TPositiveInt),
        # Ours: the only address that an import listens on, and how many MiB it takes at most where it writes a file.
        "bind": ht.TMaybe(ht.TString),
        "limit": ht.TMaybe(ht.TPositiveInt),
    },
)
_LONGEST = 2**31 - 1

_FILE_DIR_MODE = 0o750
# A dump is for the node daemon only.  Scripts make files of guests.
_FILES_UMASK, _SCRIPTS_UMASK = "umask 0077;", "umask 0022;"
_START_SECONDS, _LOOK_SECONDS = 10.0, 0.05
# The program gives its own programs the time to end, and then kills them.
_END_SECONDS = 2 * programs.GRACE + 2
_KILL_SECONDS = 5.0
_KEEP_SECONDS = 86400.0
# A master asks every few seconds as long as it works for the transfer, but may wait for a node that is silent.
UNASKED_SECONDS = 900
# In place of a process number.
_UNKNOWN = 0


@dataclasses.dataclass(frozen=True)
class _End:
    """This node's end of a transfer, as options of the program: fragments of a shell's line, an environment, a size."""

    prefix: str = ""
    suffix: str = ""
    env: Mapping[str, str] | None = None
    expected_size: int | str | None = None


# --- the procedures ---------------------------------------------------------------------------------------------------


def StartImport(opts: Dict, instance: Dict, component: str, dest: Sequence[Any]) -> str:
    """import_start: listen for one disk's data and write it; return the transfer's name."""
    guest = wire.Instance(instance)
    common = _CommonOptions(opts)
    if opts.get("connect_timeout"):
        common.append(f"--connect-timeout={min(opts['connect_timeout'], _LONGEST)}")
    if opts.get("bind"):
        common.append(f"--bind={_Address(opts['bind'], opts)}")
    return _Start(IMPORT, guest, component, opts, common, _ImportEnd(guest, dest, opts.get("limit")))


def StartExport(opts: Dict, host: str, port: int, instance: Dict, component: str, source: Sequence[Any]) -> str:
    """export_start: read one disk's data and send it; return the transfer's name."""
    guest = wire.Instance(instance)
    common = _CommonOptions(opts)
    common += [f"--host={_Address(host, opts)}", f"--port={port}"]
    common += [f"--connect-retries={EXPORT_CONNECT_RETRIES}", f"--connect-timeout={EXPORT_CONNECT_TIMEOUT}"]
    return _Start(EXPORT, guest, component, opts, common, _ExportEnd(guest, source))


def Status(names: Sequence[str]) -> list[Dict | None]:
    """impexp_status: return what each transfer says of itself, null for one that is not known or has not begun.

    Who asks has a use for the transfer; one of which nobody asks ends.
    """
    return [_Asked(posixpath.join(pathutils.IMPORT_EXPORT_DIR, name)) if _IsName(name) else None for name in names]


def Abort(name: str) -> None:
    """impexp_abort: ask a transfer to end; one that has ended is fine."""
    _Ask(_Holder(_Directory(name)))


def Cleanup(name: str) -> None:
    """impexp_cleanup: end a transfer and forget it; may be repeated."""
    directory = _Directory(name)
    if not _WaitEnd(directory, _END_SECONDS, signal.SIGTERM) and not _WaitEnd(directory, _KILL_SECONDS, signal.SIGKILL):
        holder = _Holder(directory) or _UNKNOWN
        raise errors.RpcCallError(
            f"Transfer {name} does not end, not even when its processes are killed (session {holder}): they wait for"
            f" storage or another machine; 'ps -o pid,stat,wchan,args -s {holder}' shows for what"
        )
    runtime.RemoveTree(directory)


# --- starting ---------------------------------------------------------------------------------------------------------


def _CommonOptions(opts: Dict) -> list[str]:
    """Return the options of both directions but for keys; RpcCallError if what was sent makes no sense."""
    if not _OPTIONS(opts):
        raise errors.RpcCallError(f"Options of the transfer: {_OPTIONS.Problem(opts)}")
    compress, magic = opts.get("compress"), opts.get("magic")
    options = ["--verbose", "--ipv6" if opts.get("ipv6") else "--ipv4", f"--unasked-timeout={UNASKED_SECONDS}"]
    if compress is not None:
        if not checks.IsCompressionTool(compress):
            raise errors.RpcCallError(f"'{compress}' is not the name of a compression program")
        options.append(f"--compress={compress}")
    if magic is not None:
        if not checks.IsMagic(magic):
            raise errors.RpcCallError(f"The magic value of a transfer needs {checks.MAGIC_RULE}")
        options.append(f"--magic={magic}")
    return options


def _Address(text: str, opts: Dict) -> str:
    wanted = 6 if opts.get("ipv6") else 4
    if checks.AddressFamily(text) != wanted:
        raise errors.RpcCallError(f"'{text}' is not an IPv{wanted} address")
    return text


def _Keys(opts: Dict, directory: str) -> list[str]:
    """Return the options for key, certificate and authority, which is written to the transfer's directory if it was sent."""
    key_name, ca_pem = opts.get("key_name"), opts.get("ca_pem")
    if (key_name is None) != (ca_pem is None):
        raise errors.RpcCallError("A transfer needs both a key and the other side's certificate, or neither of them")
    key_file = cert_file = ca_file = pathutils.NODED_CERT_FILE
    if key_name is not None and ca_pem is not None:
        _, key_file, cert_file = CertificateFiles(key_name)
        ca_file = posixpath.join(directory, CA_FILE)
        runtime.WriteFile(
            ca_file, x509.CertificateOnly(ca_pem, "certificate of the other side"), mode=0o400, sync=False
        )
    missing = [path for path in (key_file, cert_file) if not runtime.Exists(path)]
    if missing and key_name is not None:
        raise errors.RpcCallError(
            f"Key {key_name} is not on this node any longer: it is valid for a day; begin the move again"
        )
    if missing:
        raise errors.RpcCallError(
            f"{missing[0]}, the certificate of the cluster, is missing on this node: set it up again with"
            " 'gnt-node add --readd NODE'"
        )
    return [f"--key={key_file}", f"--cert={cert_file}", f"--ca={ca_file}"]


def _Start(mode: str, instance: objects.Instance, component: str, opts: Dict, options: Sequence[str], end: _End) -> str:
    """Start the program and return the transfer's name once it has said something of itself."""
    if not _COMPONENT.fullmatch(component):
        raise errors.RpcCallError(
            f"'{component}' is not a valid component name: letters, digits, '.', '_' and '-' are allowed, at most 100 of"
            " them, and neither '.' nor '-' at the beginning"
        )
    owndirs.MakeOwn(pathutils.IMPORT_EXPORT_DIR)
    _RemoveOld()
    stamp = datetime.fromtimestamp(runtime.Time(), UTC).strftime("%Y-%m-%d_%H_%M_%S")
    name = f"{mode}-{component}-{stamp}-{runtime.RandomBytes(4).hex()}"
    directory = posixpath.join(pathutils.IMPORT_EXPORT_DIR, name)
    runtime.MakeDirs(directory, 0o700)
    try:
        argv = [pathutils.IMPORT_EXPORT_DAEMON, *options, *_Keys(opts, directory)]
        argv += [f"--cmd-prefix={end.prefix}", f"--cmd-suffix={end.suffix}"]
        if end.expected_size is not None:
            argv.append(f"--expected-size={end.expected_size}")
        log = osrun.LogPath(mode, instance.os, instance.name, component)
        pid = runtime.StartProcess([*argv, posixpath.join(directory, STATUS_FILE), mode], env=end.env, log_path=log)
        _WaitBegin(directory, pid, log)
    except BaseException:
        runtime.RemoveTree(directory)
        raise
    return name


def _WaitBegin(directory: str, pid: int, log: str) -> None:
    """Wait until the program has written a status; RpcCallError if it ends without."""
    deadline = runtime.Monotonic() + _START_SECONDS
    while _Read(directory) is None:
        if runtime.WaitProcess(pid, _LOOK_SECONDS) and _Read(directory) is None:
            raise errors.RpcCallError(
                f"The transfer program did not start, last lines in the log file {log}:\n{definitions.Tail(log)}"
            )
        if runtime.Monotonic() >= deadline:
            return  # the master waits as long again, and says so then


def _RemoveOld() -> None:
    """Remove the directories of transfers that have ended long ago, and whose master is gone."""
    limit = runtime.Time() - _KEEP_SECONDS
    for name, info in runtime.ListStats(pathutils.IMPORT_EXPORT_DIR).items():
        directory = posixpath.join(pathutils.IMPORT_EXPORT_DIR, name)
        if _IsName(name) and stat.S_ISDIR(info.st_mode) and info.st_mtime < limit and _Holder(directory) is None:
            runtime.RemoveTree(directory)


# --- this node's end --------------------------------------------------------------------------------------------------


def _ImportEnd(instance: objects.Instance, dest: Sequence[Any], limit: int | None) -> _End:
    kind, args = _Checked(dest)
    if kind == "file":
        path = _ExportedFile(args[0])
        directory, name = posixpath.split(path)
        runtime.MakeDirs(directory, _FILE_DIR_MODE)
        # What a transfer that was given up still writes goes to a file without a name.
        with runtime.HoldFolder(directory) as held:
            runtime.RemoveFile(posixpath.join(held, name))
        return _End(_FILES_UMASK, f"| {BuildWriteFile(path, limit)}")
    disk = wire.Disk(args[0])
    if kind == "raw":
        device = osenv.OpenDisk(disk)
        size = _Mebibytes(device.Dimensions()[0])
        # A file would grow with whatever comes.
        return _End(suffix=f"| {_PastCache([*device.ImportCommand(), f'count={size}'])}", expected_size=size)
    fragment, env = osrun.TransferCommand(osdef.IMPORT, instance, disk, args[1])
    if target := env.get("IMPORT_DEVICE"):
        # The sender's disk may be removed as soon as this has ended.
        fragment = f"{{ {fragment} && sync {runtime.ShellQuote(target)}; }}"
    return _End(_SCRIPTS_UMASK, f"| {fragment}", env)


def _ExportEnd(instance: objects.Instance, source: Sequence[Any]) -> _End:
    kind, args = _Checked(source)
    if kind == "file":
        path = _ExportedFile(args[0])
        return _End(f"{BuildReadFile(path)} |", expected_size=_Mebibytes(_SizeOfFile(path)))
    disk = wire.Disk(args[0])
    if kind == "raw":
        device = tree.FindOrFail(disk)
        return _End(f"{_PastCache(device.ExportCommand())} |", expected_size=_Mebibytes(device.Dimensions()[0]))
    fragment, env = osrun.TransferCommand(osdef.EXPORT, instance, disk, args[1])
    return _End(f"{_SCRIPTS_UMASK} {fragment} |", "", env, SIZE_FROM_DESCRIPTOR)


_KINDS = {
    "file": ht.TItems(ht.TNonEmptyString),
    "raw": ht.TItems(ht.TDict),
    "script": ht.TItems(ht.TDict, ht.TNonNegativeInt),
}


def _Checked(end: Sequence[Any]) -> tuple[str, list[Any]]:
    kind, args = end
    if not _KINDS[kind](args):
        raise errors.RpcCallError(f"End '{kind}' of a transfer: {_KINDS[kind].Problem(args)}")
    return kind, args


def _ExportedFile(path: str) -> str:
    """Return where a file of an export, as the master names it, really is."""
    path = pathutils.LocalizeVirtualPath(path)
    if not checks.IsAbsNormPath(path):
        raise errors.RpcCallError(f"'{path}' is not an absolute path without '.', '..' and double '/'")
    return exports.Resolve(path)


def _SizeOfFile(path: str) -> int:
    try:
        info = runtime.Stat(path, follow=False)
    except OSError as err:
        raise errors.RpcCallError(f"File {path} cannot be read: {err.strerror}") from err
    if not stat.S_ISREG(info.st_mode):
        raise errors.RpcCallError(f"{path} is not a regular file")
    return info.st_size


def _Mebibytes(size: int) -> int:
    return -(-size // base.BLOCK_BYTES)


def BuildReadFile(path: str) -> str:
    """Return a shell's command that copies a file to standard output; nothing else that has taken its place, or leads to it.

    Nobody can change what is open.
    """
    file_name = _Quoted([path])
    # What a pipe or a device does when it is opened is not to be found out.
    file = f"[ ! -L {file_name} ] && [ -f {file_name} ] || {{ {_Replaced(path)}; }}"
    same = f'[ -f /proc/self/fd/0 ] && [ "$(readlink /proc/self/fd/0)" = {file_name} ] || {{ {_Replaced(path)}; }}'
    copy = _Quoted(["dd", f"bs={base.BLOCK_BYTES}", "status=none"])
    return f"{{ {file}; {{ {same}; {copy}; }} <{file_name}; }}"


def BuildWriteFile(path: str, limit: int | None = None) -> str:
    """Return a shell's command that makes a file of what it reads, ``limit`` MiB at most.

    When it succeeds, the content is on stable storage.
    """
    name = posixpath.basename(path)
    write = [
        "dd",
        f"of={name}",
        f"bs={base.BLOCK_BYTES}",
        "iflag=fullblock",
        "oflag=nofollow",
        "conv=fsync,excl",
        "status=none",
    ]
    if limit is None:
        return _InDirectory(path, write)
    many = f"more than {limit} MiB came, which is far more than the disk has"
    rest = f"[ $(head -c 1 | wc -c) = 0 ] || {{ echo {_Quoted([many])} >&2; exit 1; }}"
    return _InDirectory(path, [*write, f"count={limit}"], rest)


def _InDirectory(path: str, argv: Sequence[str], after: str = "") -> str:
    """Return a shell's command that works in the directory of a file, and there alone.

    Nodes may share the directory of exports, and one of them could put a link in the place of any below it between our look at
    the path and the opening of the file.  What the kernel calls our own directory, nobody can change.
    """
    directory = _Quoted([posixpath.dirname(path)])
    enter = f'cd -P {directory} && [ "$(/bin/pwd -P)" = {directory} ] || {{ {_Replaced(posixpath.dirname(path))}; }}'
    return "{ " + "; ".join(filter(None, [enter, _Quoted(argv), after])) + "; }"


def _Replaced(path: str) -> str:
    return f"echo {_Quoted([f'{path} has been replaced by something else'])} >&2; exit 1"


def _PastCache(argv: Sequence[str]) -> str:
    """Return a shell's command that copies past the cache, or through it where the file system cannot do without.

    Whether it can is seen by opening the file, before anything was taken from standard input.
    """
    straight, through = _Quoted(argv), _Quoted(blockdev.ThroughCache(argv))
    return f"{{ if {straight} count=0 </dev/null >/dev/null 2>&1; then {straight}; else {through}; fi; }}"


def _Quoted(argv: Sequence[str]) -> str:
    return " ".join(runtime.ShellQuote(word) for word in argv)


# --- transfers that were started --------------------------------------------------------------------------------------


def _IsName(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def _Directory(name: str) -> str:
    if not _IsName(name):
        raise errors.RpcCallError(f"'{name}' is not the name of a transfer")
    return posixpath.join(pathutils.IMPORT_EXPORT_DIR, name)


def _Read(directory: str) -> Dict | None:
    """Return the status that the program has written last; None if there is none."""
    try:
        found = serializer.Load(runtime.ReadFile(posixpath.join(directory, STATUS_FILE), status.LIMIT))
    except (FileNotFoundError, NotADirectoryError, runtime.FileTooLarge, errors.ParseError):
        return None
    return found if isinstance(found, dict) else None


def _Asked(directory: str) -> Dict | None:
    """Return the status, and let the program see that somebody wants it."""
    now = runtime.Time()
    with contextlib.suppress(FileNotFoundError):
        runtime.SetTimes(posixpath.join(directory, PID_FILE), now, now)
    return _StatusOf(directory)


def _StatusOf(directory: str) -> Dict | None:
    found = _Read(directory)
    if found is None or found.get("exit_status") is not None:
        return found
    holder = _Holder(directory)
    if holder is not None and (holder == _UNKNOWN or runtime.ProcessAlive(holder)):
        return found
    # It may have written its last status and ended between both looks.
    found = _Read(directory)
    if found is not None and found.get("exit_status") is None:
        text = f"The transfer program ended without a result, perhaps killed; its log is in {pathutils.LOG_OS_DIR}"
        found.update(exit_status=1, error_message=text)
    return found


def _Holder(directory: str) -> int | None:
    """Return the number of the transfer's program and session, _UNKNOWN in its first moments; None if nothing of it runs.

    The program itself may have ended, killed for instance, and left its own programs behind; then nobody else gets its number.
    """
    path = posixpath.join(directory, PID_FILE)
    if not runtime.Exists(path):
        return None
    try:
        # Shared: two looks at the same time must not take each other for the program.
        runtime.LockFile(path, exclusive=False, timeout=0).release()
    except runtime.LockBusy as err:
        return err.holder or _UNKNOWN
    except FileNotFoundError:
        pass  # removed meanwhile
    return None


def _Ask(holder: int | None, number: int = signal.SIGTERM) -> None:
    """Ask the program to end, or what it has left behind; SIGKILL goes to all of its session."""
    if holder is None or holder == _UNKNOWN:
        return
    alone = number == signal.SIGTERM and runtime.ProcessAlive(holder)
    for process in [holder] if alone else procfs.InSession(holder):
        runtime.KillProcess(process, number)


def _WaitEnd(directory: str, seconds: float, number: int) -> bool:
    """Send a signal once it is known to whom, and wait until nothing of the transfer runs; False if the time is over."""
    deadline, asked = runtime.Monotonic() + seconds, False
    while (holder := _Holder(directory)) is not None:
        if not asked and holder != _UNKNOWN:
            _Ask(holder, number)
            asked = True
        if runtime.Monotonic() >= deadline:
            return False
        runtime.Sleep(_LOOK_SECONDS)
    return True


HANDLERS = {
    "export_start": StartExport,
    "impexp_abort": Abort,
    "impexp_cleanup": Cleanup,
    "impexp_status": Status,
    "import_start": StartImport,
}
