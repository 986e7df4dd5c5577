"""gnt-cluster upgrade: changes the release that all nodes run, forward or back."""

from __future__ import annotations

from ganeti import constants, errors, pathutils, ssconf
from ganeti.bootstrap import releases
from ganeti.cli import output
from ganeti.cli.command import Command
from ganeti.cli.parser import Flag, Options, Value
from ganeti.client.gnt_cluster import upgrading

TO = Value("--to", dest="to", metavar="VERSION", text="The release to change to, such as 3.1 or 3.1.2")
RESUME = Flag("--resume", dest="resume", text="Continue a change that was interrupted; do nothing if there is none")


def Run(options: Options, arguments: list[str]) -> int:
    if (options.to is None) == (not options.resume):
        output.ToStderr("Give either --to or --resume")
        return constants.EXIT_FAILURE
    intent = upgrading.ReadIntent()
    if options.resume:
        if intent is None:
            return constants.EXIT_SUCCESS
        return _Resume(intent)
    target = upgrading.ParseVersion(options.to)
    if target is None:
        output.ToStderr(f"Could not parse version string {options.to}")
        return constants.EXIT_FAILURE
    if intent is not None:
        if intent.new != options.to:
            raise errors.OpPrereqError(
                f"A change to {intent.new} has begun, another one to {options.to} cannot", errors.ECODE_STATE,
                hint=f"finish it with 'gnt-cluster upgrade --resume'; it is recorded in {pathutils.INTENT_TO_UPGRADE}",
            )  # fmt: skip
        return _Resume(intent)
    reason = upgrading.Obstacle(target)
    if reason:
        output.ToStderr(f"Cannot upgrade to {options.to}: {reason}")
        return constants.EXIT_FAILURE
    _CheckMaster()
    return upgrading.Upgrade(upgrading.Intent(constants.RELEASE_VERSION, options.to))


def _Resume(intent: upgrading.Intent) -> int:
    _CheckMaster()
    return upgrading.Resume(intent)


def _CheckMaster() -> None:
    store = ssconf.SimpleStore()
    if not store.IsMaster():
        raise errors.OpPrereqError(
            f"This is not the master, {store.GetMasterNode()} is", errors.ECODE_STATE, hint="run it there"
        )


COMMAND = Command(
    Run,
    "Change the release that all nodes run",
    (),
    (TO, RESUME),
    details="The other release must be installed on all nodes that are online, beside this one, in a directory of its own below"
    f" {pathutils.PKGLIB_DIR} whose name is the version; programs are found by the links {releases.LIB_LINK} and"
    f" {releases.SHARE_LINK}.  No further job may start, those that run are waited for, all daemons are stopped, the directory"
    " of the cluster's files is copied aside, and the links are changed.  Until then every failure is taken back; afterwards"
    " the daemons are started and what failed is reported.  An interrupted change is recorded and finished by ``--resume``,"
    " which a boot may call: without a record it does nothing.",
)
