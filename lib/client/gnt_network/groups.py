"""The node groups that a command connects to a network, or disconnects from it."""

from __future__ import annotations

from collections.abc import Sequence

from ganeti.cli import jobs
from ganeti.client.shared.rows import QueryRows


def Chosen(names: Sequence[str]) -> list[str]:
    """Return the groups that arguments name, without any the UUIDs of all."""
    return list(names) or [row["uuid"] for row in QueryRows(jobs.GetClient(), "group", ["uuid"])]
