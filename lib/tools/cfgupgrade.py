"""cfgupgrade: brings the configuration of an older release to this one, or that of this release back to 3.0.

Everything is worked out and checked before anything is written; the file as it was is kept beside the new one.
"""

from __future__ import annotations

import logging
import optparse
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ganeti import (
    _autoconf,
    configfile,
    constants,
    errors,
    hosts,
    objects,
    pathutils,
    runtime,
    serializer,
    ssconf,
    upgrade,
)
from ganeti.bootstrap import keys
from ganeti.configfile.load import MAX_CONFIG
from ganeti.daemon import users
from ganeti.daemon.main import AskTerminal
from ganeti.server import ownnode
from ganeti.store.files.look import JobFiles
from ganeti.tools import common, hand_back
from ganeti.utils import files
from ganeti.utils.text import Printable, Shortened

_SMALL = 1 << 20
_CORRECT = "correct that in config.data, or take the file of another master candidate or of a backup, then try again"
# Of a problem, which may quote what is broken, and how many are shown at once.
_MOST_CHARACTERS = 250
_MOST_PROBLEMS = 10
_STORAGE_DIRS = ("file_storage_dir", "shared_file_storage_dir")


def Main() -> int:
    parser = common.Parser("%prog [options]\n\nBrings the configuration of release 2.0 to 3.0 to this release")
    parser.prog = "cfgupgrade"
    parser.add_option("--dry-run", action="store_true", default=False, help="Convert and check, write nothing")
    parser.add_option("-f", "--force", action="store_true", default=False, help="Do not ask")
    parser.add_option(
        "--ignore-hostname", action="store_true", default=False, help="Run on another node than the master"
    )
    parser.add_option("--path", metavar="DIR", default=pathutils.DATA_DIR, help=f"Default: {pathutils.DATA_DIR}")
    parser.add_option("--confdir", metavar="DIR", default=pathutils.CONF_DIR, help=f"Default: {pathutils.CONF_DIR}")
    parser.add_option("--no-verify", dest="verify", action="store_false", default=True, help="Do not check the result")
    parser.add_option("--downgrade", action="store_true", default=False, help="From this release back to 3.0")
    options, arguments = parser.parse_args()
    common.LogToStderr(options.debug, options.verbose)
    if arguments:
        logging.error("No arguments expected")
        return constants.EXIT_FAILURE
    # Scripts of 3.1 know one code for every failure.
    return min(common.RunTool(lambda: _Run(options)), constants.EXIT_FAILURE)


def _Run(options: optparse.Values) -> int:
    own = os.path.normpath(options.path) == pathutils.DATA_DIR
    _CheckHere(options, own)
    if not options.force and not _Confirmed(options):
        return constants.EXIT_FAILURE
    old = _Read(options.path)
    before = upgrade.Version(old)
    if own and before < upgrade.V2_16:
        _CheckNoJobs()
    snapshot = None if options.downgrade else _Upgraded(old, before, options)
    text = _Downgraded(old, before) if snapshot is None else objects.ConfigText(snapshot)
    if not options.dry_run:
        try:
            if own and snapshot is not None:
                text = objects.ConfigText(_WriteBeside(snapshot, before, options.confdir))
            _Write(os.path.join(options.path, os.path.basename(pathutils.CLUSTER_CONF_FILE)), text)
        except OSError as err:
            raise errors.OpExecError(
                f"{common.MachineProblem(err)}; config.data is as it was",
                hint="remove the cause, then run the same command again: it uses what is written already",
            ) from err
    done = "downgraded" if options.downgrade else "upgraded"
    version = upgrade.VersionText(upgrade.V3_0 if options.downgrade else upgrade.V3_1)
    what = "can be" if options.dry_run else "successfully"
    sys.stderr.write(f"Configuration {what} {done} to version {version}.\n")
    if before < upgrade.V2_11:
        sys.stderr.write(_JoinAgain())
    return constants.EXIT_SUCCESS


def _JoinAgain() -> str:
    return (
        f"Nodes of {upgrade.VersionText(upgrade.V2_11)} and newer have certificates of their own. Before you start the daemons,"
        " run this here for each other node:\n"
        f"  gnt-node show-join-data NODE | ssh NODE {pathutils.NODE_DAEMON_SETUP}\n"
        "and, when the master daemon is running, 'gnt-node add --readd --no-node-setup NODE'.\n"
    )


# --- before anything is written ---------------------------------------------------------------------------------------


def _CheckHere(options: optparse.Values, own: bool) -> None:
    """Raise OpPrereqError unless the files are a cluster's, nobody uses them while they change, and this is its master."""
    for folder, name in (
        *((options.path, name) for name in ("config.data", "server.pem", "known_hosts")),
        (options.confdir, ""),
    ):
        path = os.path.join(folder, name).rstrip("/")
        if not runtime.Exists(path):
            raise errors.OpPrereqError(f"{path} is missing: this is not a master of a cluster", errors.ECODE_ENVIRON)
    if own and not options.dry_run:
        common.CheckStopped()
    if own and ownnode.HoldsCluster():
        raise errors.OpPrereqError(
            f"The cluster belongs to this release already: config.data is written from {pathutils.STORE_FILE}",
            errors.ECODE_STATE,
            hint=f"'{pathutils.HAND_BACK} --yes-do-it 3.0' gives it back to release 3.0"
            if options.downgrade
            else "no conversion is needed",
        )
    master = _ReadText(os.path.join(options.path, "ssconf_master_node")).strip()
    if not options.ignore_hostname and hosts.OwnName() != master:
        raise errors.OpPrereqError(
            f"This is node {hosts.OwnName()}, and the master is {master or 'not known'}",
            errors.ECODE_STATE,
            hint="run it on the master, or use --ignore-hostname",
        )


def _CheckNoJobs() -> None:
    """Raise OpPrereqError if there are jobs: those of releases before 2.16 cannot be read."""
    jobs = sorted(JobFiles())
    if jobs:
        raise errors.OpPrereqError(
            f"The job queue is not empty: {_JobIds(jobs)} in {pathutils.QUEUE_DIR}",
            errors.ECODE_STATE,
            hint="let the release that wrote them finish and archive them: 'gnt-job autoarchive all'",
        )


def _JobIds(jobs: Sequence[int]) -> str:
    return f"job {jobs[0]}" if len(jobs) == 1 else f"{len(jobs)} jobs, {jobs[0]} to {jobs[-1]},"


def _Confirmed(options: optparse.Values) -> bool:
    wanted = f"back to {upgrade.VersionText(upgrade.V3_0)}" if options.downgrade else "to this release"
    return AskTerminal(
        [
            f"The configuration in {options.path} is converted {wanted}.",
            "All daemons of all nodes must be stopped, and no job may be waiting; keep a backup of the directory.",
        ]
    )


def _ReadText(path: str) -> str:
    try:
        return runtime.ReadText(path, _SMALL)
    except (OSError, ValueError) as err:
        raise errors.OpPrereqError(f"{path} cannot be read: {err}", errors.ECODE_ENVIRON) from err


def _Read(folder: str) -> dict[str, Any]:
    path = os.path.join(folder, "config.data")
    try:
        data = serializer.LoadProper(runtime.ReadFile(path, MAX_CONFIG), MAX_CONFIG)
    except (OSError, errors.ParseError) as err:
        raise errors.ConfigurationError(f"{path} cannot be read: {err}") from err
    if not isinstance(data, dict):
        raise errors.ConfigurationError(f"{path} holds no JSON object")
    return data


def _Downgraded(old: dict[str, Any], before: int) -> str:
    if before == upgrade.V3_0:
        logging.info("The configuration is one of %s already", upgrade.VersionText(before))
        return serializer.Dump(old)
    hand_back.CheckDisks(old, upgrade.V3_0)
    data, removed = hand_back.InForm(old, upgrade.V3_0)
    for line in removed:
        logging.warning("%s", line)
    return serializer.Dump(data)


def _Upgraded(old: dict[str, Any], before: int, options: optparse.Values) -> objects.Snapshot:
    """Return the configuration in the form of this release; what no daemon can start with is an error."""
    if before == upgrade.V3_1:
        logging.info("The configuration is one of %s already", upgrade.VersionText(before))
    try:
        snapshot = configfile.LoadDict(upgrade.UpgradeConfig(old))
    except errors.ConfigurationError as err:
        raise errors.ConfigurationError(f"Nothing was written: {_Short(str(err))}", hint=err.hint or _CORRECT) from err
    if options.verify:
        _Report(snapshot)
    return snapshot


def _Report(snapshot: objects.Snapshot) -> None:
    """Print what is wrong with a configuration; raise ConfigurationError if no daemon could start with it."""
    structural = configfile.StructuralProblems(snapshot)
    if structural:
        raise errors.ConfigurationError(
            f"The result could not be used, and nothing was written: {'; '.join(_Fewer(structural))}",
            hint=_CORRECT,
        )
    for text in _Fewer(configfile.VerifyConfig(snapshot)):
        sys.stderr.write(f"Warning: {text}\n")


def _Fewer(problems: Sequence[str]) -> list[str]:
    """Return the first problems, each as one short line, and how many more there are."""
    shown = [_Short(text) for text in problems[:_MOST_PROBLEMS]]
    more = len(problems) - len(shown)
    return [*shown, f"{more} more problems"] if more else shown


def _Short(text: str) -> str:
    return Shortened(Printable(text), _MOST_CHARACTERS)


# --- writing ----------------------------------------------------------------------------------------------------------


def _Write(path: str, text: str) -> None:
    copy = files.KeepCopy(path)
    logging.info("The configuration as it was is kept as %s", copy)
    runtime.WriteFile(path, text, 0o600, users.UserId(_autoconf.MASTERD_USER), users.GroupId(_autoconf.CONFD_GROUP))


def _WriteBeside(snapshot: objects.Snapshot, before: int, confdir: str) -> objects.Snapshot:
    """Write what belongs to the configuration of this release; return it with the master's certificate."""
    _MoveRapiUsers()
    runtime.RemoveFile(pathutils.OLD_WATCHER_STATE_FILE)
    _WriteStoragePaths(snapshot.cluster, os.path.join(confdir, os.path.basename(pathutils.FILE_STORAGE_PATHS_FILE)))
    keys.WriteMissing()
    if before < upgrade.V2_11:
        server_pem = _ReadText(pathutils.NODED_CERT_FILE)
        snapshot = keys.CertifyMaster(snapshot, server_pem, hosts.OwnName())
        ssconf.WriteSsconfFiles(ssconf.Values(snapshot))
    return snapshot


def _MoveRapiUsers() -> None:
    """Move the users of the remote interface to where they are since 2.4, and leave a link for those who edit them."""
    old, new = pathutils.OLD_RAPI_USERS_FILE, pathutils.RAPI_USERS_FILE
    try:
        if stat.S_ISLNK(runtime.Stat(old, follow=False).st_mode):
            return
    except FileNotFoundError:
        return
    users_before = runtime.ReadFile(old, _SMALL)
    if not runtime.Exists(new):
        info = runtime.Stat(old)
        runtime.MakeDirs(os.path.dirname(new), 0o750)
        runtime.WriteFile(new, users_before, stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid)
    elif runtime.ReadFile(new, _SMALL) != users_before:  # else a run that was cut off has written it
        raise errors.OpPrereqError(
            f"There are users of the remote interface in {old} and in {new}",
            errors.ECODE_STATE,
            hint="remove the one that does not count, then try again",
        )
    # By one rename, so that a cut leaves the file or the link.
    link = f"{old}.link"
    runtime.RemoveFile(link)
    runtime.Symlink(new, link)
    runtime.Rename(link, old)


def _WriteStoragePaths(cluster: objects.Cluster, path: str) -> None:
    """Permit the directories that the cluster uses for disks in files, unless somebody has written the list already."""
    wanted: Mapping[str, Any] = cluster.ToDict()
    folders = [wanted[key] for key in _STORAGE_DIRS if wanted.get(key)]
    if folders and not runtime.Exists(path):
        head = "# Directories below which disks in files may lie, one per line.\n"
        runtime.WriteFile(path, head + "".join(f"{folder}\n" for folder in folders), 0o600)
