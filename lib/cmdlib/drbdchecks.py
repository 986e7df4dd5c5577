"""What a node's DRBD module must be like, judged by what the node reports (doc/reference/drivers.md c.3)."""

from __future__ import annotations


def HelperProblem(found: str, wanted: str) -> str | None:
    """Return what is wrong with the program that a node's module calls, and how it is set there."""
    if found == wanted:
        return None
    return (
        f"the DRBD usermode helper is {found}, not {wanted}: DRBD would call a wrong program; set it there with"
        f" 'echo {wanted} > /sys/module/drbd/parameters/usermode_helper' and in the options of the module"
    )
