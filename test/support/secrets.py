"""What is secret on a cluster of tests, and the places where nobody may find it.

``RealCluster`` looks whenever it ends: every log, every file that others may read, and the process list must be free of

* the cluster's keys and their files: certificates' private keys, ``hmac.key``, the domain secret
* passwords of RAPI's users
* private OS parameters and DRBD's shared secrets, as the configuration has them
* anything that begins with ``MARK``: what a test gives away as a secret and the configuration does not keep
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ganeti import constants

if TYPE_CHECKING:
    from support.realcluster import RealNode

MARK = "Marked-Secret-"
"""How secrets begin that tests make up."""
# Shorter ones, such as the password "x" of a test, occur in every text.
_LEAST = 8
_FOLDERS = ("/etc/ganeti", "/var/lib/ganeti", "/var/run/ganeti", "/var/log/ganeti")
_LOGS = "/var/log/ganeti"
_DATA = "/var/lib/ganeti/"
_MOST = 64 * 1024 * 1024
_BASE64_LINE = re.compile(r"[A-Za-z0-9+/]{60,}")


def Known(node: RealNode) -> dict[bytes, str]:
    """The secrets of a node, with what each one is."""
    found = {MARK: "a secret of the test"}
    for name in ("hmac.key", "cluster-domain-secret"):
        found[_Text(node, _DATA + name).strip()] = name
    for name in ("server.pem", "client.pem", "rapi.pem"):
        key = _Text(node, _DATA + name).partition("-----BEGIN CERTIFICATE")[0]
        # Two lines out of the middle: the first ones are alike in all keys.
        found.update(dict.fromkeys(_BASE64_LINE.findall(key)[3:5], f"the key in {name}"))
    for line in _Text(node, _DATA + "rapi/users").splitlines():
        if len(fields := line.split(None, 2)) > 1:
            found[fields[1]] = f"the password of RAPI's user {fields[0]}"
    found.update(_OfConfiguration(_Text(node, _DATA + "config.data")))
    return {text.encode(): what for text, what in found.items() if len(text) >= _LEAST}


def _Text(node: RealNode, path: str) -> str:
    try:
        return node.Read(path)
    except (OSError, UnicodeDecodeError):
        return ""


def _OfConfiguration(text: str) -> dict[str, str]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    found = dict.fromkeys(_Private(value), "a private OS parameter")
    for disk in _WithChildren(value.get("disks", {}).values()):
        if disk.get("dev_type") == constants.DT_DRBD8 and len(disk.get("logical_id") or ()) > 5:
            found[str(disk["logical_id"][5])] = f"DRBD's secret of disk {disk.get('uuid')}"
    return found


def _WithChildren(disks: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for disk in disks:
        yield disk
        yield from _WithChildren(disk.get("children") or ())


def _Private(value: Any, inside: bool = False) -> Iterator[str]:
    """Yield every text below a key of private OS parameters."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _Private(part, inside or key.startswith("osparams_private"))
    elif isinstance(value, list):
        for part in value:
            yield from _Private(part, inside)
    elif inside and isinstance(value, str):
        yield value


def _OpenToOthers(info: os.stat_result) -> bool:
    return bool(info.st_mode & stat.S_IROTH)


def _Files(node: RealNode) -> Iterator[str]:
    """Yield the logs, whoever may read them, and all other files that everybody may read."""
    for top in _FOLDERS:
        for folder, _, names in os.walk(node.Path(top)):
            for name in names:
                path = os.path.join(folder, name)
                try:
                    info = os.lstat(path)
                except OSError:
                    continue  # gone meanwhile
                if stat.S_ISREG(info.st_mode) and info.st_size <= _MOST and (top == _LOGS or _OpenToOthers(info)):
                    yield path


def Leaks(node: RealNode, processes: Iterable[int], more: Iterable[str] = ()) -> list[str]:
    """One line for each place of a node where a secret was found.

    ``processes`` are those whose arguments are read, ``more`` are secrets that stand nowhere, such as tokens.
    """
    known = {**Known(node), **{text.encode(): "a secret that was made" for text in more}}
    pattern = re.compile(b"|".join(map(re.escape, known)))
    found = []
    for path in [*_Files(node), *(f"/proc/{pid}/cmdline" for pid in processes)]:
        try:
            with open(path, "rb") as stream:
                data = stream.read()
        except OSError:
            continue  # gone meanwhile
        for match in {match[0]: match for match in pattern.finditer(data)}.values():
            start = data.rfind(b"\n", 0, match.start()) + 1
            line = data[max(start, match.start() - 200) : match.end()].decode("utf-8", "replace")
            found.append(f"{path} has {known[match[0]]}: {line}")
    return found


__all__ = ["MARK", "Known", "Leaks"]
