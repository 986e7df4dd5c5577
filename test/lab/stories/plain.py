"""Stories of logical volumes."""

from __future__ import annotations

from lab.stage import GROUP, Stage


def plain_life(stage: Stage) -> None:
    """An instance is made, stopped, started, gets a second disk and is removed."""
    node = stage.random.choice(stage.cluster.nodes)
    with stage.Instance("plain", node, disks=2) as name:
        assert len(node.Volumes()) == 2
        with stage.Writing(name, node) as writer:
            stage.Gnt("instance", "shutdown", name)
            stage.Gnt("instance", "startup", name)
            writer.WaitFor()
        stage.Gnt("instance", "shutdown", name)
        stage.Gnt("instance", "modify", "--disk", "add:size=32m", name)
        stage.Gnt("instance", "startup", name)
        stage.CheckAgreement()


def plain_grow(stage: Stage) -> None:
    """A disk grows while its guest writes; the new part is written too."""
    node = stage.random.choice(stage.cluster.nodes)
    with stage.Instance("plain", node) as name:
        with stage.Writing(name, node) as writer:
            stage.Gnt("instance", "grow-disk", name, "0", "64m")
            writer.WaitFor(1100)
        size = int(node.Run("blockdev", "--getsize64", f"/run/ganeti/instance-disks/{name}:0").stdout)
        assert size == 128 << 20
        assert stage.Gnt("instance", "list", "--no-headers", "-o", "disk.sizes", name).split() == ["128"]


def plain_power_cut(stage: Stage) -> None:
    """The node of an instance loses its power while the guest writes, and comes back."""
    node = stage.cluster.nodes[-1]
    with stage.Instance("plain", node) as name:
        with stage.Writing(name, node) as writer:
            stage.PowerOff(node)
            assert any(node.name in line for line in stage.Verify())
            stage.PowerOn(node, writer)
            stage.Gnt("instance", "startup", name)
            writer.WaitFor()


def plain_power_cut_of_the_master(stage: Stage) -> None:
    """The master loses its power while it grows a disk; the disk has one of the two sizes afterwards."""
    node = stage.cluster.master
    with stage.Instance("plain", node) as name:
        with stage.Writing(name, node) as writer:
            stage.Gnt("instance", "grow-disk", "--submit", name, "0", "64m")
            stage.PowerOff(node)
            stage.PowerOn(node, writer)
            stage.Gnt("instance", "startup", name)
            writer.WaitFor()
        stage.Gnt("cluster", "repair-disk-sizes")
        size = int(node.Run("blockdev", "--getsize64", f"/run/ganeti/instance-disks/{name}:0").stdout) >> 20
        assert stage.Gnt("instance", "list", "--no-headers", "-o", "disk.sizes", name).split() == [str(size)]


def plain_lost_volume(stage: Stage) -> None:
    """A volume is gone: verify names it, and it is made again."""
    node = stage.random.choice(stage.cluster.nodes)
    with stage.Instance("plain", node) as name:
        stage.Gnt("instance", "shutdown", name)
        [volume] = node.Volumes()
        node.Run("lvremove", "-q", "-f", f"{GROUP}/{volume}")
        assert any(name in line for line in stage.Verify())
        stage.Gnt("instance", "recreate-disks", name)
        stage.Gnt("instance", "startup", name)
        stage.CheckAgreement()


def plain_stranger(stage: Stage) -> None:
    """A volume that nobody knows is reported and left alone."""
    node = stage.random.choice(stage.cluster.nodes)
    node.Run("lvcreate", "-q", "-y", "-L", "8m", "-n", "stranger", GROUP)
    try:
        assert any("stranger" in line for line in stage.Verify())
    finally:
        node.Run("lvremove", "-q", "-f", f"{GROUP}/stranger")
    stage.CheckAgreement()
