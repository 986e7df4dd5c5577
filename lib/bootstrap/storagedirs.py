"""Storage that a new cluster will use: volume group, DRBD and directories are checked, and directories made."""

from __future__ import annotations

import os

from ganeti import errors, pathutils, runtime
from ganeti.bootstrap.settings import Settings
from ganeti.params.disk import TEMPLATES
from ganeti.storage import paths

_HELPER_FILE = "/sys/module/drbd/parameters/usermode_helper"


def CheckVolumeGroup(name: str, minimum: int) -> None:
    """Raise OpPrereqError unless the group is there and has ``minimum`` MiB."""
    result = runtime.RunCmd(["vgs", "--noheadings", "--nosuffix", "--units=m", "-o", "vg_size", name], timeout=60)
    if result.failed:
        raise errors.OpPrereqError(
            f"Volume group '{name}' is missing on this node ({result.stderr.strip() or result.fail_reason}); create it, name"
            " another with --vg-name, or choose --enabled-disk-templates without plain and drbd",
            errors.ECODE_ENVIRON,
        )
    try:
        size = float(result.stdout.strip())
    except ValueError as err:
        raise errors.OpPrereqError(
            f"Size of volume group '{name}' cannot be read: {result.stdout!r}", errors.ECODE_ENVIRON
        ) from err
    if size < minimum:
        raise errors.OpPrereqError(
            f"Volume group '{name}' has {size:.0f} MiB, {minimum} are needed", errors.ECODE_NORES
        )


def CheckDrbdHelper(helper: str) -> None:
    """Raise OpPrereqError unless the DRBD module of this node calls this helper."""
    try:
        found = runtime.ReadText(_HELPER_FILE, 4096).strip()
    except OSError as err:
        raise errors.OpPrereqError(
            "Template drbd is enabled, but the DRBD module is not loaded on this node: load it with"
            f" usermode_helper={helper}, or choose --enabled-disk-templates without drbd",
            errors.ECODE_ENVIRON,
        ) from err
    if found != helper:
        raise errors.OpPrereqError(f"The DRBD module of this node calls {found}, not {helper}", errors.ECODE_STATE)


_DEFAULTS = {
    "file_storage_dir": pathutils.DEFAULT_FILE_STORAGE_DIR,
    "shared_file_storage_dir": pathutils.DEFAULT_SHARED_FILE_STORAGE_DIR,
    "gluster_storage_dir": pathutils.DEFAULT_GLUSTER_STORAGE_DIR,
}


def Choose(settings: Settings) -> dict[str, str]:
    """Directory per cluster field; empty where it is disabled.  Raises OpPrereqError for one that cannot be used."""
    chosen = {}
    for template, known in TEMPLATES.items():
        name = known.directory
        if name is None:
            continue
        enabled = template in settings.enabled_disk_templates
        given = getattr(settings, name)
        folder = given if given is not None else _DEFAULTS[name]
        if enabled:
            if not folder:
                raise errors.OpPrereqError(
                    f"Disk template '{template}' is enabled, but its directory is empty", errors.ECODE_INVAL
                )
            if not os.path.isabs(folder):
                raise errors.OpPrereqError(f"Storage directory '{folder}' is not an absolute path", errors.ECODE_INVAL)
            folder = os.path.normpath(folder)
            if known.listed_directory:
                try:
                    paths.CheckAllowed(folder)
                except errors.FileStoragePathError as err:
                    raise errors.OpPrereqError(str(err), errors.ECODE_STATE) from err
        chosen[name] = folder if enabled else (given or "")
    return chosen


def Create(chosen: dict[str, str]) -> None:
    for folder in chosen.values():
        if folder and not runtime.IsDir(folder):
            try:
                runtime.MakeDirs(folder, 0o750)
            except OSError as err:
                raise errors.OpPrereqError(
                    f"Cannot create storage directory '{folder}': {err}", errors.ECODE_ENVIRON
                ) from err
