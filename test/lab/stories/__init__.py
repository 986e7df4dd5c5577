"""The stories of the laboratory: each takes a ``Stage`` and leaves it as it was.

``plain``: logical volumes; ``mirror``: DRBD.  A story begins with a name that says what happens, and ends with what
must be true: no acknowledged write is lost, no mirror is primary on two nodes, nothing is left behind.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from lab.stage import Stage

Story = Callable[[Stage], None]
_MODULES = ("plain",)


def All() -> dict[str, Story]:
    """Return every story by its name, in the order in which they stand in their modules."""
    found: dict[str, Story] = {}
    for name in _MODULES:
        module = importlib.import_module(f"lab.stories.{name}")
        found.update({key: value for key, value in vars(module).items() if key.startswith(f"{name}_")})
    return found
