"""Files that nodes must have, and whether they are the same everywhere (doc/reference/drivers.md c.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ganeti import objects, pathutils, renewal, runtime, ssconf
from ganeti.cmdlib.cluster.verify_report import CLUSTER, NODE, Report
from ganeti.cmdlib.distribute import FilesOfAll, FilesOfRapi
from ganeti.params import hv
from ganeti.utils.text import NiceSort

# Views of the store are at most a second behind; a busy node needs longer (doc/design-store.rst, 10).
_VIEW_SECONDS = 10.0
_VIEW_PAUSE = 0.5

# Node uuid -> {path: checksum} of the nodes that answered.
Found = Mapping[str, Mapping[str, str]]


class FileRule(NamedTuple):
    """A file that the nodes of one category have, the same on each.

    ``optional``: all of them have it, or none.  ``exclusive``: no other node has it.  ``view``: written by the nodes
    themselves from the store, so that it may differ for a moment.  ``copied``: ``gnt-cluster redist-conf`` brings it.
    """

    path: str
    nodes: frozenset[str]
    optional: bool = False
    exclusive: bool = False
    view: bool = False
    copied: bool = False


def Rules(snapshot: objects.Snapshot) -> list[FileRule]:
    """Return a rule for each file that nodes get from the master, or write from the store."""
    nodes = snapshot.nodes.values()
    everybody = frozenset(n.uuid for n in nodes)
    candidates = frozenset(n.uuid for n in nodes if n.master_candidate)
    able = frozenset(n.uuid for n in nodes if n.master_capable)
    vm_capable = frozenset(n.uuid for n in nodes if n.vm_capable)
    path = pathutils.MakeVirtualPath
    rules = [FileRule(path(pathutils.CLUSTER_CONF_FILE), candidates, exclusive=True, view=True)]
    rules += [FileRule(path(pathutils.SsconfFile(key)), everybody, view=True) for key in ssconf.KEYS]
    # What to do about secrets depends on whether a renewal is under way: verify_crypto says it.
    secrets = [secret.path for secret in renewal.SECRETS.values()]
    rules += [FileRule(path(name), everybody) for name in secrets]
    rules += [
        FileRule(path(name), everybody, optional=name == pathutils.EXTRA_FILES_LIST, copied=True)
        for name in dict.fromkeys(FilesOfAll(snapshot.cluster))
        if name not in secrets
    ]
    rules += [
        FileRule(path(name), able, optional=name == pathutils.RAPI_USERS_FILE, copied=True) for name in FilesOfRapi()
    ]
    return rules + [
        FileRule(path(name), vm_capable, optional=optional, copied=True)
        for name, optional in hv.AncillaryFiles(snapshot).items()
    ]


def WaitForViews(
    rules: Iterable[FileRule], names: Mapping[str, str], found: Found, ask: Callable[[list[str]], Found]
) -> Found:
    """Return what nodes have, asked again until views of the store agree or their time is over.

    ``ask``: the paths -> checksums of just these, by node; a node that does not answer keeps what it had.
    """
    views = [rule for rule in rules if rule.view]
    paths = sorted(rule.path for rule in views)
    deadline = runtime.Monotonic() + _VIEW_SECONDS
    while _Differ(views, names, found) and runtime.Monotonic() < deadline:
        runtime.Sleep(_VIEW_PAUSE)
        newer = ask(paths)
        found = {
            uuid: {**{path: sum_ for path, sum_ in sums.items() if path not in paths}, **newer[uuid]}
            if uuid in newer
            else sums
            for uuid, sums in found.items()
        }
    return found


def _Differ(rules: Iterable[FileRule], names: Mapping[str, str], found: Found) -> bool:
    report = Report(lambda _: None)
    CheckFiles(report, names, rules, found)
    return report.bad


def CheckFiles(report: Report, names: Mapping[str, str], rules: Iterable[FileRule], found: Found) -> None:
    """Report files that are missing, differ, or are where they should not be; ``names``: node uuid -> name."""
    for rule in rules:
        shown = rule.path.removeprefix(pathutils.VIRTUAL_PATH_MARKER)
        have = {uuid: sums[rule.path] for uuid, sums in found.items() if rule.path in sums}
        expected = rule.nodes & found.keys()
        missing = expected - have.keys()
        if rule.optional:
            report.ErrorIf(
                missing and expected & have.keys(),
                "ECLUSTERFILECHECK",
                CLUSTER,
                None,
                f"File {shown} is optional, but must be on all or no nodes; it is missing on {_Names(names, missing)}",
            )
        else:
            for uuid in sorted(missing):
                report.Error("ENODEFILECHECK", NODE, names[uuid], f"File {shown} is missing")
        if rule.exclusive:
            for uuid in sorted(have.keys() - rule.nodes):
                report.Error("ENODEFILECHECK", NODE, names[uuid], f"File {shown} should not exist")
        sums = {checksum: [u for u in expected if have.get(u) == checksum] for checksum in sorted(set(have.values()))}
        sums = {checksum: nodes for checksum, nodes in sums.items() if nodes}
        way_out = "; 'gnt-cluster redist-conf' copies the master's to all nodes" if rule.copied else ""
        variants = "; ".join(_Names(names, nodes) for nodes in sums.values())
        report.ErrorIf(
            len(sums) > 1,
            "ECLUSTERFILECHECK",
            CLUSTER,
            None,
            f"File {shown} found with {len(sums)} different checksums (variants: {variants}){way_out}",
        )


def _Names(names: Mapping[str, str], uuids: Iterable[str]) -> str:
    return ", ".join(NiceSort(names.get(u, u) for u in uuids)) or "none"
