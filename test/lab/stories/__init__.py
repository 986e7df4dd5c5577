"""The stories of the laboratory: each takes a ``Stage`` and leaves it as it was; those of ``setup`` take a ``Teller``.

``plain``: logical volumes; ``mirror``: DRBD; ``group``: volume groups that lose a disk; ``backup``: disks that travel; ``interrupted``: procedures that
are cut off; ``nested``: a guest in QEMU in the node; ``setup``: machines that become a cluster, each time new ones.  A story begins with a name that says what
happens, and ends with what must be true: no acknowledged write is lost, no mirror is primary on two nodes, nothing is left
behind.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

Story = Callable[[Any], None]
_MODULES = ("plain", "mirror", "group", "backup", "interrupted", "nested", "setup")


def NodesFor(story: Story) -> int:
    """Return how many nodes the story needs: 2, or what ``@Needs`` says."""
    return int(getattr(story, "nodes", 2))


def OnSite(story: Story) -> Story:
    """Mark a story that begins with three machines that are in no cluster (``lab.site``)."""
    vars(story).update(nodes=3, site=True)
    return story


def IsOnSite(story: Story) -> bool:
    return bool(getattr(story, "site", False))


def Needs(nodes: int) -> Callable[[Story], Story]:
    """Mark a story that needs more than two nodes."""

    def mark(story: Story) -> Story:
        vars(story)["nodes"] = nodes
        return story

    return mark


def All() -> dict[str, Story]:
    """Return every story by its name, in the order in which they stand in their modules."""
    found: dict[str, Story] = {}
    for name in _MODULES:
        module = importlib.import_module(f"lab.stories.{name}")
        found.update({key: value for key, value in vars(module).items() if key.startswith(f"{name}_")})
    return found
