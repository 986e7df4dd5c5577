"""Requests as the Python library of RAPI sends them, and the copies of it in other programs (doc/reference/rapi.md 9.1)."""

from __future__ import annotations

import json
from typing import Any

from support.rapi import Reply
from support.rapihttp import Rapi


class Library(Rapi):
    """Every request has the headers of JSON, also one without a body, which has no bytes; keys of bodies are sorted."""

    def Ask(self, verb: str, target: str, body: Any = b"", headers: dict[str, str] | None = None) -> Reply:
        data = body if isinstance(body, bytes) else json.dumps(body, sort_keys=True).encode()
        sent = {"Accept": "application/json", "Content-Type": "application/json", "User-Agent": "Ganeti RAPI Client"}
        if not data:
            sent["Content-Length"] = "0"
        return super().Ask(verb, target, data, {**sent, **(headers or {})})

    def Create(self, body: dict[str, Any], query: str = "") -> dict[str, Any]:
        """``CreateInstance``: looks whether the server can do it, and sends version 1 of the body."""
        assert "instance-create-reqv1" in self.Get("/2/features")
        return self.Do("POST", f"/2/instances{query}", {"mode": "create", **body, "__version__": 1})
