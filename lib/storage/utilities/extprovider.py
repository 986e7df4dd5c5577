"""Providers of external storage: directories of scripts (doc/reference/interfaces.md b)."""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ganeti import errors, objects, pathutils, runtime
from ganeti.storage.utilities import programs
from ganeti.utils import definitions, owndirs

CREATE, ATTACH, DETACH, REMOVE, GROW, SETINFO, VERIFY = (
    "create",
    "attach",
    "detach",
    "remove",
    "grow",
    "setinfo",
    "verify",
)
SNAPSHOT, OPEN, CLOSE = "snapshot", "open", "close"
_REQUIRED = (CREATE, ATTACH, DETACH, REMOVE, GROW, SETINFO, VERIFY)
_OPTIONAL = (SNAPSHOT, OPEN, CLOSE)
# Scripts that may have to touch all data of a volume.
_LONG = (CREATE, REMOVE, GROW, SNAPSHOT)
_UMASK = 0o022
_CANNOT_RUN = (126, 127)


class ProviderError(errors.BlockDeviceError):
    """A provider is missing, cannot be used, or one of its scripts cannot say what it should."""


class ScriptFailed(ProviderError):
    """A script ran and reported a failure."""


@dataclass(frozen=True)
class Provider:
    """A valid provider.  ``scripts``: those that it has."""

    name: str
    path: str
    scripts: frozenset[str]
    parameters: tuple[tuple[str, ...], ...]

    @property
    def parameter_names(self) -> list[str]:
        return [row[0] for row in self.parameters]


@dataclass(frozen=True)
class Attached:
    """What an attach script says: a block device, and URIs by the hypervisors that understand them."""

    path: str | None
    uris: Mapping[str, str]


# --- finding ----------------------------------------------------------------------------------------------------------


def Load(name: str) -> Provider:
    """Return a provider of this node; raise ProviderError when it is missing or not valid."""
    path = definitions.Find(name, pathutils.ES_SEARCH_PATH)
    if path is None:
        raise ProviderError(
            f"Storage provider {name}: there is no such directory in {', '.join(pathutils.ES_SEARCH_PATH)} of this node;"
            " install it there ('gnt-storage diagnose' shows which nodes have it)"
        )
    try:
        return LoadFrom(name, path)
    except ProviderError as err:
        raise ProviderError(
            f"Storage provider {name} cannot be used: {err}; correct it on this node ('gnt-storage diagnose' shows all nodes)"
        ) from err


def LoadFrom(name: str, path: str) -> Provider:
    """Read and check one directory."""
    scripts = {script for script in (*_REQUIRED, *_OPTIONAL) if definitions.HasScript(path, script, ProviderError)}
    for script in _REQUIRED:
        if script not in scripts:
            raise ProviderError(f"File '{script}' under path '{path}' is missing (No such file or directory)")
    rows = definitions.ReadParameters(path, "storage provider", ProviderError)
    return Provider(name, path, frozenset(scripts), rows)


def Diagnose() -> list[list[Any]]:
    """Return [name, path, valid, message, [[parameter, description]]] of everything in the search path."""
    rows: list[list[Any]] = []
    for name, path in definitions.Entries(pathutils.ES_SEARCH_PATH):
        try:
            found = LoadFrom(name, path)
        except ProviderError as err:
            rows.append([name, path, False, str(err), []])
            continue
        rows.append([name, path, True, "", [[*row, ""][:2] for row in found.parameters]])
    return rows


# --- scripts ----------------------------------------------------------------------------------------------------------


def BuildEnvironment(
    inherited: Mapping[str, str], disk: objects.Disk, action: str, extra: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of a script: our own, the disk's parameters, and what the action needs."""
    provider, volume = disk.logical_id
    env = {**inherited, "LC_ALL": "C", "VOL_NAME": volume}
    for name, value in {"provider": provider, **disk.params}.items():
        env[f"EXTP_{name.upper()}"] = str(value)
    if action != SNAPSHOT:
        if disk.name:
            env["VOL_CNAME"] = disk.name
        env["VOL_UUID"] = disk.uuid
    return {**env, **extra}


def Run(provider: Provider, action: str, disk: objects.Disk, what: str, extra: Mapping[str, str] | None = None) -> str:
    """Run a script and return what it prints, which only ``attach`` does not write to its log.

    ``what``: the disk, for messages.  An optional script that the provider lacks does nothing.
    """
    if action not in provider.scripts:
        logging.info("%s: provider %s has no script %s, which is optional", what, provider.name, action)
        return ""
    env = BuildEnvironment(runtime.Environment(), disk, action, extra or {})
    log = None if action == ATTACH else _NewLog(provider, action, disk.logical_id[1])
    seconds = programs.LONG_SECONDS if action in _LONG else programs.SECONDS
    script = posixpath.join(provider.path, action)
    result = runtime.RunCmd([script], env=env, cwd=provider.path, umask=_UMASK, output_path=log, timeout=seconds)
    if result.failed:
        error, text = _Failure(result, f"{what}: {action} script of storage provider {provider.name}", script, log)
        logging.error("%s", text)
        raise error(text)
    if result.truncated:
        raise ProviderError(
            f"{what}: {action} script of storage provider {provider.name} printed too much; run {script}"
        )
    return result.stdout


def _Failure(result: runtime.RunResult, front: str, script: str, log: str | None) -> tuple[type[ProviderError], str]:
    """Return the error for a script that failed, and its text."""
    lines = definitions.LastLines(result.output) if log is None else definitions.Tail(log)
    said = f"; last lines in {log or 'its output'}:\n{lines}" if lines else f"; {log or 'its output'} is empty"
    if result.timeout is not None:
        return ProviderError, (
            f"{front} did not end within {result.timeout:g} seconds and was stopped; what it did so far stays. Find out"
            f" what its storage waits for, then repeat the operation{said}"
        )
    if result.exit_code in _CANNOT_RUN:
        return ProviderError, f"{front} cannot be run: {result.fail_reason}; look at {script} on this node"
    why = f"signal {result.signal}" if result.signal is not None else f"exit code {result.exit_code}"
    return ScriptFailed, f"{front} failed ({why}){said}"


def _NewLog(provider: Provider, action: str, volume: str) -> str:
    owndirs.MakeOwn(pathutils.LOG_ES_DIR, 0o750)
    return pathutils.EsLog(action, provider.name, volume.replace("/", "_"), definitions.LogStamp())


def ParseAttach(output: str) -> Attached:
    """Read what an attach script printed: the device, or an empty line; then ``HYPERVISOR:URI`` lines.

    Raises ValueError that names what cannot be read.
    """
    path, *rest = [line.strip() for line in output.splitlines()] or [""]
    if path and not posixpath.isabs(path):
        raise ValueError(f"{path[:80]!r} where the path of a block device was expected")
    uris = {}
    for line in filter(None, rest):
        hypervisor, colon, uri = line.partition(":")
        if not hypervisor.replace("-", "").isalnum() or not colon or not uri:
            raise ValueError(f"{line[:80]!r} where HYPERVISOR:URI was expected")
        uris[hypervisor] = uri
    if not path and not uris:
        raise ValueError("neither the path of a block device nor a URI")
    return Attached(path or None, uris)
