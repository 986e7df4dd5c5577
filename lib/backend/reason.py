"""Why an instance is in the state it is in: the trail of the last change (RUN/instance-reason)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ganeti import errors, pathutils, runtime, serializer
from ganeti.hypervisor import names

_SOURCE = "gnt:daemon:noded"
Trail = Sequence[Sequence[Any]]


def Store(instance_name: str, trail: Trail, action: str) -> None:
    """Store ``trail`` with this node as its last entry.  A failure is logged: the change itself was made."""
    entry = [f"{_SOURCE}:{action}", "", int(runtime.Time() * 1_000_000_000)]
    try:
        path = pathutils.InstanceReasonFile(names.CheckInstanceName(instance_name))
        runtime.WriteFile(path, serializer.DumpBytes([*trail, entry]), mode=0o644, sync=False)
    except (OSError, errors.GenericError) as err:
        logging.warning("Cannot keep the reason trail of instance %s: %s", instance_name, err)
