"""What is shown of the machine itself."""

from __future__ import annotations

import platform
import sys
from typing import Any

from ganeti.query.cluster import Architecture


def test_the_architecture_is_known_without_running_a_program() -> None:
    """Every GET /2/info asks for it."""
    started: list[Any] = []
    watching = True

    def hear(event: str, args: tuple[Any, ...]) -> None:
        if watching and event == "subprocess.Popen":
            started.append(args)

    expected = [platform.architecture()[0].replace("bit", "bits"), platform.machine()]
    sys.addaudithook(hear)
    found = Architecture()
    watching = False
    assert found == expected
    assert started == []
