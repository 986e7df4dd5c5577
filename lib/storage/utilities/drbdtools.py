"""DRBD's programs and its kernel module: how they are called, and what they answer (doc/reference/drivers.md a.4).

``Syntax84`` and ``Syntax83`` make command lines, ``Parse...`` read output; neither touches anything.  ``Minors`` and
``Configs`` look: within ``looks.Sharing`` each look is taken once, however many disks are asked about.  Nothing here
keeps a shared secret that was read, and no text of an error has one.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from ganeti import errors, runtime
from ganeti.storage import decisions, looks
from ganeti.storage.base import BLOCK_BYTES, MirrorState

PROC_FILE = "/proc/drbd"
HELPER_FILE = "/sys/module/drbd/parameters/usermode_helper"
MAJOR = 147
# Of 20 bits (8.3: the parameter minor_count of the module says how many there are); what minor_count may be at most.
HIGHEST_MINOR, MOST_COUNT = (1 << 20) - 1, 255

_SECONDS = 60.0
# A thousand minors fill a part of it.
_PROC_LIMIT = 1 << 20
# Every file in /sys claims to have a page.
_SYS_LIMIT = 1 << 16
_SECTOR = 512

STATES_LOOK, CONFIGS_LOOK = "/proc/drbd", "drbdsetup show"

UNCONFIGURED, STANDALONE, WAITING, CONNECTED = "Unconfigured", "StandAlone", "WFConnection", "Connected"
PRIMARY, SECONDARY = "Primary", "Secondary"
DISKLESS, INCONSISTENT, OUTDATED = "Diskless", "Inconsistent", "Outdated"
# The kernel lets go of the disk as soon as all has ended that is under way to it.
FAILED = "Failed"
# Attached on a link, and not compared with the other side yet; some never are.
NEGOTIATING = "Negotiating"
CONSISTENT, UPTODATE = "Consistent", "UpToDate"

_FILLING = frozenset(["SyncSource", "SyncTarget", "PausedSyncS", "PausedSyncT"])
_RESYNC = _FILLING | {"WFReportParams", "StartingSyncS", "StartingSyncT", "WFBitMapS", "WFBitMapT", "WFSyncUUID"}
# The two sides have agreed on who has the newer data.
_AGREED = (_RESYNC - {"WFReportParams"}) | {CONNECTED, "VerifyS", "VerifyT", "Ahead", "Behind"}

# Values of the option ``fencing``: what a primary does when it loses the other side.
FREEZE, GO_ALONE = "resource-and-stonith", "dont-care"
# Values of "on-no-data-accessible": what becomes of requests while neither side's data can be reached.  The default is FAIL.
WAIT, FAIL = "suspend-io", "io-error"

# "pause-sync" and "resume-sync": it is so already.
ALREADY_PAUSED, ALREADY_RUNS = "(134)", "(135)"
# "attach": the device is open and not connected, and its users have seen newer data than this.
OLD_DATA = "(150)"
# "secondary": somebody has the device open.
HELD_OPEN = "(-12)"
# "net-options": the other side has a module of 8.3, which cannot change its link.
OLD_PEER = "(163)"

_DYNAMIC = ("c-plan-ahead", "c-fill-target", "c-delay-target", "c-max-rate", "c-min-rate")


# --- what the module says ---------------------------------------------------------------------------------------------


class Version(NamedTuple):
    """The kernel module's version; it decides how the programs are called."""

    major: int
    minor: int
    point: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.point}"


@dataclass(frozen=True)
class Minor:
    """One device in /proc/drbd.  ``estimate``: seconds until a resync is done; ``pending``: requests under way."""

    minor: int
    connection: str
    role: str = "Unknown"
    peer_role: str = "Unknown"
    disk: str = "DUnknown"
    peer_disk: str = "DUnknown"
    flags: str = ""
    percent: float | None = None
    estimate: float | None = None
    pending: int = 0
    # What is said of it is understood.
    readable: bool = True

    @property
    def in_use(self) -> bool:
        return self.connection != UNCONFIGURED

    @property
    def connected(self) -> bool:
        return self.connection == CONNECTED

    @property
    def standalone(self) -> bool:
        return self.connection == STANDALONE

    @property
    def in_resync(self) -> bool:
        return self.connection in _RESYNC

    @property
    def agreed(self) -> bool:
        """Return whether the handshake with the other side is over."""
        return self.connection in _AGREED

    @property
    def diskless(self) -> bool:
        return self.disk == DISKLESS

    @property
    def has_disk(self) -> bool:
        return self.disk not in (DISKLESS, FAILED)

    @property
    def primary(self) -> bool:
        return self.role == PRIMARY

    @property
    def frozen(self) -> bool:
        """Return whether requests wait because the other side is not there."""
        return self.primary and self.flags[:1] == "s"


# A number with more digits is not that of a minor.
_DIGITS = 9

_VERSION = re.compile(
    rf"version: (\d{{1,{_DIGITS}}})\.(\d{{1,{_DIGITS}}})(?:\.(\d{{1,{_DIGITS}}}))?(?!\.?\d)", re.ASCII
)
_MINOR = re.compile(r" *(\d+): +cs:(\w+)")
_STATUS = re.compile(r"cs:\w+ +(?:st|ro):(\w+)/(\w+) +ds:(\w+)/(\w+)(?: +[ABC])? +([\w-]+)")
_SYNC = re.compile(r"sync'ed: *([0-9.]+)%.*?finish: +(\d+):(\d+):(\d+)")
_PENDING = re.compile(r" ap:(\d+)")


def ParseVersion(text: str) -> Version:
    """Return the version in the first line of /proc/drbd; reject what no syntax here fits."""
    found = _VERSION.match(text)
    if found is None:
        raise errors.BlockDeviceError(f"{PROC_FILE} does not begin with a version")
    version = Version(*(int(part or 0) for part in found.groups()))
    if not (8, 3) <= version < (9,):
        raise errors.BlockDeviceError(
            f"The DRBD module of this node has version {version}; it must be 8.4 (or 8.3). Load the module that came with"
            " the kernel: 'modprobe -r drbd', remove the other one, 'modprobe drbd'"
        )
    return version


def ParseMinors(text: str) -> dict[int, Minor]:
    """Return the devices in /proc/drbd by minor; lines that continue one are joined to it.

    One that cannot be understood is in use, and nothing more is known of it: the others do not suffer.
    """
    joined: dict[int, list[str]] = {}
    number = None
    for line in text.splitlines():
        found = _MINOR.match(line)
        if found:
            number = int(found[1][:_DIGITS])
        if number is not None and line.strip():
            joined.setdefault(number, []).append(line.strip())
    return {number: _ParseMinor(number, " ".join(lines)) for number, lines in joined.items()}


def _ParseMinor(number: int, text: str) -> Minor:
    connection = re.search(r"cs:(\w+)", text)
    assert connection is not None
    if connection[1] == UNCONFIGURED:
        return Minor(number, UNCONFIGURED)
    status, sync, pending = _STATUS.search(text), _SYNC.search(text), _PENDING.search(text)
    if status is None:
        return Minor(number, "Unknown", readable=False)
    percent = estimate = None
    try:
        if sync is not None:
            percent = float(sync[1])
            hours, minutes, seconds = map(int, sync.groups()[1:])
            estimate = float(hours * 3600 + minutes * 60 + seconds)
        elif connection[1] in _FILLING:
            percent = 0.0
        under_way = int(pending[1]) if pending else 0
    except (ValueError, OverflowError):
        return Minor(number, "Unknown", readable=False)
    role, peer_role, disk, peer_disk, flags = status.groups()
    return Minor(number, connection[1], role, peer_role, disk, peer_disk, flags, percent, estimate, under_way)


# --- what is configured -----------------------------------------------------------------------------------------------


class Address(NamedTuple):
    """One end of a link."""

    ip: str
    port: int

    def __str__(self) -> str:
        return f"{self.Family()}:{f'[{self.ip}]' if ':' in self.ip else self.ip}:{self.port}"

    def Family(self) -> str:
        return "ipv6" if ":" in self.ip else "ipv4"


def MakeAddress(ip: str, port: int) -> Address:
    """Return an end of a link; the same address is always written in the same way."""
    try:
        return Address(ipaddress.ip_address(ip).compressed, port)
    except ValueError:
        return Address(ip, port)


@dataclass(frozen=True)
class Config:
    """What ``drbdsetup show`` says of a device; None where there is nothing."""

    minor: int
    resource: str = ""
    data: str | None = None
    meta: str | None = None
    local: Address | None = None
    remote: Address | None = None
    fencing: str | None = None
    no_data: str | None = None
    two_primaries: bool = False

    def __str__(self) -> str:
        link = f"{self.local or 'no address'} to {self.remote or 'no address'}"
        return f"minor {self.minor} ({self.resource}): volume {self.data or 'none'}, metadata {self.meta or 'none'}, link {link}"


# A "#" begins a comment, but not within a text in quotes.
_WORDS = re.compile(r'"((?:[^"\\]|\\.)*)"|#.*|([{};])|([^\s{};"#]+)|\s+')


def _Pieces(text: str) -> Iterator[str]:
    for found in _WORDS.finditer(text):
        quoted, mark, word = found.groups()
        piece = quoted if quoted is not None else mark or word
        if piece is not None:
            yield piece


def ParseTree(text: str) -> list[tuple[list[str], Any]]:
    """Return nested statements ``words;`` and ``words { ... }`` as (words, statements or None)."""
    stack: list[list[tuple[list[str], Any]]] = [[]]
    words: list[str] = []
    for piece in _Pieces(text):
        if piece == "{":
            inner: list[tuple[list[str], Any]] = []
            stack[-1].append((words, inner))
            stack.append(inner)
            words = []
        elif piece == ";":
            stack[-1].append((words, None))
            words = []
        elif piece == "}":
            stack.pop()
            words = []
            if not stack:
                raise errors.BlockDeviceError("drbdsetup show printed braces that do not match")
        else:
            words.append(piece)
    if len(stack) != 1 or words:
        raise errors.BlockDeviceError("drbdsetup show printed something incomplete")
    return stack[0]


def ParseShow(text: str, minor: int | None = None) -> dict[int, Config]:
    """Return the configured devices by minor; ``minor``: of which device this is the output of 8.3."""
    try:
        return _Shown(text, minor)
    except (ValueError, IndexError) as err:
        raise errors.BlockDeviceError("drbdsetup show printed something that cannot be read") from err


def _Shown(text: str, minor: int | None) -> dict[int, Config]:
    found = {}
    for words, body in ParseTree(text):
        if body is None:
            continue
        if words[:1] == ["resource"]:
            facts = dict(_Facts(body))
            facts["resource"] = words[1] if len(words) > 1 else ""
            for number, volume in facts.pop("volumes", {}).items():
                found[number] = Config(number, **{**facts, **volume})
    if minor is not None and not found:
        facts = dict(_Facts(ParseTree(text)))
        facts.pop("volumes", None)
        found[minor] = Config(minor, f"resource{minor}", **facts)
    return found


def _Facts(body: Sequence[tuple[list[str], Any]]) -> Iterator[tuple[str, Any]]:
    """Yield what is said of one resource."""
    volumes: dict[int, dict[str, Any]] = {}
    for words, inner in body:
        if inner is None:
            continue
        section = words[0] if words else ""
        if section == "_this_host":
            for names, below in inner:
                if names[:1] == ["volume"] and below is not None:
                    number, facts = _Volume(below)
                    if number is not None:
                        volumes[number] = facts
            yield from _Volume(inner)[1].items()
            yield "local", _FindAddress(inner)
        elif section == "_remote_host":
            yield "remote", _FindAddress(inner)
        elif section == "net":
            yield "two_primaries", any(line[0] == "allow-two-primaries" and line[1:] != ["no"] for line, _ in inner)
        elif section == "options":
            yield from _Option(inner, "on-no-data-accessible", "no_data")
        elif section == "disk":
            yield from _Option(inner, "fencing", "fencing")
    yield "volumes", volumes


def _Volume(body: Sequence[tuple[list[str], Any]]) -> tuple[int | None, dict[str, Any]]:
    number: int | None = None
    facts: dict[str, Any] = {}
    for words, inner in body:
        if inner is not None:
            if words[:1] == ["disk"]:
                facts.update(_Option(inner, "fencing", "fencing"))
        elif words[:2] == ["device", "minor"]:
            number = int(words[2])
        elif words[:1] in (["disk"], ["meta-disk"]) and len(words) > 1:
            facts["data" if words[0] == "disk" else "meta"] = words[1]
    return number, facts


def _Option(body: Sequence[tuple[list[str], Any]], name: str, known_as: str) -> Iterator[tuple[str, str]]:
    for words, _ in body:
        if words[:1] == [name] and len(words) > 1:
            yield known_as, words[1]


def _FindAddress(body: Sequence[tuple[list[str], Any]]) -> Address | None:
    for words, _ in body:
        if words[:1] == ["address"] and len(words) > 1:
            ip, _colon, port = words[-1].rpartition(":")
            return MakeAddress(ip.strip("[]"), int(port))
    return None


# --- command lines ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Link:
    """How two sides are connected.  The secret is kept out of texts."""

    local: Address
    remote: Address
    protocol: str
    secret: str | None
    two_primaries: bool
    discard_own: bool
    custom: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Link {self.local} to {self.remote}>"


Argv = list[str]


def _Dev(minor: int) -> str:
    return f"/dev/drbd{minor}"


class Syntax84:
    """Command lines for modules of version 8.4."""

    # The policies on a lost link and on lost data can be changed while the device is in use, and whether both sides may be
    # open while they are connected.
    CHANGES_FENCING: ClassVar[bool] = True
    CHANGES_LINK: ClassVar[bool] = True

    @staticmethod
    def Show() -> Argv:
        return ["drbdsetup", "show", "all"]

    @staticmethod
    def MakeMeta(minor: int, meta: str) -> Argv:
        return ["drbdmeta", "--force", _Dev(minor), "v08", meta, "flex-external", "create-md"]

    @staticmethod
    def Prepare(minor: int) -> list[Argv]:
        """Return what makes the device before it has a disk or a link."""
        return [
            ["drbdsetup", "new-resource", f"resource{minor}"],
            ["drbdsetup", "new-minor", f"resource{minor}", str(minor), "0"],
        ]

    @staticmethod
    def NoData(minor: int, policy: str) -> Argv:
        """Return the command that says what becomes of requests while neither side's data can be reached."""
        return ["drbdsetup", "resource-options", f"resource{minor}", f"--on-no-data-accessible={policy}"]

    @staticmethod
    def Attach(
        minor: int, data: str, meta: str, size: int | None, options: Sequence[str], resync: Sequence[str]
    ) -> list[Argv]:
        limit = [f"--size={size}m"] if size else []
        words = ["drbdsetup", "attach", str(minor), data, meta, "flexible", "--on-io-error=detach", *limit]
        return [["drbdmeta", _Dev(minor), "v08", meta, "flex-external", "apply-al"], [*words, *resync, *options]]

    @staticmethod
    def Barriers(letters: str, no_meta_flushes: bool) -> Argv:
        names = {"b": "--disk-barrier=no", "f": "--disk-flushes=no", "d": "--disk-drain=no"}
        return [*(["--md-flushes=no"] if no_meta_flushes else []), *(names[c] for c in letters if c in names)]

    @staticmethod
    def Resync(values: Mapping[str, Any]) -> Argv:
        if values.get("dynamic-resync"):
            return [f"--{name}={values[name]}" for name in _DYNAMIC]
        # Without this the module adapts the rate by itself.
        return [f"--resync-rate={values['resync-rate']}", "--c-plan-ahead=0"]

    @staticmethod
    def Options(minor: int, options: Sequence[str]) -> Argv:
        return ["drbdsetup", "disk-options", str(minor), *options]

    @staticmethod
    def Fencing(policy: str) -> Argv:
        return [f"--fencing={policy}"]

    @staticmethod
    def Connect(minor: int, link: Link) -> Argv:
        words = ["drbdsetup", "connect", f"resource{minor}", str(link.local), str(link.remote)]
        words.append(f"--protocol={link.protocol}")
        if link.two_primaries:
            words.append("--allow-two-primaries=yes")
        if link.discard_own:
            words.append("--discard-my-data=yes")
        if link.secret:
            words += ["--cram-hmac-alg=md5", f"--shared-secret={link.secret}"]
        return [*words, *link.custom]

    @staticmethod
    def Permit(link: Link) -> Argv:
        """Return the command that changes on a link, connected or not, whether both sides may be open."""
        words = ["drbdsetup", "net-options", str(link.local), str(link.remote), f"--protocol={link.protocol}"]
        return [*words, f"--allow-two-primaries={'yes' if link.two_primaries else 'no'}"]

    @staticmethod
    def Disconnect(_minor: int, local: Address, remote: Address) -> Argv:
        """Return the command that drops the link at once: an orderly end would let a primary go on alone."""
        return ["drbdsetup", "disconnect", str(local), str(remote), "--force=yes"]

    @staticmethod
    def Down(minor: int) -> Argv:
        return ["drbdsetup", "down", f"resource{minor}"]

    @staticmethod
    def Do(command: str, minor: int, *options: str) -> Argv:
        """Return a command that every version has: primary, secondary, detach, outdate, resume-io, pause-sync ..."""
        return ["drbdsetup", command, str(minor), *options]

    @staticmethod
    def Resize(minor: int, size: int) -> Argv:
        return ["drbdsetup", "resize", str(minor), f"--size={size}m"]


class Syntax83(Syntax84):
    """Command lines for modules of version 8.3; the resource is the device."""

    CHANGES_FENCING: ClassVar[bool] = False
    CHANGES_LINK: ClassVar[bool] = False

    @staticmethod
    def MakeMeta(minor: int, meta: str) -> Argv:
        return ["drbdmeta", "--force", _Dev(minor), "v08", meta, "0", "create-md"]

    @staticmethod
    def Prepare(_minor: int) -> list[Argv]:
        return []

    @staticmethod
    def Attach(
        minor: int, data: str, meta: str, size: int | None, options: Sequence[str], resync: Sequence[str]
    ) -> list[Argv]:
        limit = ["-d", f"{size}m"] if size else []
        words = ["drbdsetup", _Dev(minor), "disk", data, meta, "0", "-e", "detach", "--create-device"]
        return [[*words, *limit, *options], *([Syntax83.Options(minor, resync)] if resync else [])]

    @staticmethod
    def Barriers(letters: str, no_meta_flushes: bool) -> Argv:
        names = {"b": "--no-disk-barrier", "f": "--no-disk-flushes", "d": "--no-disk-drain"}
        return [*(["--no-md-flushes"] if no_meta_flushes else []), *(names[c] for c in letters if c in names)]

    @staticmethod
    def Resync(values: Mapping[str, Any]) -> Argv:
        if values.get("dynamic-resync"):
            return [word for name in _DYNAMIC for word in (f"--{name}", str(values[name]))]
        return ["-r", str(values["resync-rate"])]

    @staticmethod
    def Options(minor: int, options: Sequence[str]) -> Argv:
        return ["drbdsetup", _Dev(minor), "syncer", *options, "--create-device"]

    @staticmethod
    def Connect(minor: int, link: Link) -> Argv:
        words = ["drbdsetup", _Dev(minor), "net", str(link.local), str(link.remote), link.protocol, "--create-device"]
        if link.two_primaries:
            words.append("-m")
        if link.discard_own:
            words.append("-D")
        if link.secret:
            words += ["-a", "md5", "-x", link.secret]
        return [*words, *link.custom]

    @staticmethod
    def Disconnect(minor: int, _local: Address, _remote: Address) -> Argv:
        return ["drbdsetup", _Dev(minor), "disconnect", "--force"]

    @staticmethod
    def Down(minor: int) -> Argv:
        return ["drbdsetup", _Dev(minor), "down"]

    @staticmethod
    def Do(command: str, minor: int, *options: str) -> Argv:
        return ["drbdsetup", _Dev(minor), command, *options]

    @staticmethod
    def Resize(minor: int, size: int) -> Argv:
        return ["drbdsetup", _Dev(minor), "resize", "-s", f"{size}m"]


# --- looking and acting -----------------------------------------------------------------------------------------------


def _Proc() -> str | None:
    def read() -> str | None:
        try:
            return runtime.ReadText(PROC_FILE, _PROC_LIMIT)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as err:
            raise errors.BlockDeviceError(f"{PROC_FILE} cannot be read: {err}") from err

    return looks.Once(STATES_LOOK, read)


def LoadedVersion() -> Version:
    """Return the module's version; fail if there is none, or one that cannot be used."""
    text = _Proc()
    if text is None:
        raise errors.BlockDeviceError(
            "The DRBD module is not loaded on this node; load it with"
            f" 'modprobe drbd minor_count={MOST_COUNT} usermode_helper=/bin/true' and put the options into /etc/modprobe.d"
        )
    return ParseVersion(text)


def Syntax() -> type[Syntax84]:
    return Syntax84 if LoadedVersion() >= (8, 4) else Syntax83


def Minors() -> dict[int, Minor]:
    """Return the devices that the module knows, by minor; none if it is not loaded."""
    text = _Proc()
    if text is None:
        return {}
    ParseVersion(text)
    return ParseMinors(text)


def UnusedMinor() -> int:
    """Return the highest number that no device has: the master hands out the lowest ones."""
    known = Minors()
    return next(number for number in range(HIGHEST_MINOR, -1, -1) if number not in known)


def Configs() -> dict[int, Config]:
    """Return the configured devices by minor."""
    return looks.Once(CONFIGS_LOOK, _ReadConfigs)


def _ReadConfigs() -> dict[int, Config]:
    if Syntax() is Syntax84:
        return ParseShow(_Look(Syntax84.Show()))
    found = {}
    for number, minor in Minors().items():
        if minor.in_use:
            found.update(ParseShow(_Look(Syntax83.Do("show", number)), number))
    return found


def _Look(argv: Argv) -> str:
    result = runtime.RunCmd(argv, timeout=_SECONDS)
    if result.failed:
        raise errors.BlockDeviceError(
            f"DRBD cannot be asked: {_Failure(argv, result)}. The programs must be able to drive the module"
            f" {LoadedVersion()}: install a drbd-utils that can"
        )
    return result.stdout


def Refresh() -> None:
    """Have the next look at states be a new one."""
    looks.Forget(STATES_LOOK)


def Act(argv: Argv, trouble: str, bears: str = "", seconds: float = _SECONDS) -> None:
    """Run a program that changes something.  ``bears``: what it may complain of, as it is so already."""
    result = runtime.RunCmd(argv, timeout=seconds, lock=decisions.Held())
    looks.Forget(STATES_LOOK, CONFIGS_LOOK)
    if result.failed and not (bears and bears in result.stderr):
        raise errors.BlockDeviceError(f"{trouble}: {_Failure(argv, result)}")


def _Failure(argv: Argv, result: runtime.RunResult) -> str:
    """Return why a program failed, and what it said, on one line without its arguments, which may hold a secret."""
    verb = argv[-1] if argv[0] == "drbdmeta" else argv[2] if argv[1].startswith("/dev/") else argv[1]
    name = f"'{argv[0]} {verb}'"
    if result.timeout is not None:
        return f"{name} did not end within {result.timeout:g} s"
    said = " ".join((result.stderr or result.stdout).split())
    for word in argv:
        _, equals, secret = word.partition("shared-secret=")
        said = said.replace(secret, "***") if equals and secret else said
    if "-x" in argv:
        said = said.replace(argv[argv.index("-x") + 1], "***")
    return f"{name} failed with exit code {result.exit_code}: {said[:500] or 'it said nothing'}"


def Helper() -> str:
    """Return the program that the module calls when something happens to a device."""
    try:
        return runtime.ReadText(HELPER_FILE, _SYS_LIMIT).strip()
    except FileNotFoundError:
        raise errors.BlockDeviceError(
            f"The DRBD module has no usermode helper on this node: {HELPER_FILE} is missing; is the module loaded?"
        ) from None
    except (OSError, ValueError) as err:
        raise errors.BlockDeviceError(f"{HELPER_FILE} cannot be read: {err}") from err


def BuildReadTest(meta: str) -> Argv:
    """Return the command that reads the first 128 KiB, past the cache."""
    return ["dd", f"if={meta}", "of=/dev/null", "bs=131072", "count=1", "iflag=direct"]


def Readable(path: str) -> bool:
    return not runtime.RunCmd(BuildReadTest(path), timeout=_SECONDS).failed


def DeviceBytes(minor: int) -> int:
    """Return a device's size from the kernel: a secondary side cannot be opened to ask it."""
    path = f"/sys/block/drbd{minor}/size"
    try:
        return int(runtime.ReadText(path, _SYS_LIMIT)) * _SECTOR
    except (OSError, ValueError) as err:
        raise errors.BlockDeviceError(f"{_Dev(minor)}: its size cannot be read from {path}: {err}") from err


def Enlarge(minor: int, size: int, name: str) -> None:
    """Have a device grow to this size, in MiB; the two sides agree on it only after the command has ended."""
    # For a call of an earlier growth that comes late the kernel would make the device smaller.
    if DeviceBytes(minor) < size * BLOCK_BYTES:
        trouble = f"{name}: cannot be grown to {size} MiB; both nodes must be connected and their volumes large enough"
        Act(Syntax().Resize(minor, size), trouble)


def SizeOf(minor: int) -> int | None:
    """Return the size of a device in bytes; None where it cannot be told."""
    try:
        return DeviceBytes(minor)
    except errors.BlockDeviceError:
        return None


def StrangerAdvice(stranger: Config) -> str:
    """Return what has a number of ours, for people, and what to do about it."""
    return (
        f"another device has this number on this node, {stranger}; it is left as it is. If it is not needed, take it down"
        f" there with 'drbdsetup down {stranger.resource}', then use 'gnt-instance activate-disks INSTANCE'"
    )


def LinkAdvice(device: Config) -> str:
    """Return where a device of ours is linked that is not linked with its other side, and what to do about it."""
    return (
        f"it is not linked with its other side, but elsewhere, {device}; 'gnt-instance activate-disks INSTANCE' links it"
        " with its other side"
    )


def OpenAdvice(state: Minor, ahead: bool) -> str:
    """Return why a side is not opened, and what to do about it; ``ahead``: by the record only the other one counts."""
    if not ahead:
        return (
            f"the data is {state.disk} on this node and {state.peer_disk} on the other one; it is not opened before it is"
            " recorded which of them counts, as 'gnt-instance activate-disks INSTANCE' does"
        )
    behind = f"its data on this node is behind ({state.disk}, {state.connection})"
    if state.agreed and not state.in_resync:
        return (
            f"{behind}, and that of the other node, which has it all, cannot be used there ({state.peer_disk}); if its disk"
            " can be read again, use 'gnt-instance activate-disks INSTANCE'"
        )
    return (
        f"{behind} and must be filled again by the other node before it can be used here; bring that node back, or start the"
        " instance there with 'gnt-instance failover INSTANCE'"
    )


def StateOf(minor: Minor) -> MirrorState:
    """Return a device's state in the words of all mirrors."""
    return MirrorState(
        connected=minor.connected,
        standalone=minor.standalone,
        in_resync=minor.in_resync,
        local_uptodate=minor.disk == UPTODATE,
        peer_uptodate=minor.peer_disk == UPTODATE,
        sync_percent=minor.percent,
        primary=minor.primary,
        frozen=minor.frozen,
        size=SizeOf(minor.minor),
        incomplete=minor.disk not in (UPTODATE, CONSISTENT, OUTDATED),
        peer_primary=minor.connected and minor.peer_role == PRIMARY,
        peer_older=minor.peer_disk in (OUTDATED, INCONSISTENT),
        disk=minor.disk,
    )
