"""A plain HTTPS client for the real REST daemon: what a script with curl does."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any

from ganeti import constants
from support.patience import MOST, Deadline
from support.rapi import Basic, Reply
from support.realcluster import RealNode

WRITER = Basic("writer", "secret-of-writer")
READER = Basic("reader", "secret-of-reader")
_TIMEOUT = 50 * MOST
# No job has as many log entries: only a change of the status counts.
_ANY_LOG = 10**9
FINAL = ("success", "error", "canceled")


class Rapi:
    """One kept-alive connection to a node's REST daemon."""

    def __init__(self, node: RealNode, headers: dict[str, str] | None = None, tls: bool = True):
        self._headers = WRITER if headers is None else headers
        self._connection = (
            self._Connection(node)
            if tls
            else http.client.HTTPConnection(node.address, constants.DEFAULT_RAPI_PORT, timeout=_TIMEOUT)
        )

    @staticmethod
    def _Connection(node: RealNode) -> http.client.HTTPSConnection:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return http.client.HTTPSConnection(node.address, constants.DEFAULT_RAPI_PORT, timeout=_TIMEOUT, context=context)

    def __enter__(self) -> Rapi:
        return self

    def __exit__(self, *exc: object) -> None:
        self.Close()

    def Close(self) -> None:
        self._connection.close()

    def Ask(self, verb: str, target: str, body: Any = b"", headers: dict[str, str] | None = None) -> Reply:
        """``body``: bytes as they are, anything else as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {**self._headers, **({"Content-Type": "application/json"} if data else {}), **(headers or {})}
        self._connection.request(verb, target, data or None, given)
        answer = self._connection.getresponse()
        return Reply(answer.status, {n.lower(): v for n, v in answer.getheaders()}, answer.read())

    def Get(self, target: str) -> Any:
        reply = self.Ask("GET", target)
        assert reply.status == 200, reply.body
        return reply.value

    def Follow(self, job: int) -> dict[str, Any]:
        """Wait for a job as scripts do; return what is known of it then."""
        deadline = Deadline(30)
        seen: list[Any] | None = None
        while not deadline.Passed():
            body = {"fields": ["status"], "previous_job_info": seen, "previous_log_serial": _ANY_LOG}
            reply = self.Ask("GET", f"/2/jobs/{job}/wait", body)
            assert reply.status == 200, reply.body
            seen = reply.value["job_info"]
            if seen and seen[0] in FINAL:
                shown: dict[str, Any] = self.Get(f"/2/jobs/{job}")
                return shown
        raise AssertionError(f"job {job} did not end: {self.Get(f'/2/jobs/{job}')}")

    def Do(self, verb: str, target: str, body: Any = b"") -> dict[str, Any]:
        """Send a request for a job; return the job, which succeeded."""
        reply = self.Ask(verb, target, body)
        assert reply.status == 200, reply.body
        job = self.Follow(int(reply.body.removesuffix(b"\n")))
        assert job["status"] == "success", job["opresult"]
        return job
