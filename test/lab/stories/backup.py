"""Stories of disks that travel: exports, imports, moves."""

from __future__ import annotations

from lab.stage import GROUP, Stage

# Without an operating system the disks are sent as they are, and a new instance is not started.
_RAW = ("--no-install",)


def backup_of_a_running_mirror(stage: Stage) -> None:
    """A guest is exported while it writes; what was acknowledged before is in the export, and comes back as a plain disk."""
    first = stage.random.choice(stage.cluster.nodes)
    second = stage.Other(first)
    with stage.Instance("drbd", first, second, options=_RAW) as name:
        stage.Gnt("instance", "startup", name)
        with stage.Writing(name, first) as writer:
            writer.WaitFor(200)
            before = writer.Reports()
            stage.Gnt("backup", "export", "-n", second.name, "--noshutdown", name)
            writer.WaitFor()
        stage.CheckAgreement()
        stage.Gnt("instance", "remove", "-f", name)
        assert stage.Gnt("backup", "list", "-n", second.name, "--no-headers", "-o", "export").split() == [name]
        words = ["--src-node", second.name, "-n", first.name, "-t", "plain", "-B", "memory=64"]
        stage.Gnt("backup", "import", *words, name)
        stage.Gnt("instance", "startup", name)
        count = writer.Check(first, before)
        stage.say(f"         {count} writes, acknowledged before the export, are on {first.name}")
        stage.Gnt("backup", "remove", name)
        assert name not in stage.Gnt("backup", "list", "-n", second.name, "--no-headers", "-o", "export").split()


def backup_move(stage: Stage) -> None:
    """A plain instance moves to the other node and back while its guest writes; every acknowledged write goes with it."""
    first = stage.random.choice(stage.cluster.nodes)
    second = stage.Other(first)
    with stage.Instance("plain", first, disks=2, options=_RAW) as name:
        stage.Gnt("instance", "startup", name)
        with stage.Writing(name, first) as writer:
            for target in (second, first):
                stage.Gnt("instance", "move", "-f", "-n", target.name, name)
                writer.WaitFor()
                assert len(target.Volumes()) == 2 and not stage.Other(target).Volumes()
                stage.CheckAgreement()


def backup_move_without_target(stage: Stage) -> None:
    """The target of a move loses its power in the middle; the instance runs where it was, with all its writes."""
    first = stage.cluster.master
    second = stage.Other(first)
    with stage.Instance("plain", first, size=256, options=_RAW) as name:
        stage.Gnt("instance", "startup", name)
        with stage.Writing(name, first) as writer:
            stage.Gnt("instance", "move", "-f", "--submit", "-n", second.name, name)
            first.Shell("until ls /run/ganeti/import-export/export-* >/dev/null 2>&1; do sleep 0.1; done", seconds=120)
            stage.PowerOff(second)
            stage.PowerOn(second, writer)
            first.Shell(f"until [ -e /run/ganeti/fake-hypervisor/{name} ]; do sleep 0.2; done", seconds=300)
            writer.WaitFor()
            assert stage.Primary(name) is first
        for volume in second.Volumes():
            second.Run("lvremove", "-q", "-f", f"{GROUP}/{volume}", check=False)
