"""What a QEMU binary can do, asked over QMP once per binary.

A ``-machine none`` QEMU is started and asked; the answers are kept below RUN/ext until the binary changes.  The help
texts of QEMU are not looked at: they are for people and change with every release.
"""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from ganeti import errors, pathutils, runtime, serializer
from ganeti.hypervisor.kvm import qmp
from ganeti.utils import owndirs, programs

# Older ones lack the block device and password options that are used here.
MINIMUM_VERSION = (5, 0, 0)
QUERIES = ("query-version", "query-machines", "query-command-line-options", "query-commands")

_START_TIMEOUT = 30.0
_CACHE_LIMIT = 1024 * 1024


@dataclasses.dataclass(frozen=True)
class Capabilities:
    """One binary's abilities."""

    version: tuple[int, int, int]
    default_machine: str
    machines: Mapping[str, str]  # name or alias -> name
    options: Mapping[str, Sequence[str]]  # option -> its known keys
    commands: frozenset[str]

    def Machine(self, wanted: str) -> str:
        """Return the machine type meant by ``wanted``, its alias, or the default, by its full name.

        Full names do not change their meaning with the next release of QEMU, so a guest can still be migrated to it.
        """
        if not wanted:
            return self.default_machine
        # Options such as ",usb=on" may follow the name.
        name, comma, rest = wanted.partition(",")
        if name not in self.machines:
            raise errors.HypervisorError(
                f"Machine type '{name}' (machine_version) is not known to this QEMU; it has, for example: "
                + ", ".join(sorted(self.machines)[:8])
            )
        return self.machines[name] + comma + rest

    def HasOption(self, option: str, key: str | None = None) -> bool:
        return option in self.options and (key is None or key in self.options[option])

    @property
    def has_spice(self) -> bool:
        """Return whether it was built with SPICE; its module may still be missing, which shows only at a start."""
        return "query-spice" in self.commands

    def ToDict(self) -> dict[str, Any]:
        return {
            "version": list(self.version),
            "default_machine": self.default_machine,
            "machines": dict(self.machines),
            "options": {name: list(keys) for name, keys in self.options.items()},
            "commands": sorted(self.commands),
        }

    @classmethod
    def FromDict(cls, data: Mapping[str, Any]) -> Capabilities:
        major, minor, micro = (int(part) for part in data["version"])
        return cls(
            (major, minor, micro),
            str(data["default_machine"]),
            dict(data["machines"]),
            {name: list(keys) for name, keys in data["options"].items()},
            frozenset(data["commands"]),
        )


def Parse(answers: Mapping[str, Any]) -> Capabilities:
    """Return the capabilities in the answers to ``QUERIES``."""
    try:
        version = answers["query-version"]["qemu"]
        machines: dict[str, str] = {}
        default = ""
        for machine in answers["query-machines"]:
            machines[machine["name"]] = machine["name"]
            if machine.get("alias"):
                machines[machine["alias"]] = machine["name"]
            if machine.get("is-default"):
                default = machine["name"]
        options = {
            entry["option"]: sorted(parameter["name"] for parameter in entry["parameters"])
            for entry in answers["query-command-line-options"]
            if entry["option"]
        }
        commands = frozenset(entry["name"] for entry in answers["query-commands"])
        number = (int(version["major"]), int(version["minor"]), int(version["micro"]))
    except (KeyError, TypeError, ValueError) as err:
        raise errors.HypervisorError(f"QEMU described itself in an unknown way ({err!r})") from err
    return Capabilities(number, default or machines.get("pc", "pc"), machines, options, commands)


def BuildProbe(kvm_path: str, socket: str, pid_file: str) -> list[str]:
    """Return the command of a QEMU without a machine, which can only be queried."""
    argv = [kvm_path, "-machine", "none", "-nodefaults", "-no-user-config", "-display", "none", "-S", "-daemonize"]
    return [*argv, "-pidfile", pid_file, "-qmp", f"unix:{socket},server=on,wait=off"]


def Ask(kvm_path: str) -> Capabilities:
    """Start the binary and query it."""
    owndirs.MakeOwn(pathutils.RUN_EXT_DIR)
    stem = posixpath.join(pathutils.RUN_EXT_DIR, f"qemu-{runtime.RandomBytes(4).hex()}")
    socket, pid_file = stem + ".qmp", stem + ".pid"
    try:
        result = runtime.RunCmd(BuildProbe(kvm_path, socket, pid_file), timeout=_START_TIMEOUT)
        if result.failed:
            raise errors.HypervisorError(
                f"{kvm_path} cannot be run ({result.fail_reason}): {result.stderr.strip()[-500:]}; "
                "is QEMU installed, and is the hypervisor parameter kvm_path right?"
            )
        with qmp.Monitor(socket) as monitor:
            answers = {query: monitor.Execute(query) for query in QUERIES}
            monitor.Quit()
    finally:
        runtime.RemoveFile(socket)
        runtime.RemoveFile(pid_file)
    caps = Parse(answers)
    if caps.version < MINIMUM_VERSION:
        shown, needed = (".".join(map(str, number)) for number in (caps.version, MINIMUM_VERSION))
        raise errors.HypervisorError(f"{kvm_path} is QEMU {shown}, {needed} or newer is needed")
    return caps


def Get(kvm_path: str) -> Capabilities:
    """Return the binary's capabilities, from the cache if the binary is unchanged.

    Whatever a caller names as emulator is started as root: it must be a program that only root could have put there.
    """
    try:
        found = runtime.Stat(kvm_path)
    except OSError as err:
        raise errors.HypervisorError(
            f"{kvm_path} is not there ({err.strerror}); install QEMU or change the hypervisor parameter kvm_path"
        ) from err
    problem = programs.Problem(kvm_path)
    if problem:
        raise errors.HypervisorError(
            f"{kvm_path} cannot be used as emulator: {problem}; correct the hypervisor parameter kvm_path, or let the"
            " program belong to root and be writable by nobody else"
        )
    key = f"{kvm_path} {found.st_mtime_ns} {found.st_size}"
    cache_path = posixpath.join(pathutils.RUN_EXT_DIR, "qemu-capabilities.json")
    known = _ReadCache(cache_path)
    if key not in known:
        known = {old: value for old, value in known.items() if not old.startswith(kvm_path + " ")}
        known[key] = Ask(kvm_path).ToDict()
        runtime.WriteFile(cache_path, serializer.DumpBytes(known), mode=0o644, sync=False)
    return Capabilities.FromDict(known[key])


def _ReadCache(path: str) -> dict[str, Any]:
    try:
        known = serializer.Load(runtime.ReadFile(path, limit=_CACHE_LIMIT))
        for value in known.values():
            Capabilities.FromDict(value)
    except (OSError, errors.ParseError, AttributeError, KeyError, TypeError, ValueError):
        return {}  # a damaged cache is asked for again
    return dict(known)
