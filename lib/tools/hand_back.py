"""hand-back: gives the files of this node back to release 2.16, 3.0 or 3.1 (doc/design-store.rst, 11)."""

from __future__ import annotations

import logging
import stat
import sys
from collections.abc import Iterator
from typing import Any

from ganeti import constants, errors, pathutils, runtime, serializer, upgrade
from ganeti.params import ipolicy
from ganeti.server import ownnode
from ganeti.store.files.export import VisiblePosition
from ganeti.tools import common

_LIMIT = 512 * 1024 * 1024
_GOING = f"{pathutils.DATA_EXT_DIR}.going"
# The form of the configuration that each release reads; 3.0 changed nothing but the number of 2.16.
_VERSIONS = {"2.16": upgrade.V2_16, "3.0": upgrade.V3_0, "3.1": upgrade.V3_1}


def Main() -> int:
    releases = "|".join(_VERSIONS)
    parser = common.Parser(f"%prog --yes-do-it {releases}\n\nGives the files of this node back to an original release")
    parser.prog = "hand-back"
    parser.add_option(
        "--yes-do-it", dest="confirmed", action="store_true", default=False, help="Really change the files"
    )
    options, arguments = parser.parse_args()
    if len(arguments) != 1 or arguments[0] not in _VERSIONS:
        parser.error(f"One argument is expected: {releases}")
    common.LogToStderr(options.debug, options.verbose)
    if not options.confirmed:
        sys.stderr.write(
            "This node's copy of the cluster's state will be deleted; only the files stay. Use --yes-do-it if you mean it\n"
        )
        return constants.EXIT_FAILURE
    return common.RunTool(lambda: _Run(arguments[0]))


class FilesBehind(errors.OpPrereqError):
    """The files do not show yet everything that this node's copy of the store holds."""


def _Run(release: str) -> int:
    for line in HandBack(release):
        sys.stdout.write(line + "\n")
    sys.stdout.write(
        f"Install release {release}, run its ensure-dirs --full-run, which gives the files to its users, and start it.\n"
    )
    return constants.EXIT_SUCCESS


def HandBack(release: str, exact: bool = True) -> list[str]:
    """Write the configuration in the release's form, delete this node's copy of the store, and return what was left out.

    OpPrereqError while a daemon runs; FilesBehind, unless the files need not be ``exact``, as other nodes have better ones.
    """
    common.CheckStopped()
    if exact:
        CheckExact()
    removed = _Convert(_VERSIONS[release]) if runtime.Exists(pathutils.CLUSTER_CONF_FILE) else []
    RemoveCopy()
    logging.info("This node's files are those of release %s", release)
    return removed


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
    data: dict[str, Any] = serializer.LoadProper(runtime.ReadFile(path, _LIMIT), _LIMIT)
    found = upgrade.Version(data)
    if found == version != upgrade.V3_1:
        return []  # never written by this release, or converted by a run that was cut off
    # These releases know no tokens, and must not bring them back to life later.
    data["cluster"].pop("rapi_tokens", None)
    removed = [line for owner in (data["cluster"], *data["nodegroups"].values()) for line in _RemoveLimits(owner)]
    if version != upgrade.V3_1:
        data = {**upgrade.DowngradeConfig(data), "version": version}
    runtime.WriteFile(path, serializer.Dump(data), stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid)
    return removed


def _RemoveLimits(owner: dict[str, Any]) -> Iterator[str]:
    """Remove the keys of an instance policy with which these releases would reject the configuration; yield which."""
    for key in ipolicy.OPTIONAL_TABLE:
        if owner.get("ipolicy", {}).pop(key, None) is not None:
            name = owner.get("cluster_name", owner.get("name"))
            yield f"{key} of {name} is removed: the release does not know it."
