"""adopt: the command line."""

from __future__ import annotations

import optparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ganeti import constants, errors, hosts, pathutils, runtime, serializer
from ganeti.configfile.load import MAX_CONFIG
from ganeti.daemon import signals
from ganeti.daemon.main import AskTerminal
from ganeti.tools import common
from ganeti.tools.adopt import node as onnode
from ganeti.tools.adopt import plan, records, release, remote, takeover
from ganeti.upgrade import early
from ganeti.utils.text import Printable

_USAGE = """%prog [--take-over | --revert] [options]

Checks a running cluster of Ganeti 2.16, 3.0 or 3.1 and changes nothing; with --take-over this release takes the cluster over
while its instances run, with --revert the original gets it back.  Runs on the master."""
_WAIT = 3600
_OURS = "The cluster belongs to this release."


def MakeParser() -> optparse.OptionParser:
    parser = common.Parser(_USAGE)
    parser.prog = "adopt"
    parser.add_option("--take-over", dest="take_over", action="store_true", default=False, help="Take the cluster over")
    parser.add_option("--revert", action="store_true", default=False, help="Give the cluster back to the original")
    parser.add_option(
        "--original",
        metavar="DIR",
        default="/usr",
        help="Where the original is installed, with sbin and lib/ganeti [%default]",
    )
    parser.add_option("--yes-do-it", dest="confirmed", action="store_true", default=False, help="Do not ask")
    parser.add_option(
        "--change-owners", dest="change_owners", action="store_true", default=False,
        help="Let files belong to the users of this release where these differ from the original's; --revert gives them back",
    )  # fmt: skip
    parser.add_option(
        "--accept", action="store_true", default=False,
        help="Continue although instances are not as they were before they were taken over",
    )  # fmt: skip
    parser.add_option(
        "--wait", type="int", metavar="SECONDS", default=_WAIT, help="How long to wait for jobs [%default]"
    )
    parser.add_option("--on-node", dest="on_node", action="store_true", default=False, help=optparse.SUPPRESS_HELP)
    return parser


def Main() -> int:
    parser = MakeParser()
    options, arguments = parser.parse_args()
    common.LogToStderr(options.debug, options.verbose)
    if arguments:
        parser.error("No arguments are expected")
    if options.take_over and options.revert:
        parser.error("Give either --take-over or --revert")
    if options.wait < 0:
        parser.error(f"--wait {options.wait}: a number of seconds is expected")
    if options.on_node:
        return onnode.Main()
    signals.InterruptAtEnd()
    # Only wrong options have a code of their own.
    return min(common.RunTool(lambda: _RunAlone(options)), constants.EXIT_FAILURE)


def _RunAlone(options: optparse.Values) -> int:
    """Change nothing beside another run."""
    if not (options.take_over or options.revert):
        return _Run(options)
    with records.Alone(pathutils.ADOPTION_LOCK, 0, "Another run of adopt is at work: wait for its end"):
        return _Run(options)


def _Run(options: optparse.Values) -> int:
    journal = takeover.Journal.Read()
    config = _ReadConfig()
    _CheckMaster(config)
    nodes, offline = _Nodes(config)
    if options.revert:
        return _Revert(options, journal, nodes, offline)
    if journal is not None and journal.state == takeover.REVERTING:
        raise errors.OpPrereqError(
            "Handing the cluster back was interrupted",
            errors.ECODE_STATE,
            hint=f"finish it with '{pathutils.ADOPT} --revert'",
        )
    if journal is not None and journal.state == takeover.ADOPTED:
        return _Late(options, journal, nodes, offline)
    if journal is not None and journal.done:
        return _Continue(options, journal, config, nodes, offline)
    if onnode.BelongsToUs():
        # The checks would have people stop it, and start the original's master beside it.
        _Say(_OURS)
        return constants.EXIT_SUCCESS
    if journal is not None and journal.state == takeover.REVERTED:
        _NoteLeft(options, journal)
    return _Begin(options, config, nodes, offline)


def _NoteLeft(options: optparse.Values, journal: takeover.Journal) -> None:
    """Name nodes that have not been given back yet; their copy of the state, which is of another line, must not come back."""
    text = f"Nodes that still have this release: {', '.join(journal.nodes)}"
    if options.take_over:
        raise errors.OpPrereqError(
            text,
            errors.ECODE_STATE,
            hint=f"'{pathutils.ADOPT} --revert' gives back those that are up, and forgets those that the original's 'gnt-node remove NODE'"
            " has taken out of the cluster; then this can be run again",
        )
    _Say(f"{text}. '{pathutils.ADOPT} --revert' gives them back.")


def _Say(text: str) -> None:
    sys.stdout.write(Printable(text, "\n") + "\n")
    sys.stdout.flush()


# --- the cluster ------------------------------------------------------------------------------------------------------------


def _ReadConfig() -> dict[str, Any]:
    path = pathutils.CLUSTER_CONF_FILE
    try:
        data = serializer.LoadProper(runtime.ReadFile(path, MAX_CONFIG), MAX_CONFIG)
    except FileNotFoundError as err:
        raise errors.OpPrereqError(
            f"{path} is missing: this machine is not the master of a cluster",
            errors.ECODE_ENVIRON,
            hint="run this on the master",
        ) from err
    except (OSError, errors.ParseError) as err:
        reason = err.strerror if isinstance(err, OSError) else err
        raise errors.ConfigurationError(f"{path} cannot be read: {reason}", hint="run this as root") from err
    if not isinstance(data, dict):
        raise errors.ConfigurationError(f"{path} holds no JSON object")
    return data


def _CheckMaster(config: Mapping[str, Any]) -> None:
    master = early.At(config, "nodes", early.At(config, "cluster").get("master_node")).get("name")
    if master != hosts.OwnName():
        raise errors.OpPrereqError(
            f"This is node {hosts.OwnName()}, and the master is {master or 'not known'}",
            errors.ECODE_STATE,
            hint="run it on the master",
        )


def _Nodes(config: Mapping[str, Any]) -> tuple[list[remote.Node], list[str]]:
    """Return the nodes that are online, and the names of the others."""
    cluster = str(early.At(config, "cluster").get("cluster_name"))
    groups = early.At(config, "nodegroups")
    nodes, offline = [], []
    for item in early.Items(config, "nodes"):
        name = str(item.get("name"))
        if item.get("offline"):
            offline.append(name)
            continue
        levels = (item, early.At(groups, item.get("group")), early.At(config, "cluster"))
        ports = [early.At(level, "ndparams").get("ssh_port") for level in levels]
        port = next((port for port in ports if isinstance(port, int)), 22)
        nodes.append(remote.Node(name, port, name == hosts.OwnName(), cluster))
    return sorted(nodes), sorted(offline)


def _Facts(config: Mapping[str, Any], nodes: Sequence[remote.Node], offline: Sequence[str], prefix: str) -> plan.Facts:
    before = runtime.Time()
    reports, silent = remote.Ask(nodes, "look", original=prefix)
    after = runtime.Time()
    skew = {
        name: min(report["time"] - before, 0.0) + max(report["time"] - after, 0.0) for name, report in reports.items()
    }
    jobs = None
    try:
        jobs = release.Original(prefix).LiveJobs()
    except errors.OpExecError:
        pass
    return plan.Facts(config, hosts.OwnName(), prefix, offline, reports, silent, skew, jobs)


# --- forward --------------------------------------------------------------------------------------------------------------------


def _Begin(
    options: optparse.Values, config: Mapping[str, Any], nodes: Sequence[remote.Node], offline: Sequence[str]
) -> int:
    facts = _Facts(config, nodes, offline, options.original)
    for line in (*plan.Describe(facts), "", *takeover.Expected()):
        _Say(line)
    warnings, problems = plan.Warnings(facts), plan.Problems(facts)
    for title, texts in (("Notes:", warnings), ("Problems:", problems)):
        for line in (["", title] if texts else []) + [f"- {text}" for text in texts]:
            _Say(line)
    if problems:
        return constants.EXIT_FAILURE
    if not options.take_over:
        _Say(f"\nNothing stands in the way. Next: '{pathutils.ADOPT} --take-over'")
        return constants.EXIT_SUCCESS
    if not _MayBegin(options, facts):
        return constants.EXIT_FAILURE
    journal = takeover.Journal(
        {"state": takeover.TAKING_OVER, "prefix": options.original, "nodes": [node.name for node in nodes]}
    )
    return _TakeOver(options, takeover.Work(journal, nodes, options.wait, _Say, _ReadConfig))


def _MayBegin(options: optparse.Values, facts: plan.Facts) -> bool:
    if plan.ChangesOwners(facts) and not options.change_owners:
        question = (
            "The files above would belong to other users than now, as this release was built for others; '--revert' gives them"
            " back. To keep the users, build it with those of the original: './configure"
            " --with-user-prefix=gnt- --with-group-prefix=gnt-'."
        )
        if options.confirmed:
            raise errors.OpPrereqError(question, errors.ECODE_STATE, hint="or permit it with --change-owners")
        if not AskTerminal([question]):
            return False
    return bool(options.confirmed) or AskTerminal(["The cluster will be taken over by this release."])


def _TakeOver(options: optparse.Values, work: takeover.Work) -> int:
    takeover.TakeOver(work, options.accept)
    _Say("The cluster belongs to this release. Look at it with 'gnt-cluster verify'; the way back:")
    _Say(f"  {pathutils.ADOPT} --revert")
    return constants.EXIT_SUCCESS


def _Continue(
    options: optparse.Values,
    journal: takeover.Journal,
    config: Mapping[str, Any],
    nodes: Sequence[remote.Node],
    offline: Sequence[str],
) -> int:
    if not options.take_over:
        _Say(
            f"Taking the cluster over was interrupted. Done: {', '.join(journal.done)}; begun: {journal.current or 'nothing'}."
        )
        _Say(f"'{pathutils.ADOPT} --take-over' continues, '{pathutils.ADOPT} --revert' goes back.")
        return constants.EXIT_FAILURE
    members = [node for node in nodes if node.name in journal.nodes]
    problems = _ProblemsSince(journal, config, members, [node.name for node in nodes], offline)
    for line in (["Problems:"] if problems else []) + [f"- {text}" for text in problems]:
        _Say(line)
    if problems:
        _Say(
            f"Nothing was done. '{pathutils.ADOPT} --take-over' continues without them, '{pathutils.ADOPT} --revert' goes back."
        )
        return constants.EXIT_FAILURE
    return _TakeOver(options, takeover.Work(journal, members, options.wait, _Say, _ReadConfig))


def _ProblemsSince(
    journal: takeover.Journal,
    config: Mapping[str, Any],
    members: Sequence[remote.Node],
    online: Sequence[str],
    offline: Sequence[str],
) -> list[str]:
    """Return what stands in the way by now: while the original was at work, people could change everything."""
    if not takeover.BeforeExchange(journal):
        return []
    begun = takeover.ExchangeHasBegun(journal)
    problems = plan.Problems(_Facts(config, members, offline, journal.prefix), begun)
    if not begun:
        problems += [
            f"Node {name} joined or left the cluster after the take-over began: '{pathutils.ADOPT} --revert' first, then begin again"
            for name in sorted(set(online) ^ set(journal.nodes))
        ]
    return problems


def _Late(
    options: optparse.Values, journal: takeover.Journal, nodes: Sequence[remote.Node], offline: Sequence[str]
) -> int:
    """Handle nodes that were offline, now that the cluster belongs to this release."""
    late = [node for node in _WithOffline(nodes, offline) if node.name not in journal.nodes]
    reports = _Reports(late, journal.prefix) if late else {}
    # Those that were added since never had the original.
    late = [node for node in late if not (node.name in reports and onnode.Joined(reports[node.name]))]
    if not late:
        _Say(_OURS)
        return constants.EXIT_SUCCESS
    found = [node for node in late if node.name in reports]
    if not options.take_over:
        _Say(
            f"Nodes that still have the original: {', '.join(item.name for item in late)}. '{pathutils.ADOPT} --take-over' takes"
            " them over."
        )
        return constants.EXIT_SUCCESS
    if found:
        takeover.TakeOverLate(takeover.Work(journal, nodes, options.wait, _Say, _ReadConfig), found)
    return constants.EXIT_SUCCESS if len(found) == len(late) else constants.EXIT_FAILURE


def _WithOffline(nodes: Sequence[remote.Node], offline: Sequence[str]) -> list[remote.Node]:
    """Return all nodes: one that is marked offline may be up again."""
    port = nodes[0].port if nodes else 22
    cluster = nodes[0].cluster if nodes else ""
    return [*nodes, *(remote.Node(name, port, False, cluster) for name in offline)]


def _Reports(nodes: Sequence[remote.Node], prefix: str) -> dict[str, Any]:
    """Return the reports of the nodes that answer; name the others."""
    reports, silent = remote.Ask(nodes, "look", original=prefix)
    for name, why in silent.items():
        _Say(f"Node {name} did not reply and stays as it is: {why}")
    return reports


# --- back -----------------------------------------------------------------------------------------------------------------------


def _Revert(
    options: optparse.Values,
    journal: takeover.Journal | None,
    nodes: Sequence[remote.Node],
    offline: Sequence[str],
) -> int:
    if journal is None:
        raise errors.OpPrereqError(
            f"{pathutils.ADOPTION_JOURNAL} is missing: the cluster was not taken over by this program",
            errors.ECODE_STATE,
            hint="if another node was the master then, copy that file from there; without it, while all daemons are stopped,"
            f" '{pathutils.HAND_BACK} --yes-do-it 3.0' on every node gives its files back to release 3.0",
        )
    if journal.state == takeover.REVERTED:
        return _RevertLate(options, journal, nodes, offline)
    members = [node for node in nodes if node.name in journal.nodes]
    strangers = [node.name for node in nodes if node.name not in journal.nodes]
    if strangers:
        raise errors.OpPrereqError(
            f"{', '.join(strangers)} joined the cluster later and have no original to go back to",
            errors.ECODE_STATE,
            hint="'gnt-node remove NODE' first",
        )
    missing = sorted(set(journal.nodes) - {node.name for node in members})
    if takeover.HasServed(journal):
        started = remote.Ask(members, "started-here")[0]
        if names := sorted(name for found in started.values() for name in found):
            _Say(plan.StartedHere(names))
    if not (options.confirmed or AskTerminal(["The cluster will be given back to the original."])):
        return constants.EXIT_FAILURE
    work = takeover.Work(journal, members, options.wait, _Say, _ReadConfig)
    if takeover.HasServed(journal):
        takeover.CheckGivable(work)
    takeover.Revert(work)
    _Say(f"The cluster runs the original again.{takeover.Behind(journal)}")
    lost = journal.state == takeover.REVERTED and set(journal.nodes) - set(missing)
    return constants.EXIT_FAILURE if lost else constants.EXIT_SUCCESS


def _RevertLate(
    options: optparse.Values, journal: takeover.Journal, nodes: Sequence[remote.Node], offline: Sequence[str]
) -> int:
    """Handle nodes that were away, now that the cluster runs the original; those that were removed from it do not count."""
    late = [node for node in _WithOffline(nodes, offline) if node.name in journal.nodes]
    takeover.Keep(journal, [node.name for node in late])
    if not late:
        _Say("The cluster runs the original.")
        return constants.EXIT_SUCCESS
    reports = _Reports(late, journal.prefix)
    found = [node for node in late if node.name in reports]
    away = [node for node in found if node.name in offline]
    if found:
        work = takeover.Work(journal, nodes, options.wait, _Say, _ReadConfig)
        takeover.RevertLate(work, [node for node in found if node not in away], away)
    for node in found:
        joins = f": 'gnt-node add --readd {node.name}' takes it into the cluster" if node in away else ""
        _Say(f"Node {node.name} has the original again{joins}.")
    return constants.EXIT_SUCCESS if len(found) == len(late) else constants.EXIT_FAILURE
