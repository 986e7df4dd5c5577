"""What ``WaitForEvents`` answers: the words that the master daemon and its clients share.

An event is a dictionary with ``id`` (``EPOCH-SEQUENCE``), ``time``, ``kind`` and ``change``, and

* for a job: ``job`` (its number), ``status``, ``opstatus`` and ``summary`` of its first opcodes, ``opcodes`` (how many it has);
* for any other object: ``uuid``, ``name`` and ``serial_no``, null where the object has none.

It says what became visible, and never values of parameters: who wants them asks for the object.
"""

from __future__ import annotations

from typing import Any, Final

JOB: Final = "job"
KINDS: Final = ("job", "instance", "node", "group", "network", "cluster", "filter", "disk")
"""``disk``: one that belongs to no instance; a change of any other is one of its instance."""

ADDED: Final = "added"
CHANGED: Final = "changed"
REMOVED: Final = "removed"  # of a job: it was moved to the archive

MAX_SHOWN_OPCODES: Final = 100
"""Of a job with more opcodes, status and summary of the first ones are shown."""

MAX_ID: Final = 80
"""Characters of an id that a client sends; a longer one is none of ours."""

Event = dict[str, Any]
