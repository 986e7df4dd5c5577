"""Checks that several parameters share: paths, addresses, CPU masks."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable

from ganeti import errors
from ganeti.params.types import NODE_DIR, NODE_FILE, NODE_FILE_OR_DEVICE, NODE_FILE_OR_URL, Check

_URL = re.compile(r"(https?|ftps?|tftp)://\S+", re.ASCII)
_INTERFACE = re.compile(r"[^\s/:.][^\s/:]{0,14}")
_VOLUME_GROUP = re.compile(r"(?!\.\.?$)[a-zA-Z0-9+_.][-a-zA-Z0-9+_.]{0,126}")
_COMPRESSION_TOOL = re.compile(r"(?!-)[-_a-zA-Z0-9]+")
_MAGIC = re.compile(r"[-_.a-zA-Z0-9]{5,100}")
_TRANSFER_KEY = re.compile(r"x509-[a-zA-Z0-9_-]{1,100}")
_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)
CPU_PINNING_ALL = "all"
MAX_CPU = 8191


def IsAbsNormPath(path: str) -> bool:
    return posixpath.isabs(path) and posixpath.normpath(path) == path and "\0" not in path


def IsUrl(text: str) -> bool:
    return _URL.fullmatch(text) is not None


def IsInterfaceName(text: str) -> bool:
    """Return whether Linux allows this name for a network interface."""
    return _INTERFACE.fullmatch(text) is not None


def IsVolumeGroupName(text: str) -> bool:
    """Return whether LVM allows this name for a volume group (lvm(8))."""
    return _VOLUME_GROUP.fullmatch(text) is not None


COMPRESSION_TOOL_RULE = "letters, digits, '-' and '_' are allowed, and no '-' in front"


def IsCompressionTool(text: str) -> bool:
    """Return whether this can be the name of a program that compresses disks; a path cannot."""
    return _COMPRESSION_TOOL.fullmatch(text) is not None


MAGIC_RULE = "5 to 100 characters of a-z, A-Z, 0-9, '-', '_' and '.'"


def IsMagic(text: str) -> bool:
    """Return whether this can be the text that the data of a disk on its way begins with (doc/reference/interfaces.md f.2)."""
    return _MAGIC.fullmatch(text) is not None


def IsTransferKey(text: str) -> bool:
    """Return whether this can be the name of a key that a node made for a transfer."""
    return _TRANSFER_KEY.fullmatch(text) is not None


def AddressFamily(text: str) -> int | None:
    """Return 4 or 6 when ``text`` is an address, else None."""
    import ipaddress

    try:
        return ipaddress.ip_address(text).version if "%" not in text else None
    except ValueError:
        return None


def IsLoopback(text: str) -> bool:
    """Return whether ``text`` is an address that only this machine reaches."""
    import ipaddress

    return AddressFamily(text) is not None and ipaddress.ip_address(text).is_loopback


def ParseCpuMask(mask: str) -> list[int]:
    """Return the CPU numbers of a mask like ``0-2,5``; ParseError says which part is wrong (doc/reference/parameters.md 1.2)."""
    cpus: list[int] = []
    for part in mask.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise errors.ParseError(f"CPU mask '{mask[:80]}': '{part[:80]}' is neither a number nor a range like 0-2")
        first = int(match.group(1))
        last = int(match.group(2) or first)
        if first > last or last > MAX_CPU:
            raise errors.ParseError(f"CPU mask '{mask[:80]}': '{part}' must rise and stay within 0-{MAX_CPU}")
        cpus.extend(range(first, last + 1))
    return sorted(set(cpus))


def ParseMultiCpuMask(mask: str) -> list[list[int] | None]:
    """Return the CPU numbers for each virtual CPU, None for ``all``; a mask without colon is for every one."""
    return [None if part.strip() == CPU_PINNING_ALL else ParseCpuMask(part) for part in mask.split(":")]


def _Parses(parser: Callable[[str], object]) -> Callable[[str], bool]:
    def test(value: str) -> bool:
        try:
            parser(value)
        except errors.ParseError:
            return False
        return True

    return test


FILE = Check("an absolute, normalised path of a file", IsAbsNormPath, node=NODE_FILE)
FILE_OR_DEVICE = Check("an absolute, normalised path of a file or device", IsAbsNormPath, node=NODE_FILE_OR_DEVICE)
DIRECTORY = Check("an absolute, normalised path of a directory", IsAbsNormPath, node=NODE_DIR)
PATH = Check("an absolute, normalised path", IsAbsNormPath)
FILE_OR_URL = Check(
    "an absolute, normalised path of a file, or a URL",
    lambda value: IsAbsNormPath(value) or IsUrl(value),
    node=NODE_FILE_OR_URL,
)
CPU_MASK = Check("a list like 0-2,5", _Parses(ParseCpuMask))
MULTI_CPU_MASK = Check("lists like 0-2,5 or 'all', joined by colons", _Parses(ParseMultiCpuMask))
IPV4 = Check("an IPv4 address", lambda value: AddressFamily(value) == 4)
