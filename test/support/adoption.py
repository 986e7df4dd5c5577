"""What a node of the original reports to adopt."""

from __future__ import annotations

from typing import Any

from ganeti import constants


def Report(**changed: Any) -> dict[str, Any]:
    report = {
        "version": "3.0.2", "broken": None, "ours": constants.RELEASE_VERSION, "over": False, "lacking": None, "boot": [],
        "daemons": {"ganeti-noded": "original"}, "differences": [], "boot_missing": [], "boot_others": [], "data": 10, "backup_free": 5000, "free": 5000, "store": False,
        "record": False, "time": 1700000000.0,
    }  # fmt: skip
    return {**report, **changed}
