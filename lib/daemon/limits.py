"""Limits of a process."""

from __future__ import annotations

import logging
import resource


def RaiseDescriptorLimit() -> int:
    """Allow as many descriptors as the administrator does; the usual soft limit is too low for connections to many nodes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as err:
        logging.warning("This process may open %d files only, more are not allowed: %s", soft, err)
        return soft
    return hard
