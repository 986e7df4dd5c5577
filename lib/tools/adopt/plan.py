"""What would happen on each node, and what stands in the way: out of the configuration and what the nodes report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ganeti import configfile, constants, errors, hypervisor, pathutils, upgrade
from ganeti.objects import origin
from ganeti.params import disk as disktemplates
from ganeti.params import ipolicy
from ganeti.tools import hand_back
from ganeti.upgrade import early
from ganeti.utils.text import Counted

RELEASES = ("2.16", "3.0", "3.1")
# The state and the copy of DATA, beside what grows later.
_FREE_LEAST = 256
# Beside the copy: what tar adds, and the logs.
_FREE_BESIDE_COPY = 64
_UNIT_ENDINGS = (".service", ".target", ".timer")
_SHOWN = 20
_FILES_SHOWN = 6
_ORIGINAL = "original"
# What daemons of the original do that none of this release does.
_WITHOUT_COUNTERPART = {
    "ganeti-mond": "the monitoring daemon has no counterpart",
    "ganeti-metad": "the metadata daemon has no counterpart",
}


# What policies may have and no original knows, and how it is taken out of the cluster's and of a group's.
_LIMITS = (
    (
        ipolicy.MEMORY_RATIO,
        "gnt-cluster modify --ipolicy-memory-ratio default",
        "gnt-group modify --ipolicy-memory-ratio default GROUP",
    ),
    (
        ipolicy.MAX_NODE_FAILURES,
        "gnt-cluster modify --ipolicy-max-node-failures default",
        "gnt-group modify --ipolicy-max-node-failures default GROUP",
    ),
)


class Facts(NamedTuple):
    """``config``: as parsed.  ``reports``: what the step ``look`` returned, by node; ``silent``: why others did not answer.

    ``jobs``: ids of jobs that are not finished, None if the original's master could not be asked; ``skew`` by node, in
    seconds.
    """

    config: Mapping[str, Any]
    own: str
    prefix: str
    offline: Sequence[str]
    reports: Mapping[str, Mapping[str, Any]]
    silent: Mapping[str, str]
    skew: Mapping[str, float]
    jobs: Sequence[str] | None


# --- what stands in the way -------------------------------------------------------------------------------------------------


def Problems(facts: Facts, begun: bool = False) -> list[str]:
    """Return why the cluster cannot be taken over as it is, each with what to do.

    ``begun``: the exchange was interrupted.  The original's master may have stopped then, and daemons of this release may run.
    """
    without = (
        f"'{pathutils.ADOPT} --revert' goes back without it"
        if begun
        else "mark it offline with the original's gnt-node"
    )
    found = [f"Node {name} did not reply: {why}. Repair it, or {without}" for name, why in facts.silent.items()]
    found += _ConfigProblems(facts.config)
    for name, report in facts.reports.items():
        found += [f"Node {name}: {text}" for text in _NodeProblems(facts, report, begun)]
        if abs(facts.skew.get(name, 0.0)) > constants.MAX_CLOCK_SKEW:
            found.append(f"Node {name}: its clock differs by {facts.skew[name]:.0f} seconds; set it first")
    versions = {report["version"] for report in facts.reports.values() if report["version"]}
    if len(versions) > 1:
        found.append(
            f"The nodes have different releases of the original: {', '.join(sorted(versions))}; make them equal"
        )
    if not begun and facts.jobs is None and facts.own in facts.reports:
        found.append("The original's master does not answer: start it, as it must stop starting jobs before it ends")
    return found


def _NodeProblems(facts: Facts, report: Mapping[str, Any], begun: bool) -> Iterator[str]:
    if report["over"]:
        yield (
            f"this release is installed over the original in {facts.prefix}. Install both side by side, so that either can be"
            " started: './configure --prefix=/opt/ganeti' for this one, and the original's packages again"
        )
    elif report["broken"]:
        yield f"the original's programs cannot be used: {report['broken']}; name their directory with --original"
    elif not report["version"].startswith(tuple(f"{release}." for release in RELEASES)):
        yield f"its release is {report['version']}; {', '.join(RELEASES)} can be taken over"
    if report["ours"] != constants.RELEASE_VERSION:
        yield f"it has version {report['ours']}, and this node {constants.RELEASE_VERSION}; install the same version on both"
    if report["store"] and not begun:
        yield f"it has belonged to this release before, and its copy of the state was not removed; see '{pathutils.HAND_BACK} --help'"
    ours = [name for name, owner in report["daemons"].items() if owner != _ORIGINAL]
    if ours and not report["record"]:
        yield f"{', '.join(ours)} of this release is running; stop it with '{pathutils.DAEMON_UTIL} stop-all'"
    if report["lacking"]:
        yield report["lacking"]
    units = [path for path in report["boot_missing"] if path.endswith(_UNIT_ENDINGS)]
    if units:
        yield (
            f"{', '.join(units)} is missing, which would replace what the machine starts of the original. These files belong to this"
            " release's examples: install them, where packages are installed without documentation too"
        )
    for path in report["boot_others"]:
        if path.endswith("/crontab"):
            yield f"{path} runs the original's watcher; take that line out there until the way back, then run this again"
        else:
            yield f"{path} starts programs of the original, and is none of its packages' files; move it away there, then run this again"
    if report["backup_free"] < report["data"] + _FREE_BESIDE_COPY:
        yield (
            f"{pathutils.BACKUP_DIR} has {report['backup_free']} MiB free, a copy of {pathutils.DATA_DIR} needs"
            f" {report['data'] + _FREE_BESIDE_COPY}; make room there"
        )
    if report["free"] < _FREE_LEAST:
        yield f"{pathutils.DATA_DIR} has {report['free']} MiB free, {_FREE_LEAST} are needed"


def _ConfigProblems(config: Mapping[str, Any]) -> Iterator[str]:
    path = pathutils.CLUSTER_CONF_FILE
    try:
        if upgrade.Version(config) < upgrade.V2_16:
            yield (
                f"{path} is one of release {upgrade.VersionText(upgrade.Version(config))}; {', '.join(RELEASES)} can be taken"
                f" over while instances run, older ones are converted with '{pathutils.CFGUPGRADE}' while all daemons are stopped"
            )
            return
        current = upgrade.UpgradeConfig(dict(config))
        problems = configfile.StructuralProblems(configfile.LoadDict(current))
        problems += [
            f"{key} is not known to this release, which could not give it back; remove it while the original's daemons are stopped"
            for key in origin.Unknown(current)
        ]
    except errors.GenericError as err:
        problems = [str(err)]
    yield from (f"{path}: {problem}" for problem in problems)
    yield from _Unsupported(config)


def _Unsupported(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield what instances use and this release cannot do."""
    kinds: dict[str, list[str]] = {}
    for instance in early.Items(config, "instances"):
        if str(instance.get("hypervisor")) not in hypervisor.DRIVERS:
            kinds.setdefault(f"hypervisor {instance.get('hypervisor')}", []).append(str(instance.get("name")))
        for uuid in early.Texts(instance.get("disks")):
            template = str(early.At(config, "disks", uuid).get("dev_type"))
            if template not in disktemplates.TEMPLATES:
                kinds.setdefault(f"disk template {template}", []).append(str(instance.get("name")))
    for what, names in kinds.items():
        yield f"The {what} of {_Some(sorted(set(names)))} is not supported by this release"


def _Some(names: Sequence[str], shown: int = _SHOWN) -> str:
    more = f" and {len(names) - shown} others" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def Warnings(facts: Facts) -> list[str]:
    """Return what an administrator should know and nothing forbids."""
    cluster = early.At(facts.config, "cluster")
    found = [
        f"Node {name} is offline and stays as it is. Keep its daemons from starting; when it is back, and before it is marked"
        f" online, run '{pathutils.ADOPT} --take-over' again"
        for name in facts.offline
    ]
    found += [
        f"Hypervisor {name} is enabled, and this release has no driver for it: no instance can be made with it"
        for name in early.Texts(cluster.get("enabled_hypervisors"))
        if name not in hypervisor.DRIVERS
    ]
    if cluster.get("instance_communication_network"):
        found.append(
            "Instance communication is enabled; this release does not have it, and instances keep their interface"
        )
    daemons = {name for report in facts.reports.values() for name in report["daemons"]}
    found += [f"{name} is running: {why}" for name, why in _WITHOUT_COUNTERPART.items() if name in daemons]
    missing = {
        path for report in facts.reports.values() for path in report["boot_missing"] if not path.endswith(_UNIT_ENDINGS)
    }
    if missing:
        found.append(f"Missing: {', '.join(sorted(missing))}. Without them no watcher runs, and logs are not rotated")
    if facts.jobs:
        found.append(f"Jobs that are not finished: {_Some(facts.jobs)}; they are waited for")
    return found


def ChangesOwners(facts: Facts) -> bool:
    """Return whether files would belong to others than now."""
    return any(item[1] != item[3] for report in facts.reports.values() for item in report["differences"])


# --- what would happen ------------------------------------------------------------------------------------------------------


def Describe(facts: Facts) -> list[str]:
    """Return the report of what would happen on each node."""
    cluster = early.At(facts.config, "cluster")
    count = len(early.At(facts.config, "instances"))
    lines = [
        f"Cluster {cluster.get('cluster_name')}: {Counted(len(facts.reports), 'node')}, {Counted(count, 'instance')};"
        f" master {facts.own}",
        "",
    ]
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, report in facts.reports.items():
        groups.setdefault(_DescribeNode(report), []).append(name)
    for described, names in groups.items():
        lines += [f"{_Some(names)}:", *described]
    return lines


def _DescribeNode(report: Mapping[str, Any]) -> tuple[str, ...]:
    daemons = ", ".join(sorted(report["daemons"])) or "none"
    return (
        f"  release {report['version'] or 'unknown'} becomes {report['ours']}; running: {daemons}",
        *(f"  replaced: {path}" for path in report["boot"]),
        *_Files(report["differences"]),
    )


def _Files(differences: Sequence[Sequence[Any]]) -> Iterator[str]:
    """Yield a line for each way in which files change, with some of the files."""
    groups: dict[str, list[str]] = {}
    for path, owner, mode, new_owner, new_mode in differences:
        groups.setdefault(f"{owner} {mode:04o} becomes {new_owner} {new_mode:04o}", []).append(path)
    for change, paths in groups.items():
        yield f"  {change}: {_Some(paths, _FILES_SHOWN)}"


# --- the way back ---------------------------------------------------------------------------------------------------------


def StartedHere(names: Sequence[str]) -> str:
    """Return what is to be known about running guests that this release has started."""
    return (
        f"Instances that this release has started: {_Some(names)}. They keep running, but the original can neither shut down, soft-reboot"
        " nor migrate them. Either run 'gnt-instance shutdown' and 'gnt-instance startup' with their names around the way back, the"
        " latter with the original; or later end the process of each, whose number is in"
        f" {pathutils.KVM_DIR}/pid, and start it with the original's 'gnt-instance startup'"
    )


def OnlyHere(config: Mapping[str, Any]) -> list[str]:
    """Return what the cluster uses that the original does not support, each with how to give it up."""
    found = []
    tokens = early.At(config, "cluster").get("rapi_tokens")
    if tokens:
        found.append("The remote interface has tokens: remove them with 'gnt-cluster rapi-token remove NAME'")
    for key, of_cluster, of_group in _LIMITS:
        if key in early.At(config, "cluster", "ipolicy"):
            found.append(f"The policy of the cluster has {key}: '{of_cluster}'")
        found += [
            f"The policy of group {group.get('name')} has {key}: '{of_group}' with its name"
            for group in early.Items(config, "nodegroups")
            if key in early.At(group, "ipolicy")
        ]
    found += hand_back.UnfinishedDisks(config)
    return found
