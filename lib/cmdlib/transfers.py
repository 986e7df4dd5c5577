"""The master's side of disks that travel between machines (doc/design-transfers.rst)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ganeti.cmdlib.base import Feedback, LogicalUnit

if TYPE_CHECKING:
    from ganeti import objects

# What the node's procedures take as IO (doc/reference/noderpc.md 3.1): ("file", path) below the export directory,
# ("raw", (disk, instance)) or ("script", ((disk, instance), index)), the disk being set up on the node.
End = tuple[str, Any]


@dataclasses.dataclass(frozen=True)
class DiskTransfer:
    """One disk's way from a source on one node to a target on another.

    ``component`` names it in files and messages (``disk0``).  ``read`` is called once when nothing reads the source any longer,
    whatever has become of it: a snapshot may go then.
    """

    component: str
    source: End
    target: End
    read: Callable[[], None] = lambda: None


def TransferDisks(
    lu: LogicalUnit,
    feedback: Feedback,
    instance: objects.Instance,
    source_uuid: str,
    target_uuid: str,
    transfers: Sequence[DiskTransfer],
    compress: str,
) -> list[str | None]:
    """Send all disks at the same time; return for each None or what went wrong.

    Never raises for a transfer that fails.  When it returns, no program of it runs on either node as far as these answer.
    """
    raise NotImplementedError
