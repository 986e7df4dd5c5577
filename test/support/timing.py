"""How long a comparison takes must not tell the secret: whether it was made by the function that is meant for it."""

from __future__ import annotations

import hmac
from typing import Any

import pytest


class Compared:
    """Notes how long what is compared with ``hmac.compare_digest`` is, which does what it always does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self._lengths: list[int] = []
        compare = hmac.compare_digest

        def note(given: Any, wanted: Any) -> bool:
            self._lengths.append(len(wanted))
            return compare(given, wanted)

        monkeypatch.setattr(hmac, "compare_digest", note)

    def Take(self) -> list[int]:
        """The comparisons since the last call."""
        found, self._lengths = self._lengths, []
        return found
