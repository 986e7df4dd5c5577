"""Stories of a guest in QEMU inside of a node: it runs, moves and writes as guests of a cluster do, only slower."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from lab.cluster import OS_OF_WRITER
from lab.files import GUEST_DISK_MIB
from lab.stage import Stage
from lab.stories.mirror import CheckOnePrimary, LosePrimary, WaitForSync
from lab.writes import NestedWriter

# The BIOS does not flush: a write is on both sides when it is acknowledged only if the node does not cache it.  The guest
# does not listen to requests to power off.
_PARAMETERS = "kvm:kvm_flag=disabled,kernel_path=,disk_cache=none,acpi=false,vga=none"


@contextlib.contextmanager
def _Kvm(stage: Stage) -> Iterator[None]:
    stage.Gnt("cluster", "modify", "--enabled-hypervisors", "fake,kvm", "-H", _PARAMETERS)
    yield
    stage.Gnt("cluster", "modify", "--enabled-hypervisors", "fake")


def nested_guest(stage: Stage) -> None:
    """A guest in QEMU migrates while it writes to its mirror; then its node dies, and it fails over."""
    first, second = stage.cluster.nodes[:2]
    options = "-o", OS_OF_WRITER, "-H", "kvm"
    with _Kvm(stage), stage.Instance("drbd", first, second, size=GUEST_DISK_MIB, options=options) as name:
        WaitForSync(stage, name)
        with stage.Writing(name, second, NestedWriter) as writer:
            stage.Gnt("instance", "migrate", "-f", name)
            assert stage.Primary(name) is second
            CheckOnePrimary(stage, name)
            writer.WaitFor()
            assert writer.Writers() == {1}, "the guest was started again where it should have moved"
            LosePrimary(stage, name, second, writer)
            assert writer.Writers() == {1, 2, 3}
