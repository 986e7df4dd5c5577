"""The steps of ``gnt-cluster upgrade`` (doc/reference/cli.md 9.9).

::

    A before   drain, wait for jobs, pause watchers, stop daemons, copy DATA     undone in reverse order by a failure
    B switch   the links to the release on every node, the configuration         likewise
    C after    start, redistribute, what is new, verify                          never undone: what failed is reported

Programs are called by paths that lead through the links, so that after the switch they are those of the other release.
Whether a change was switched, the master's own link says: it is the last one.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ganeti import constants, errors, pathutils, runtime, ssconf, ssh
from ganeti.bootstrap import releases
from ganeti.cli import output
from ganeti.luxi import client as luxi_client
from ganeti.utils import parallel
from ganeti.utils.text import JoinEscaped, SplitEscaped

_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,6}))?")
_JOBS_TIMEOUT = 129600.0
_JOBS_POLL = 2.0
_PAUSE = 3600.0
_COMMAND_TIMEOUT = 3600.0
_LIMIT = 4096
_AT_WORK = ["|", ["=", "status", "running"], ["=", "status", "canceling"]]


class Intent(NamedTuple):
    """A change of release, ``3.1.0`` to ``3.2``."""

    old: str
    new: str


class Failed(errors.OpExecError):
    """A step did not succeed."""


class Undo(NamedTuple):
    """``text``: what it is called; ``by_hand``: what people do if it fails."""

    text: str
    action: Callable[[], object]
    by_hand: str


_START_ALL = f"run '{pathutils.DAEMON_UTIL} start-all' on these nodes"
_AGAIN = f"run '{pathutils.DAEMON_UTIL} stop-all', '{pathutils.HAND_BACK} --undo' and '{pathutils.DAEMON_UTIL} start-all' on these nodes"
_RESUME = "run 'gnt-cluster upgrade --resume'"
_UNDRAIN = "run 'gnt-cluster queue undrain'"
_CONTINUE = "run 'gnt-cluster watcher continue'"


# --- versions -----------------------------------------------------------------------------------------------------------


def ParseVersion(text: str) -> tuple[int, int] | None:
    """Return major and minor number of ``M.m`` or ``M.m.r``, None for anything else."""
    found = _VERSION.fullmatch(text)
    return (int(found[1]), int(found[2])) if found else None


def Obstacle(target: tuple[int, int]) -> str | None:
    """Return why the cluster cannot change to a release, None if it can."""
    if target[0] != constants.CONFIG_MAJOR:
        return f"only releases of major version {constants.CONFIG_MAJOR} are supported"
    if target[1] < constants.CONFIG_MINOR - 1:
        return "the minor version can go back by one at most"
    return None


# --- the record ---------------------------------------------------------------------------------------------------------


def ReadIntent() -> Intent | None:
    try:
        parts = SplitEscaped(runtime.ReadText(pathutils.INTENT_TO_UPGRADE, _LIMIT).strip(), ",")
    except FileNotFoundError:
        return None
    if len(parts) != 3 or ParseVersion(parts[1]) is None:
        raise errors.ConfigurationError(
            f"{pathutils.INTENT_TO_UPGRADE} does not name two releases and a process",
            hint="remove it if all nodes run the same release and the daemons are running; nothing else depends on it",
        )
    return Intent(parts[0], parts[1])


def _WriteIntent(intent: Intent) -> None:
    text = JoinEscaped([intent.old, intent.new, str(runtime.ProcessId())], ",")
    runtime.WriteFile(pathutils.INTENT_TO_UPGRADE, text + "\n", 0o600)


# --- programs, here and there ---------------------------------------------------------------------------------------------


class _Nodes:
    """All nodes that are online, by what every node knows without a master."""

    def __init__(self) -> None:
        store = ssconf.SimpleStore()
        self._cluster = store.GetClusterName()
        self._ports = store.GetSshPortMap()
        self.master = store.GetMasterNode()
        self.others = [name for name in store.GetOnlineNodeList() if name != self.master]

    def Run(self, names: Sequence[str], *argv: str) -> str:
        """Run a program on these nodes at once; return what it wrote on the last one; Failed with what all said that it failed on."""

        failures, written = [], ""
        for name, result in parallel.Each(list(names), lambda name: self._RunOn(name, *argv)):
            written = result.stdout
            if result.failed:
                failures.append(f"{name}: '{' '.join(argv)}' failed ({result.cause}): {result.output.strip()[-300:]}")
        if failures:
            raise Failed("\n".join(failures))
        return written

    def _RunOn(self, name: str, *argv: str) -> runtime.RunResult:
        if name == self.master:
            return runtime.RunCmd(argv, timeout=_COMMAND_TIMEOUT)
        command = " ".join(runtime.ShellQuote(_On(name, word)) for word in argv)
        argv_there = ssh.BuildCommand(name, command, self._cluster, port=self._ports.get(name, 22))
        return runtime.RunCmd(argv_there, timeout=_COMMAND_TIMEOUT)

    def RunAll(self, *argv: str) -> None:
        """Run a program on the other nodes at once, then here; not here if another node fails."""
        self.Run(self.others, *argv)
        self.Run([self.master], *argv)

    def StartAll(self) -> None:
        """Start the daemons of all nodes; one that was lost must not keep the master from starting."""
        _Each(
            [
                lambda: self.Run(self.others, pathutils.DAEMON_UTIL, "start-all"),
                lambda: self.Run([self.master], pathutils.DAEMON_UTIL, "start-all"),
            ]
        )

    def HandBack(self, release: str) -> None:
        """Give the files their older form, kept as they are for ``TakeOverAgain``, and say what is left out."""
        for names in ([self.master], self.others):
            written = self.Run(names, pathutils.HAND_BACK, "--yes-do-it", "--keep", release)
            if names == [self.master]:
                _SayLines(written)

    def HandedBack(self) -> list[str]:
        """Return the nodes whose files were handed back, or may have been: also those that do not reply."""
        argv = ("test", "-e", pathutils.DATA_EXT_KEPT_DIR, "-o", "-e", pathutils.CONFIG_BEFORE_FILE)
        names = [*self.others, self.master]
        return [
            name
            for name, result in parallel.Each(names, lambda name: self._RunOn(name, *argv))
            if result.exit_code != 1
        ]

    def TakeOverAgain(self, nodes: Sequence[str] | None = None) -> None:
        """Give the files of these nodes, else of every one, as far as they were handed back, the form of this release.

        Their daemons are stopped for that: a node that was rebooted has started them.  Each, whatever becomes of other nodes.
        """
        _Each(
            [
                functools.partial(self.Run, [name for name in names if nodes is None or name in nodes], *argv)
                for names in (self.others, [self.master])
                for argv in ((pathutils.DAEMON_UTIL, "stop-all"), (pathutils.HAND_BACK, "--undo"))
            ]
        )

    def Link(self, names: Sequence[str], target: str, link: str) -> None:
        """Lead a link on these nodes to its target; a power failure does not take it back."""
        self.Run(names, "ln", "-sfn", target, link)
        self.Run(names, "sync", pathutils.CONF_DIR)
        # A node that was rebooted in between has synced the former link.
        self.Run(names, "test", link, "-ef", target)


def _Each(actions: Sequence[Callable[[], object]]) -> None:
    """Do all of them, whatever becomes of the others; then raise Failed with all that failed."""
    failures = []
    for action in actions:
        try:
            action()
        except Failed as err:
            failures.append(str(err))
    if failures:
        raise Failed("\n".join(failures))


def _On(name: str, word: str) -> str:
    """Return a word as another node knows it: in a virtual cluster its directory is another one."""
    return pathutils.ExchangeNodeRoot(name, word) if word.startswith(pathutils.ROOT_DIR + "/") else word


# --- the steps ------------------------------------------------------------------------------------------------------------


def Upgrade(intent: Intent) -> int:
    """Change the release; return the exit code."""
    nodes = _Nodes()
    _CheckInstalled(nodes, intent)
    _WriteIntent(intent)
    undo = [Undo("Removing the record of the change", _RemoveIntent, f"remove {pathutils.INTENT_TO_UPGRADE}")]
    try:
        _Before(nodes, undo)
        _Switch(nodes, intent, undo)
    except (errors.GenericError, OSError) as err:
        output.ToStderr(f"Failed: {err}")
        return _TakeBack(undo)
    return _After(nodes, intent)


def Resume(intent: Intent) -> int:
    """Finish a change that was interrupted; return the exit code."""
    nodes = _Nodes()
    if _IsSwitched(intent):
        return _After(nodes, intent)
    # Where nothing was handed back the daemons may be at work on jobs, which are waited for below.
    back = nodes.HandedBack() if _IsOlder(intent) else []
    if back:
        _Say(f"Giving the cluster's files the form of this release again on {', '.join(back)}")
        _Try(lambda: nodes.TakeOverAgain(back), _AGAIN)
    _Say("Starting the daemons, to begin again")
    if not _Try(nodes.StartAll, f"{_RESUME}; if a node stays away, run 'gnt-node modify --offline=yes NODE' first"):
        return constants.EXIT_FAILURE
    return Upgrade(intent)


def _Say(text: str) -> None:
    output.ToStdoutAndFlush(text)


def _SayLines(text: str) -> None:
    for line in text.splitlines():
        _Say(f"  {line}")


def _TakeBack(undo: Sequence[Undo]) -> int:
    """Undo the steps, the last one first, each whatever becomes of the others."""
    for step in reversed(undo):
        _Say(step.text)
        try:
            step.action()
        except (errors.GenericError, OSError) as err:
            output.ToStderr(f"This failed: {err}\nRemove the cause, then {step.by_hand}")
    return constants.EXIT_FAILURE


def _CheckInstalled(nodes: _Nodes, intent: Intent) -> None:
    """Raise OpPrereqError unless the release is installed on all nodes, in a way that it can be switched to."""
    if releases.Target(releases.LIB_LINK) is None:
        raise errors.OpPrereqError(
            f"Cannot upgrade to {intent.new}: {releases.LIB_LINK} is not a link to a release below {releases.LIB_DIR}, so"
            " there is nothing to switch",
            errors.ECODE_ENVIRON,
            hint="use packages that install releases side by side (doc/packaging.rst), or stop all daemons, install the"
            " other release and start them",
        )
    folders = [f"{releases.LIB_DIR}/{intent.new}"]
    if releases.Target(releases.SHARE_LINK) is not None:
        folders.append(f"{releases.SHARE_DIR}/{intent.new}")
    _Say(f"Checking {' and '.join(folders)} on all nodes")
    try:
        for folder in folders:
            nodes.RunAll("test", "-d", folder)
    except Failed as err:
        raise errors.OpPrereqError(
            f"Cannot upgrade to {intent.new}: it is not installed everywhere:\n{err}", errors.ECODE_ENVIRON,
            hint="install it on these nodes, or mark those that are away offline",
        ) from err  # fmt: skip


def _IsSwitched(intent: Intent) -> bool:
    return releases.Target(releases.LIB_LINK) == f"{releases.LIB_DIR}/{intent.new}"


def _IsOlder(intent: Intent) -> bool:
    target = ParseVersion(intent.new)
    return target is not None and target < (constants.CONFIG_MAJOR, constants.CONFIG_MINOR)


def _RemoveIntent() -> None:
    runtime.RemoveFile(pathutils.INTENT_TO_UPGRADE)


def _Before(nodes: _Nodes, undo: list[Undo]) -> None:
    """Bring the cluster to a halt, with no job at work."""
    with luxi_client.Client() as client:
        _Say("Draining the queue")
        if client.QueryConfigValues(["drain_flag"])[0]:
            # By people, or by a run of this that was interrupted.
            undo.append(
                Undo(f"The queue was drained before and stays drained; to allow jobs, {_UNDRAIN}", _Nothing, "")
            )
        else:
            undo.append(Undo("Allowing jobs again", lambda: _Cluster("queue", "undrain"), _UNDRAIN))
        client.SetDrainFlag(True)
        _WaitForJobs(client)
        _Say("Pausing the watcher for one hour")
        undo.append(Undo("Ending the watcher's pause", lambda: _Cluster("watcher", "continue"), _CONTINUE))
        client.SetWatcherPause(runtime.Time() + _PAUSE)
    _Say("Stopping the daemons of all nodes")
    undo.append(Undo("Starting the daemons again", nodes.StartAll, _START_ALL))
    nodes.Run([nodes.master], pathutils.DAEMON_UTIL, "stop-all")
    nodes.Run(nodes.others, pathutils.DAEMON_UTIL, "stop-all")
    _Say("Copying the cluster's files aside")
    _Say(f"They are in {_BackUp()}")


def _WaitForJobs(client: luxi_client.Client) -> None:
    deadline = runtime.Monotonic() + _JOBS_TIMEOUT
    told: list[str] = []
    while jobs := [str(job_id) for ((_, job_id),) in client.Query("job", ["id"], _AT_WORK)["data"]]:
        if runtime.Monotonic() > deadline:
            raise Failed(f"jobs {', '.join(jobs)} have not ended within {_JOBS_TIMEOUT:g} seconds")
        if jobs != told:
            _Say(f"Waiting for jobs {', '.join(jobs)}")
            told = jobs
        runtime.Sleep(_JOBS_POLL)


def _BackUp() -> str:
    """Write DATA without archived jobs and exports to a file that only root can read; return its path."""
    runtime.MakeDirs(pathutils.BACKUP_DIR)
    path = f"{pathutils.BACKUP_DIR}/ganeti{int(runtime.Time())}.tar"
    runtime.WriteFile(path, b"", 0o600)
    argv = [
        "tar",
        "-cf",
        path,
        "--exclude=queue/archive",
        "--exclude=export",
        "-C",
        os.path.dirname(pathutils.DATA_DIR),
    ]
    result = runtime.RunCmd([*argv, os.path.basename(pathutils.DATA_DIR)], timeout=_COMMAND_TIMEOUT)
    if result.failed:
        runtime.RemoveFile(path)
        raise Failed(result.fail_reason)
    return path


def _Switch(nodes: _Nodes, intent: Intent, undo: list[Undo]) -> None:
    """Lead the links to the other release on all nodes, this one last, and bring the configuration into its form."""
    if _IsOlder(intent):
        _Say("Giving the cluster's files the form of the older release")
        undo.append(Undo("Giving the cluster's files the form of this release again", nodes.TakeOverAgain, _AGAIN))
        nodes.HandBack(".".join(map(str, ParseVersion(intent.new) or ())))
    before = {link: releases.Target(link) for link in (releases.LIB_LINK, releases.SHARE_LINK)}
    _Say(f"Switching all nodes to {intent.new}")
    by_hand = " and ".join(f"'ln -sfn {target} {link}'" for link, target in before.items() if target is not None)
    undo.append(Undo("Switching all nodes back", lambda: _LinkBack(nodes, before), f"run {by_hand} on these nodes"))
    wanted = {releases.LIB_LINK: f"{releases.LIB_DIR}/{intent.new}"}
    if before[releases.SHARE_LINK] is not None:
        wanted = {releases.SHARE_LINK: f"{releases.SHARE_DIR}/{intent.new}", **wanted}
    # This node last: its own link says whether the change was switched.
    for names in (nodes.others, [nodes.master]):
        for link, path in wanted.items():
            nodes.Link(names, path, link)


def _LinkBack(nodes: _Nodes, targets: Mapping[str, str | None]) -> None:
    """Lead links on all nodes back to their targets, each whatever becomes of the others."""
    _Each(
        [
            functools.partial(nodes.Link, names, target, link)
            for names in (nodes.others, [nodes.master])
            for link, target in targets.items()
            if target is not None
        ]
    )


def _After(nodes: _Nodes, intent: Intent) -> int:
    """Do what follows the switch; whatever fails is reported, and the rest is done."""
    target = ParseVersion(intent.new)
    if target is not None and target > (constants.CONFIG_MAJOR, constants.CONFIG_MINOR):
        _Say("Giving the configuration the form of the newer release")
        if not _Try(lambda: nodes.Run([nodes.master], pathutils.CFGUPGRADE, "-f"), _RESUME):
            return constants.EXIT_FAILURE
    _Say("Starting the daemons of all nodes")
    good = _Try(lambda: nodes.Run(nodes.others, pathutils.DAEMON_UTIL, "start-all"), _START_ALL)
    if not _Try(lambda: nodes.Run([nodes.master], pathutils.DAEMON_UTIL, "start-all"), _RESUME):
        return constants.EXIT_FAILURE
    _Say("Distributing the cluster's files")
    good &= _Try(lambda: _Cluster("redist-conf", "--yes-do-it"), "run 'gnt-cluster redist-conf'")
    _Say("Starting the daemons of all nodes again, with these files")
    restart = f"run '{pathutils.DAEMON_UTIL} stop-all' and '{pathutils.DAEMON_UTIL} start-all' on these nodes"
    good &= _Try(lambda: nodes.Run([nodes.master], pathutils.DAEMON_UTIL, "stop-all"), restart)
    good &= _Try(lambda: nodes.Run(nodes.others, pathutils.DAEMON_UTIL, "stop-all"), restart)
    good &= _Try(nodes.StartAll, _START_ALL)
    _Say("Allowing jobs again")
    good &= _Try(lambda: _Cluster("queue", "undrain"), _UNDRAIN)
    _RemoveIntent()
    _Say("Running post-upgrade")
    made = f"run '{pathutils.POST_UPGRADE} {intent.old}'"
    good &= _Try(lambda: nodes.Run([nodes.master], pathutils.POST_UPGRADE, intent.old), made)
    good &= _Try(lambda: _Cluster("watcher", "continue"), _CONTINUE)
    if _IsOlder(intent):
        _Say("Removing what was set aside of the newer release's files")
        removed = f"run 'rm -rf {pathutils.DATA_EXT_KEPT_DIR}' on these nodes"
        good &= _Try(lambda: nodes.RunAll("rm", "-rf", pathutils.DATA_EXT_KEPT_DIR), removed)
    _Say("Verifying the cluster")
    good &= _Try(lambda: _Cluster("verify"), "run 'gnt-cluster verify'")
    return constants.EXIT_SUCCESS if good else constants.EXIT_FAILURE


def _Nothing() -> None:
    """Undo nothing: the step found what it makes."""


def _Try(action: Callable[[], object], again: str) -> bool:
    """Do it; return whether it succeeded, after saying why not and what is ``again`` to be done then."""
    try:
        action()
    except (errors.GenericError, OSError) as err:
        output.ToStderr(f"Failed: {err}\nRemove the cause, then {again}")
        return False
    return True


def _Cluster(*words: str) -> None:
    """Run a command of the release that is installed now."""
    result = runtime.RunCmd([f"{pathutils.SBIN_DIR}/gnt-cluster", *words], timeout=_COMMAND_TIMEOUT)
    if result.failed:
        raise Failed(f"'gnt-cluster {' '.join(words)}' failed ({result.cause}): {result.output.strip()[-2000:]}")
