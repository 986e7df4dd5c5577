"""Operating system definitions: finding, reading and judging them (doc/reference/interfaces.md a.1 to a.4).

A definition is a directory in the search path.  The scripts import, export, rename and verify may be missing: then
the operation that needs a missing one is rejected.  The optional files ``hypervisors`` and ``os_version`` are read when present.
"""

from __future__ import annotations

import dataclasses
import posixpath
import re
import stat
from collections.abc import Mapping, Sequence
from typing import Any

from ganeti import constants, errors, pathutils, runtime
from ganeti.utils import definitions

VARIANT_DELIMITER = "+"
CREATE, CREATE_UNTRUSTED, IMPORT, EXPORT, RENAME, VERIFY = (
    "create",
    "create_untrusted",
    constants.OS_SCRIPT_IMPORT,
    constants.OS_SCRIPT_EXPORT,
    "rename",
    "verify",
)
_SCRIPTS = (CREATE, CREATE_UNTRUSTED, IMPORT, EXPORT, RENAME, VERIFY)

API_FILE = "ganeti_api_version"
VARIANTS_FILE = "variants.list"
HYPERVISORS_FILE = "hypervisors"
VERSION_FILE = "os_version"

_LIST_LIMIT = 1024 * 1024
# After upper-casing and turning "-" into "_" it must be a variable's name.
_PARAMETER = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN_VARIANT = re.compile(r"(?!\.)[-+_.a-zA-Z0-9]+")


class OsError(errors.RpcCallError):
    """A definition is missing or cannot be used."""


@dataclasses.dataclass(frozen=True)
class OsDefinition:
    """One valid definition.  ``scripts`` has the paths of those that are there."""

    name: str
    path: str
    api_versions: tuple[int, ...]
    scripts: Mapping[str, str]
    variants: tuple[str, ...] = ()
    parameters: tuple[tuple[str, ...], ...] = ()
    hypervisors: tuple[str, ...] | None = None
    version: str | None = None

    @property
    def api_version(self) -> int:
        """Return the highest version that both sides speak."""
        return max(constants.OS_API_VERSIONS.intersection(self.api_versions))

    @property
    def trusted(self) -> bool:
        """Return whether its create script runs on the node itself."""
        return CREATE_UNTRUSTED not in self.scripts

    @property
    def parameter_names(self) -> list[str]:
        return [row[0] for row in self.parameters]

    def Script(self, kind: str) -> str:
        """Return the path of a script; raise OsError when the definition has none."""
        if kind not in self.scripts:
            raise OsError(f"OS {self.name} has no {kind} script ({self.path}/{kind}), which this operation needs")
        return self.scripts[kind]

    def CheckHypervisor(self, hypervisor: str) -> None:
        if self.hypervisors is not None and hypervisor not in self.hypervisors:
            raise OsError(
                f"OS {self.name} does not support hypervisor {hypervisor}; its file {self.path}/{HYPERVISORS_FILE} "
                f"lists {', '.join(self.hypervisors) or 'none'}"
            )

    def CheckForced(self, variant: str) -> None:
        """Raise OsError unless a variant is listed or is a plain name: scripts may read a file of that name."""
        if variant and variant not in self.variants and not _PLAIN_VARIANT.fullmatch(variant):
            raise OsError(
                f"'{variant}' is not a valid name for a variant of OS {self.name}: letters, digits, '-', '+', '_' and '.' are"
                " allowed, and no '.' in front"
            )

    def CheckVariant(self, variant: str) -> None:
        """Raise OsError unless the definition has ``variant`` ("" for none; doc/reference/interfaces.md a.4)."""
        if not self.variants:
            if variant:
                raise OsError(f"OS '{self.name}' doesn't support variants ('{variant}' passed)")
            return
        if not variant:
            raise OsError(f"OS name '{self.name}' must include a variant: {', '.join(self.variants)}")
        if variant not in self.variants:
            raise OsError(f"Unsupported OS variant '{variant}' of OS {self.name}; it has {', '.join(self.variants)}")


def SplitName(full_name: str) -> tuple[str, str]:
    """Split ``debian+minimal`` into (``debian``, ``minimal``); without a variant the second is ""."""
    name, _, variant = full_name.partition(VARIANT_DELIMITER)
    return name, variant


# --- reading ----------------------------------------------------------------------------------------------------------


def ParseApiVersions(text: str) -> tuple[int, ...]:
    """Parse one number per line; raise ValueError that names a line which is not one."""
    return tuple(int(line.strip()) for line in text.strip().splitlines())


def ParseVariants(text: str) -> tuple[str, ...]:
    lines = (line.strip() for line in text.splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


def CheckParameterNames(names: Sequence[str]) -> str | None:
    """Return what is wrong with the names that a definition declares; None when nothing is."""
    seen: dict[str, str] = {}
    for name in names:
        if not _PARAMETER.fullmatch(name):
            return f"parameter name '{name}' cannot become part of a variable's name"
        key = name.upper().replace("-", "_")
        if key in seen:
            return f"parameter names '{seen[key]}' and '{name}' become the same variable OSP_{key}"
        seen[key] = name
    return None


def Find(name: str) -> str | None:
    """Return the directory of a definition: the first in the search path."""
    return definitions.Find(name, pathutils.OS_SEARCH_PATH)


def Load(full_name: str) -> OsDefinition:
    """Return the definition of an OS, with or without variant; raise OsError when it is missing or not valid."""
    name = SplitName(full_name)[0]
    path = Find(name)
    if path is None:
        raise OsError(
            f"Directory for OS {name} not found in search path {', '.join(pathutils.OS_SEARCH_PATH)}; "
            "install it on this node"
        )
    return LoadFrom(name, path)


def LoadFrom(name: str, path: str) -> OsDefinition:
    """Read and check one directory (doc/reference/interfaces.md a.2)."""
    declared = _ReadApiVersions(path)
    highest = max(declared)
    scripts = {kind: posixpath.join(path, kind) for kind in _SCRIPTS if definitions.HasScript(path, kind, OsError)}
    if CREATE not in scripts and CREATE_UNTRUSTED not in scripts:
        raise OsError(f"A create script (trusted or untrusted) under path '{path}' must exist")
    for one, other in ((IMPORT, EXPORT), (EXPORT, IMPORT)):
        if one in scripts and other not in scripts:
            raise OsError(f"File '{other}' under path '{path}' is missing (there is '{one}', they come as a pair)")
    variants = _ReadList(path, VARIANTS_FILE, "variants") if highest >= constants.OS_API_V15 else None
    rows = definitions.ReadParameters(path, "OS", OsError) if highest >= constants.OS_API_V20 else ()
    trouble = CheckParameterNames([row[0] for row in rows])
    if trouble:
        raise OsError(f"File '{definitions.PARAMETERS_FILE}' under path '{path}': {trouble}")
    hypervisors = _ReadList(path, HYPERVISORS_FILE, "hypervisors")
    version = _ReadList(path, VERSION_FILE, "version")
    return OsDefinition(
        name,
        path,
        declared,
        scripts,
        ParseVariants(variants or ""),
        rows,
        None if hypervisors is None else ParseVariants(hypervisors),
        None if version is None else (version.splitlines() or [""])[0].strip(),
    )


def _ReadApiVersions(path: str) -> tuple[int, ...]:
    file = posixpath.join(path, API_FILE)
    try:
        mode = runtime.Stat(file).st_mode
    except OSError as err:
        raise OsError(f"Required file '{API_FILE}' not found under path {path}: {err.strerror}") from err
    if not stat.S_ISREG(mode):
        raise OsError(f"File '{API_FILE}' in {path} is not a regular file")
    try:
        text = runtime.ReadText(file, limit=_LIST_LIMIT)
    except (OSError, UnicodeDecodeError) as err:
        raise OsError(f"Error while reading the API version file at {file}: {err}") from err
    try:
        declared = ParseApiVersions(text)
    except ValueError as err:
        raise OsError(f"API version(s) can't be converted to integer: {err}") from err
    if not constants.OS_API_VERSIONS.intersection(declared):
        wanted = sorted(constants.OS_API_VERSIONS)
        raise OsError(f"API version mismatch for path '{path}': found {list(declared)}, want {wanted}.")
    return declared


def _ReadList(path: str, name: str, what: str) -> str | None:
    """Return the text of an optional file; None when it does not exist."""
    return definitions.ReadList(path, name, f"OS {what}", OsError)


# --- procedures -------------------------------------------------------------------------------------------------------


def Diagnose() -> list[list[Any]]:
    """os_diagnose: return a row per visible entry of the search path (doc/reference/interfaces.md a.3)."""
    rows = []
    for name, path in _Entries():
        try:
            found = LoadFrom(name, path)
        except OsError as err:
            rows.append([name, path, False, str(err), [], [], [], True])
            continue
        parameters = [list(row) for row in found.parameters]
        versions = sorted(found.api_versions)
        rows.append([name, path, True, "", list(found.variants), parameters, versions, found.trusted])
    return rows


def ExtraInfo() -> dict[str, Any]:
    """os_extra_info: return {name: {"version": text or null, "hypervisors": list or null}}: os_diagnose has no room for it."""
    facts: dict[str, Any] = {}
    for name, path in _Entries():
        if name in facts:
            continue
        try:
            found = LoadFrom(name, path)
        except OsError:
            continue
        allowed = None if found.hypervisors is None else list(found.hypervisors)
        facts[name] = {"version": found.version, "hypervisors": allowed}
    return facts


def _Entries() -> list[tuple[str, str]]:
    return definitions.Entries(pathutils.OS_SEARCH_PATH)


HANDLERS = {
    "os_diagnose": Diagnose,
    "os_extra_info": ExtraInfo,
}
