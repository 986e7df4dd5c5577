"""Compare what nodes report of DRBD with what disks need (doc/reference/drivers.md c.3); pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from ganeti import objects
from ganeti.cmdlib.cluster.verify_nodes import NodeImage
from ganeti.cmdlib.cluster.verify_report import NODE, Report
from ganeti.cmdlib.drbdchecks import HelperProblem
from ganeti.params import disk as disk_params

# The node puts the reason in place of the version if it cannot use DRBD.
_IS_VERSION = re.compile(r"\d+\.\d+")
_VERSION, _MINORS, _HELPER = "drbd-version", "drbd-list", "drbd-helper"


def _IsUsed(cluster: objects.Cluster) -> bool:
    return bool(disk_params.With(helper=True).intersection(cluster.enabled_disk_templates))


def Questions(cluster: objects.Cluster) -> dict[str, Any]:
    """Return what nodes are asked about DRBD in ``node_verify``."""
    if not _IsUsed(cluster):
        return {}
    asked: dict[str, Any] = {_VERSION: None, _MINORS: None}
    if cluster.drbd_usermode_helper:
        asked[_HELPER] = cluster.drbd_usermode_helper
    return asked


def CheckNode(report: Report, image: NodeImage, snapshot: objects.Snapshot, answer: Mapping[str, Any]) -> None:
    """Check module, helper and minors of one node; keep its version in its image."""
    if not _IsUsed(snapshot.cluster):
        return
    name = image.node.name
    helper = snapshot.cluster.drbd_usermode_helper
    if helper:
        problem = _HelperProblem(answer.get(_HELPER), helper)
        report.ErrorIf(problem, "ENODEDRBDHELPER", NODE, name, str(problem))
    minors = answer.get(_MINORS)
    if isinstance(minors, list):
        _CheckMinors(report, image, snapshot, frozenset(minors))
    else:
        text = f"the DRBD minors in use cannot be read: {minors or 'no answer'}"
        report.Error("ENODEDRBD", NODE, name, text, lasting=True)
    version = str(answer.get(_VERSION) or "")
    if _IS_VERSION.match(version):
        image.drbd_version = version
    elif version and version != minors:
        report.Error("ENODEDRBDVERSION", NODE, name, f"DRBD cannot be used: {version}")


def _HelperProblem(answer: Any, wanted: str) -> str | None:
    if answer is None:
        return "the node did not report its DRBD usermode helper"
    fine, found = answer
    if not fine:
        return f"the DRBD usermode helper cannot be read: {found}; is the module loaded? 'modprobe drbd' loads it"
    problem = HelperProblem(found, wanted)
    # People copy commands: what the node says must not be one.
    plain = shlex.quote(str(found)) == found
    own = f", or make it that of the cluster with 'gnt-cluster modify --drbd-usermode-helper={found}'" if plain else ""
    return problem and problem + own


def _CheckMinors(report: Report, image: NodeImage, snapshot: objects.Snapshot, in_use: frozenset[int]) -> None:
    node = image.node.name
    wanted = snapshot.UsedMinors(image.node.uuid)
    for minor, disk in sorted(wanted.items()):
        owner = snapshot.DiskOwner(disk)
        instance = snapshot.instances[owner] if owner is not None else None
        if instance is not None and instance.disks_active and minor not in in_use:
            report.Error(
                "ENODEDRBD",
                NODE,
                node,
                f"DRBD minor {minor} of instance {instance.name} is not active; 'gnt-instance activate-disks"
                f" {instance.name}' activates it",
            )
    for minor in sorted(in_use - wanted.keys()):
        report.Error(
            "ENODEDRBD",
            NODE,
            node,
            f"DRBD minor {minor} is in use, but belongs to no disk of the cluster; 'drbdsetup show {minor}' there names its"
            f" resource; if that is resource{minor} and nobody needs it, 'drbdsetup down resource{minor}' ends it",
        )


def CheckVersions(report: Report, images: Iterable[NodeImage]) -> None:
    """Warn when the nodes of a group have different versions of DRBD."""
    known = [image for image in images if image.drbd_version is not None]
    versions = sorted({str(image.drbd_version) for image in known})
    for image in known:
        report.WarnIf(
            len(versions) > 1,
            "ENODEDRBDVERSION",
            NODE,
            image.node.name,
            f"DRBD version mismatch: {image.drbd_version} here, the nodes of the group have {' and '.join(versions)};"
            " install the same version on all of them",
        )
