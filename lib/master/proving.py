"""Queries about what the cluster can bear: worked out one after the other, and once for all that ask at about the same time.

Such a query keeps a processor of the master busy, for seconds in a large cluster.  So however many clients ask, there is one
thread, and a client that asks again and again gets what was worked out before.
"""

from __future__ import annotations

import collections
import logging
from collections.abc import Callable, Mapping
from typing import Any

from ganeti import errors, objects, runtime
from ganeti.query.context import Context, ProofView

Prove = Callable[[objects.Snapshot, Mapping[str, Any], Mapping[str, Any]], ProofView | None]

MOST_WAITING = 100
"""Queries that wait; one more is refused."""
FRESH_SECONDS = 5.0
"""How long what was worked out is given to others that ask; a change of the configuration ends it at once."""

# answer() makes and delivers an answer, refuse(error) delivers an error.
_Query = tuple[Callable[[], None], Callable[[Exception], None]]


class Prover:
    """Runs queries on a thread of its own, which exists while there are any."""

    def __init__(self, prove: Prove):
        """``prove``: makes a proof of what nodes answered to node_info and all_instances_info, by their uuids."""
        self._prove = prove
        self._lock = runtime.Lock()
        self._waiting: collections.deque[_Query] = collections.deque()
        self._working = False
        # The last proof, with its configuration and the time until which it is fresh; the working thread's own.
        self._last: tuple[objects.Snapshot, float, ProofView | None] | None = None

    def Add(self, answer: Callable[[], None], refuse: Callable[[Exception], None]) -> None:
        """Run ``answer`` in its turn, or ``refuse`` at once."""
        with self._lock:
            full = len(self._waiting) >= MOST_WAITING
            start = not self._working and not full
            if not full:
                self._waiting.append((answer, refuse))
                self._working = True
        if full:
            refuse(
                errors.OpPrereqError(
                    f"{MOST_WAITING} queries about what the cluster can bear wait already; ask again in a minute",
                    errors.ECODE_TEMP_NORES,
                )
            )
        elif start:
            try:
                runtime.Thread(self._Work, "Proof").start()
            except RuntimeError as err:
                self._RefuseAll(err)

    def _RefuseAll(self, reason: RuntimeError) -> None:
        logging.error("No thread can be started for queries about what the cluster can bear: %s", reason)
        with self._lock:
            queries, self._waiting = self._waiting, collections.deque()
            self._working = False
        for _, refuse in queries:
            refuse(errors.OpExecError(f"The master daemon cannot start a thread ({reason}); ask again in a minute"))

    def _Work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._working = False
                    return
                answer, _ = self._waiting.popleft()
            try:
                answer()
            except Exception:
                logging.exception("The answer to a query about what the cluster can bear was not delivered")

    def ProofFor(self, context: Context) -> ProofView | None:
        """Return the proof for a query, on the working thread only."""
        now = runtime.Monotonic()
        if self._last is not None:
            snapshot, end, proof = self._last
            if snapshot is context.snapshot and now < end:
                return proof
        proof = self._prove(context.snapshot, context.node_info, context.instance_info)
        self._last = (context.snapshot, runtime.Monotonic() + FRESH_SECONDS, proof)
        return proof
