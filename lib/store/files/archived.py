"""Rows of archived jobs, which are deleted once every voter has synced their files (rule 10)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ganeti.store.base import KIND_ARCHIVED, Row
from ganeti.store.commit.peers import Peer, Transaction
from ganeti.store.copy.image import Image


class ArchivedRows:
    """The archived rows that are still there, and from which seq on their files show them.

    ``exported``: seq that all files of the own node show.
    """

    def __init__(self, image: Image):
        values, seqs = image.values.get(KIND_ARCHIVED, {}), image.seqs.get(KIND_ARCHIVED, {})
        self._seqs = {row_id: seqs[row_id] for row_id in values}
        self.exported = 0

    def __bool__(self) -> bool:
        return bool(self._seqs)

    def Note(self, transaction: Transaction) -> None:
        """Record the archived jobs of an acknowledged transaction."""
        for row in transaction.rows:
            if row.kind != KIND_ARCHIVED:
                continue
            if row.value is None:
                self._seqs.pop(row.id, None)
            else:
                self._seqs[row.id] = transaction.position.seq

    def Synced(self, uuids: Iterable[str], peers: Mapping[str, Peer]) -> list[Row]:
        """Return the deletions of those whose files the own node and these others have written."""
        synced = self.exported
        for uuid in uuids:
            peer = peers.get(uuid)
            synced = min(synced, peer.exported if peer is not None and not peer.unfit else 0)
        return [Row(KIND_ARCHIVED, row_id, None) for row_id, seq in self._seqs.items() if seq <= synced]
