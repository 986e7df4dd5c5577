"""Names and addresses of machines: the hosts file first, then the resolver.

In a virtual cluster the hosts file lies beside the node directories and is the only one that is written
(doc/compatibility.rst); outside it is /etc/hosts, which the resolver reads by itself.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Collection, Iterable
from typing import NamedTuple

from ganeti import errors, pathutils, runtime

_LIMIT = 1024 * 1024
# Some 400 thousand connections.
_SOCKETS_LIMIT = 64 * 1024 * 1024
_LISTENS = "0A"
_RECEIVES = "07"


class Host(NamedTuple):
    """A resolved machine: its full name and one address."""

    name: str
    ip: str


def ParseHosts(text: str) -> list[tuple[str, list[str]]]:
    """Return (address, names) of every entry."""
    entries = []
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if len(words) >= 2:
            entries.append((words[0], words[1:]))
    return entries


def WithEntry(text: str, ip: str, names: Iterable[str]) -> str:
    """Return ``text`` with one entry for these names: an older one with the same first name makes room."""
    wanted = list(dict.fromkeys(names))
    kept = WithoutEntry(text, wanted[0])
    if kept and not kept.endswith("\n"):
        kept += "\n"
    return f"{kept}{ip} {' '.join(wanted)}\n"


def WithoutEntry(text: str, name: str) -> str:
    """Return ``text`` without ``name``: a line that holds other names too keeps those."""
    lines = []
    for line in text.splitlines(keepends=True):
        content, mark, comment = line.partition("#")
        words = content.split()
        if name not in words[1:]:
            lines.append(line)
            continue
        rest = [w for w in words[1:] if w not in (name, name.partition(".")[0])]
        if rest:
            ending = f" {mark}{comment}" if mark else "\n"
            lines.append(f"{words[0]} {' '.join(rest)}{ending}")
    return "".join(lines)


def _Read() -> str:
    try:
        return runtime.ReadText(pathutils.ETC_HOSTS, _LIMIT)
    except FileNotFoundError:
        return ""


def AddEtcHostsEntry(name: str, ip: str) -> None:
    """Write ``IP FQDN SHORTNAME`` (doc/reference/files.md 13)."""
    _Write(WithEntry(_Read(), ip, [name, name.partition(".")[0]]))


def RemoveEtcHostsEntry(name: str) -> None:
    _Write(WithoutEntry(_Read(), name))


def _Write(text: str) -> None:
    runtime.WriteFile(pathutils.ETC_HOSTS, text, mode=0o644)


def HostsFileEntry(name: str) -> Host | None:
    """Return the virtual cluster's entry for ``name``; None outside virtual clusters or when there is none."""
    if not pathutils.IsVirtual():
        return None
    try:
        entries = ParseHosts(_Read())
    except (OSError, ValueError):
        return None
    for ip, names in entries:
        if name in names:
            return Host(names[0], ip)
    return None


def Lookup(name: str, ipv6: bool = False) -> Host:
    """Full name and address of a machine; raises OpPrereqError(resolver_error) naming it."""
    entry = HostsFileEntry(name)
    if entry is not None:
        return entry
    try:
        full, addresses = runtime.LookupHost(name)
    except errors.ResolverError as err:
        raise errors.OpPrereqError(
            f"The given name ({name}) does not resolve: {err.args[-1]}",
            errors.ECODE_RESOLVER,
            hint=f"add the name to the DNS, or to {pathutils.ETC_HOSTS} on this node",
        ) from err
    wanted = [a for a in addresses if (":" in a) == ipv6]
    if not wanted:
        family = "IPv6" if ipv6 else "IPv4"
        raise errors.OpPrereqError(f"Host {full} has no {family} address", errors.ECODE_RESOLVER)
    return Host(full, wanted[0])


def OwnHost(ipv6: bool = False) -> Host:
    """Return this machine as the others know it."""
    return Lookup(pathutils.HostName(), ipv6)


def OwnName() -> str:
    """Return this machine's full name, or what it calls itself where that does not resolve."""
    try:
        return OwnHost().name
    except errors.OpPrereqError:
        return pathutils.HostName()


def DaemonPort(daemon: str, default: int, protocol: str = "tcp") -> int:
    """Return the port of a daemon: the services database under its name, else ours."""
    try:
        return socket.getservbyname(daemon, protocol)
    except OSError:
        return default


def IsOwnAddress(ip: str) -> bool:
    """Return whether this machine can listen on the address."""
    try:
        runtime.ListenTcp(ip, 0).close()
    except OSError:
        return False
    return True


def ListeningAt(port: int, uids: Collection[int], udp: bool = False) -> set[str]:
    """Return the addresses of this machine at which a process of one of the users listens; ``0.0.0.0`` and ``::`` mean all."""
    found = set()
    protocol, listens = ("udp", _RECEIVES) if udp else ("tcp", _LISTENS)
    for path, family in ((f"/proc/net/{protocol}", socket.AF_INET), (f"/proc/net/{protocol}6", socket.AF_INET6)):
        try:
            lines = runtime.ReadFile(path, _SOCKETS_LIMIT).decode("ascii").splitlines()
        except FileNotFoundError:  # a kernel without IPv6
            continue
        for line in lines[1:]:
            _, local, _, state, _, _, _, uid, *_ = line.split()
            address, _, number = local.partition(":")
            if state == listens and int(number, 16) == port and int(uid) in uids:
                # 32 bits at a time, each as a number of this machine.
                words = [address[start : start + 8] for start in range(0, len(address), 8)]
                packed = b"".join(int(word, 16).to_bytes(4, sys.byteorder) for word in words)
                found.add(socket.inet_ntop(family, packed))
    return found


def Answers(
    ip: str, port: int, timeout: float = 10.0, live_port_needed: bool = True, source: str | None = None
) -> bool:
    """Return whether somebody accepts connections there; without ``live_port_needed`` a refusal proves a living host too."""
    try:
        runtime.ConnectTcp(ip, port, timeout, source).close()
    except ConnectionRefusedError:
        return not live_port_needed
    except OSError:
        return False
    return True


def IsInUse(ip: str, port: int, timeout: float = 5.0, source: str | None = None) -> bool:
    """Return whether a machine with this address is up: node daemons listen on primary addresses only, so a refusal counts.

    In a virtual cluster it does not: there every address of the loopback network refuses.
    """
    return Answers(ip, port, timeout, live_port_needed=pathutils.IsVirtual(), source=source)
