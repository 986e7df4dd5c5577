"""hand-back: gives the files of this node back to release 2.16, 3.0 or 3.1 (doc/design-store.rst, 11).

With ``--keep`` the copy of the store and the configuration as it was are set aside, and ``--undo`` brings them back: for a change of
release that may still fail on another node.
"""

from __future__ import annotations

import logging
import stat
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from ganeti import constants, errors, pathutils, runtime, serializer, upgrade
from ganeti.objects import origin
from ganeti.params import ipolicy
from ganeti.server import ownnode
from ganeti.store.files.export import VisiblePosition
from ganeti.tools import common
from ganeti.upgrade import early

_LIMIT = 512 * 1024 * 1024
_GOING = f"{pathutils.DATA_EXT_DIR}.going"
# The form of the configuration that each release reads; 3.0 changed nothing but the number of 2.16.
_VERSIONS = {"2.16": upgrade.V2_16, "3.0": upgrade.V3_0, "3.1": upgrade.V3_1}


def Main() -> int:
    releases = "|".join(_VERSIONS)
    parser = common.Parser(
        f"%prog --yes-do-it [--keep] {releases}\n       %prog --undo\n\nGives the files of this node back to an original release"
    )
    parser.prog = "hand-back"
    parser.add_option(
        "--yes-do-it", dest="confirmed", action="store_true", default=False, help="Really change the files"
    )
    parser.add_option("--keep", action="store_true", default=False, help="Set aside what --undo needs")
    parser.add_option("--undo", action="store_true", default=False, help="Take back what was done with --keep")
    options, arguments = parser.parse_args()
    if options.undo and arguments:
        parser.error("--undo takes no argument")
    if not options.undo and (len(arguments) != 1 or arguments[0] not in _VERSIONS):
        parser.error(f"One argument is expected: {releases}")
    common.LogToStderr(options.debug, options.verbose)
    if options.undo:
        return common.RunTool(_RunUndo)
    if not options.confirmed:
        sys.stderr.write(
            "This node's copy of the cluster's state will be deleted; only the files stay. Use --yes-do-it if you mean it\n"
        )
        return constants.EXIT_FAILURE
    return common.RunTool(lambda: _Run(arguments[0], options.keep))


class FilesBehind(errors.OpPrereqError):
    """The files do not show yet everything that this node's copy of the store holds."""


def _Run(release: str, keep: bool) -> int:
    for line in HandBack(release, keep=keep):
        sys.stdout.write(line + "\n")
    if keep:
        return constants.EXIT_SUCCESS
    sys.stdout.write(
        f"Install release {release}, run its ensure-dirs --full-run, which gives the files to its users, and start it.\n"
    )
    return constants.EXIT_SUCCESS


def _RunUndo() -> int:
    for line in Undo():
        sys.stdout.write(line + "\n")
    return constants.EXIT_SUCCESS


def HandBack(release: str, exact: bool = True, keep: bool = False) -> list[str]:
    """Write the configuration in the release's form, delete this node's copy of the store, and return what was left out.

    OpPrereqError while a daemon runs, or a disk is in a state that the release does not know; FilesBehind.  The latter two are
    no matter unless the files are ``exact``: other nodes have better ones.  ``keep``: for ``Undo``; else nothing stays that a
    former run has kept.
    """
    common.CheckStopped()
    if exact:
        CheckExact()
    if runtime.Exists(pathutils.CLUSTER_CONF_FILE):
        _CheckReadable(_VERSIONS[release], exact)
    if keep:
        _Keep()
    removed = _Convert(_VERSIONS[release]) if runtime.Exists(pathutils.CLUSTER_CONF_FILE) else []
    if keep and runtime.IsDir(pathutils.DATA_EXT_DIR):
        runtime.Rename(pathutils.DATA_EXT_DIR, pathutils.DATA_EXT_KEPT_DIR)
    elif not keep:
        RemoveCopy()
        runtime.RemoveTree(pathutils.DATA_EXT_KEPT_DIR)
    logging.info("This node's files are those of release %s", release)
    return removed


def _CheckReadable(version: int, exact: bool) -> None:
    """Raise an error if the release would start the wrong side of a mirror with config.data, or could not start with it at all."""
    data = _ReadConfig()
    if _HasForm(data, version):
        return
    if exact:
        CheckDisks(data, version)
    unknown = origin.Unknown(InForm(data, version)[0])
    if unknown:
        raise errors.ConfigurationError(
            f"{pathutils.CLUSTER_CONF_FILE} has what release {upgrade.VersionText(version)} does not know: {', '.join(unknown)}",
            hint=f"start this release again with '{pathutils.DAEMON_UTIL} start-all' on all nodes, and report this as a bug",
        )


def CheckDisks(config: Mapping[str, Any], version: int) -> None:
    """Raise OpPrereqError if a parsed config.data has disks that a release would take for whole and that are not."""
    unfinished = list(UnfinishedDisks(config))
    if unfinished:
        raise errors.OpPrereqError(
            f"Release {upgrade.VersionText(version)} does not know the state of these disks:\n"
            + "\n".join(f"- {line}" for line in unfinished),
            errors.ECODE_STATE,
            hint=f"start this release again with '{pathutils.DAEMON_UTIL} start-all' on all nodes, wait for that, then try again",
        )


def UnfinishedDisks(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield each disk of a parsed config.data that the original would take for whole and is not, with what to wait for."""
    owners = {
        uuid: str(instance.get("name"))
        for instance in early.Items(config, "instances")
        for uuid in early.Texts(instance.get("disks"))
    }
    for disk in early.Items(config, "disks"):
        name = owners.get(str(disk.get("uuid")))
        place = disk.get("iv_name") or disk.get("name") or disk.get("uuid")
        owner = f"disk {place} of {name}" if name else f"disk {place}, which no instance has,"
        show = f"'gnt-instance info {name}' shows it" if name else "'gnt-cluster verify-disks' looks at it"
        if disk.get("behind"):
            yield f"A copy of {owner} is behind: wait until it is filled, {show}"
        if disk.get("adopts"):
            yield f"The volume of {owner} is being adopted: wait until that job has ended, 'gnt-job list' shows it"


def _Keep() -> None:
    """Set the configuration aside, in the form of this release: one that a run which was cut off has converted is kept already."""
    if runtime.IsDir(pathutils.DATA_EXT_KEPT_DIR) and not runtime.IsDir(pathutils.DATA_EXT_DIR):
        return
    runtime.RemoveTree(pathutils.DATA_EXT_KEPT_DIR)
    runtime.MakeDirs(pathutils.DATA_EXT_DIR, 0o750)
    copy = pathutils.CONFIG_BEFORE_FILE
    if runtime.Exists(pathutils.CLUSTER_CONF_FILE) and not _IsConverted(copy):
        _CopyFile(pathutils.CLUSTER_CONF_FILE, copy)


def _IsConverted(copy: str) -> bool:
    """Return whether the configuration is what a run has made of this copy; its version does not say so for all releases.

    A copy may also be left from a run that was cut off before this release was started again.
    """
    if not runtime.Exists(copy):
        return False
    now = _ReadConfig()
    return any(InForm(_ReadConfig(copy), version)[0] == now for version in _VERSIONS.values())


def _ReadConfig(path: str = pathutils.CLUSTER_CONF_FILE) -> dict[str, Any]:
    data: dict[str, Any] = serializer.LoadProper(runtime.ReadFile(path, _LIMIT), _LIMIT)
    return data


def _CopyFile(source: str, target: str) -> None:
    info = runtime.Stat(source)
    data = runtime.ReadFile(source, _LIMIT)
    runtime.WriteFile(target, data, stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid)


def Undo() -> list[str]:
    """Take back what was done with ``keep``, as far as that was; return what is to be known about it.  Safe to repeat.

    OpPrereqError while a daemon runs.  A node that has got another copy of the store meanwhile keeps that one.
    """
    common.CheckStopped()
    kept = runtime.IsDir(pathutils.DATA_EXT_KEPT_DIR)
    if kept:
        if ownnode.HoldsCluster():
            runtime.RemoveTree(pathutils.DATA_EXT_KEPT_DIR)
            return [
                "This node has got a new copy of the cluster's state since; it is used, and the one set aside was removed."
            ]
        runtime.RemoveTree(pathutils.DATA_EXT_DIR)
        runtime.Rename(pathutils.DATA_EXT_KEPT_DIR, pathutils.DATA_EXT_DIR)
    copy = pathutils.CONFIG_BEFORE_FILE
    if not runtime.Exists(copy):
        return []
    if not kept and upgrade.Version(_ReadConfig()) == upgrade.V3_1 and not _IsConverted(copy):
        # The run was cut off before it converted anything, and this release has worked since: the copy is older.
        runtime.RemoveFile(copy)
        return []
    runtime.Rename(copy, pathutils.CLUSTER_CONF_FILE)
    return ["This node's files have the form of this release again."]


def RemoveCopy() -> None:
    """Delete this node's copy of the store, with what a run that was cut off meanwhile has left.

    Kept, it would be taken for the truth by a later start of this release.  It goes at once: what is left of a database
    without its journal looks like an older state.
    """
    runtime.RemoveTree(_GOING)
    if runtime.IsDir(pathutils.DATA_EXT_DIR):
        runtime.Rename(pathutils.DATA_EXT_DIR, _GOING)
        runtime.RemoveTree(_GOING)


def CheckExact() -> None:
    """Raise FilesBehind unless the files show everything that this node's copy of the store holds."""
    if not runtime.Exists(pathutils.STORE_FILE):
        return
    own = ownnode.OwnStore()
    try:
        state, line = own.GetState(), own.GetLine()
    finally:
        own.Close()
    if state.last.seq and (VisiblePosition(state, line) != state.last or state.exported < state.last.seq):
        raise FilesBehind(
            f"The files of this node are older than its copy of the state ({state.exported} of {state.last.seq} changes)",
            errors.ECODE_STATE,
            hint="start the daemons once more, then stop the master daemon, wait two seconds, and stop the node daemon",
        )


def _Convert(version: int) -> list[str]:
    """Write config.data in the form of a version and return what is left out; one that has it already stays as it is."""
    path = pathutils.CLUSTER_CONF_FILE
    info = runtime.Stat(path)
    data = _ReadConfig()
    if _HasForm(data, version):
        return []
    data, removed = InForm(data, version)
    runtime.WriteFile(path, serializer.Dump(data), stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid)
    return removed


def _HasForm(data: dict[str, Any], version: int) -> bool:
    """Return whether a configuration was never written by this release, or was converted by a run that was cut off."""
    return upgrade.Version(data) == version != upgrade.V3_1


def InForm(data: dict[str, Any], version: int) -> tuple[dict[str, Any], list[str]]:
    """Return a configuration, which is changed, in the form of a version, and what is left out."""
    # Among it tokens, which must not come back to life later.
    origin.StripConfig(data)
    removed = [line for owner in (data["cluster"], *data["nodegroups"].values()) for line in _RemoveLimits(owner)]
    if version != upgrade.V3_1:
        data = {**upgrade.DowngradeConfig(data), "version": version}
    return data, removed


def _RemoveLimits(owner: dict[str, Any]) -> Iterator[str]:
    """Remove the keys of an instance policy with which these releases would reject the configuration; yield which."""
    for key in ipolicy.OPTIONAL_TABLE:
        if owner.get("ipolicy", {}).pop(key, None) is not None:
            name = owner.get("cluster_name", owner.get("name"))
            yield f"{key} of {name} is removed: the release does not know it."
