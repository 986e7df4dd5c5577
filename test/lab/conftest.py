"""What tests of the laboratory need of this machine."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support import ownshell

from lab.files import Lack


@pytest.fixture(scope="session")
def need() -> Callable[[int], None]:
    """Skip the test unless this many nodes can run here.

    On a machine of CI, where the laboratory is promised, it fails instead.
    """

    def need_nodes(nodes: int) -> None:
        if lack := Lack(nodes):
            give_up = pytest.fail if ownshell.CI else pytest.skip
            give_up(f"the laboratory cannot run here: {lack}")

    return need_nodes
