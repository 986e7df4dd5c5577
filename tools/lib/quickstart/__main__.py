"""python -m quickstart BASE NODES INSTANCES HYPERVISOR: what tools/quickstart starts once it has installed us."""

from __future__ import annotations

import posixpath
import sys
from typing import Any

from ganeti import _autoconf, errors, runtime, serializer
from quickstart import machine
from quickstart.cluster import Cluster
from quickstart.place import DEFAULT_BASE, Place
from quickstart.progress import QuickstartError, Say, Step


def NoteState(base: str, **more: Any) -> None:
    """Add to what tools/quickstart reads at --env, --replace and --stop."""
    path = f"{base}/quickstart.json"
    state = {**serializer.Load(runtime.ReadText(path)), **more}
    runtime.WriteFile(path, serializer.Dump(state, pretty=True), mode=0o644)


def Prepare(base: str, count: int, hypervisor: str) -> tuple[Place, str]:
    """Prepare everything that needs no cluster; return where it is and how guests are run."""
    with Step("choosing addresses and making directories"):
        place = machine.FindPlace(base, count)
        machine.MakeDirectories(place)
        machine.MakeRapiUser(place)
        NoteState(base, nodes=place.nodes)
    with Step(f"making bridge {place.bridge}, without an address"):
        machine.MakeBridge(place.bridge)
    if hypervisor != "kvm":
        return place, ""
    with Step("making a guest: Debian's kernel and a busybox"):
        machine.PrepareGuest(place, posixpath.join(_autoconf.SHARE_DIR, "os", "mini", "make-files"))
    with Step("booting it to find out whether KVM works here"):
        accel = machine.PickAccelerator(place)
    Say(f"  guests run with {'KVM' if accel == 'kvm' else 'software emulation, because no guest boots with KVM here'}")
    if not runtime.Exists(machine.VHOST_DEVICE):
        Say(f"  {machine.VHOST_DEVICE} is missing: NICs of guests do not use vhost")
    return place, accel


def MakeCluster(cluster: Cluster) -> None:
    master, *others = cluster.place.nodes
    with Step(f"gnt-cluster init on {master}, {cluster.place.Address(master)}"):
        cluster.Init()
    for node in others:
        with Step(f"gnt-node add {node}, {cluster.place.Address(node)}"):
            cluster.AddNode(node)


def MakeInstances(cluster: Cluster, count: int) -> None:
    for number in range(1, count + 1):
        name, node = cluster.place.Instance(number), cluster.place.NodeOf(number)
        with Step(f"gnt-instance add {name} on {node} ({number} of {count})"):
            cluster.AddInstance(number)
            if cluster.hypervisor != "kvm":
                cluster.StartInstance(number)


def ShowMigration(cluster: Cluster) -> None:
    """Move the first instance while it runs, and prove that it never stopped."""
    place, name = cluster.place, cluster.place.Instance(1)
    before = None
    if cluster.hypervisor == "kvm":
        with Step(f"waiting until {name} answers on its serial console"):
            before = cluster.Ask(1)
        Say(f"  boot-id {before.boot_id}, up for {before.uptime:.0f} s")
    if place.count < 2:
        return
    target = place.nodes[1]
    with Step(f"gnt-instance migrate {name} to {target}"):
        cluster.Migrate(1, target)
    if before is not None:
        with Step("asking it again on the other node"):
            after = cluster.Ask(1)
        Say(f"  boot-id {after.boot_id}, up for {after.uptime:.0f} s")
        if after.boot_id != before.boot_id or after.uptime <= before.uptime:
            raise QuickstartError(f"{name} was restarted instead of moved: {before} became {after}")
    found = cluster.PrimaryOf(1)
    if found != target:
        raise QuickstartError(f"{name} should be on {target} now, but the cluster reports {found or 'no node'}")


# The devices of DRBD belong to the kernel, and every node numbers its own from 0.
ABOUT_MIRRORS = """Mirrored disks (DRBD) are not shown here: they need a kernel for each node, and these nodes share one.
'test/lab/run --keep' makes virtual machines as nodes, with real volume groups and mirrors."""


def AboutGuests(place: Place) -> str:
    """Return what an instance of the OS ``mini`` needs, from whomever it is made."""
    return (
        f"A further instance of the OS mini needs the OS parameter files={place.guest_files}: with gnt-instance add -O, and in a"
        f' request to the remote interface as "osparams": {{"files": "{place.guest_files}"}}.'
    )


def NextCommands(cluster: Cluster, instances: int) -> list[str]:
    options = "" if cluster.place.base == DEFAULT_BASE else f" --base {cluster.place.base}"
    commands = [f'eval "$(tools/quickstart --env{options})"']
    if instances and cluster.hypervisor == "kvm":
        commands.append(f"gnt-instance console {cluster.place.Instance(1)}    # Ctrl-] ends it")
    else:
        commands.append("gnt-cluster info")
    # The certificate is the cluster's own and knows no address.
    commands.append(
        f"curl -k -K {machine.RapiLogin(cluster.place)} {cluster.place.RapiUrl('/2/features')}    # see doc/rapi.rst"
    )
    return [*commands, f"tools/quickstart --stop{options}"]


def MakeAll(base: str, nodes: int, instances: int, hypervisor: str) -> None:
    started = runtime.Monotonic()
    Say("The machine")
    place, accel = Prepare(base, nodes, hypervisor)
    cluster = Cluster(place, hypervisor, accel)
    Say("The cluster")
    MakeCluster(cluster)
    if instances:
        Say("Instances")
        MakeInstances(cluster, instances)
        ShowMigration(cluster)
    with Step("gnt-cluster verify"):
        cluster.Verify()
    NoteState(base, ready=True)
    Say(f"\nReady after {runtime.Monotonic() - started:.0f} s.\n")
    Say(cluster.Tables())
    if cluster.hypervisor == "kvm":
        Say(AboutGuests(place))
    Say(f"{ABOUT_MIRRORS}\n\nNext:")
    for command in NextCommands(cluster, instances):
        Say(f"  {command}")


def Main(argv: list[str]) -> int:
    if len(argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    base, nodes, instances, hypervisor = argv
    try:
        MakeAll(base, int(nodes), int(instances), hypervisor)
    except errors.GenericError as err:
        Say(f"\nThis failed: {err}")
        if err.hint:
            Say(f"  {err.hint}")
        Say(
            f"Logs: {base}/quickstart.log, {base}/node*/var/log/ganeti/.  tools/quickstart --stop removes what was made."
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(Main(sys.argv[1:]))
