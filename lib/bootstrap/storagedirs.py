"""Storage that a new cluster will use: volume group, DRBD and directories are checked, and directories made."""

from __future__ import annotations

import os

from ganeti import errors, pathutils, runtime
from ganeti.bootstrap.settings import Settings
from ganeti.cmdlib import drbdchecks, lvmchecks
from ganeti.params.disk import TEMPLATES
from ganeti.storage import looks, paths
from ganeti.storage.utilities import drbdtools, lvmtools


def CheckVolumeGroup(name: str) -> None:
    """Raise OpPrereqError unless this node can use the group: what disks will use judges it, as in a cluster that exists."""
    advice = lvmchecks.HowToMake(name)
    another = "name another one with --vg-name, or choose --enabled-disk-templates without those that need LVM"
    try:
        with looks.Sharing():
            lvmtools.GroupNamed(name)  # fails if there are two
            problem = lvmchecks.GroupProblem(name, lvmtools.GroupSizes())
    except errors.BlockDeviceError as err:
        problem, advice = str(err), "repair LVM"
    if problem:
        raise errors.OpPrereqError(f"On this node: {problem}", errors.ECODE_ENVIRON, hint=f"{advice}; or {another}")


def CheckDrbdHelper(helper: str) -> None:
    """Raise OpPrereqError unless this node has a DRBD module that can be used and calls this helper."""
    without = "or choose --enabled-disk-templates without drbd"
    try:
        drbdtools.LoadedVersion()
        found = drbdtools.Helper()
    except errors.BlockDeviceError as err:
        raise errors.OpPrereqError(f"Template drbd is enabled: {err}", errors.ECODE_ENVIRON, hint=without) from err
    problem = drbdchecks.HelperProblem(found, helper)
    if problem:
        raise errors.OpPrereqError(
            f"On this node: {problem}",
            errors.ECODE_STATE,
            hint=f"or make it the cluster's with --drbd-usermode-helper={found}, {without}",
        )


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
