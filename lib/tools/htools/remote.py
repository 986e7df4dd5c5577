"""The job queue of a cluster that is reached over RAPI (doc/compatibility.rst, "hbal -m -X").

RAPI has a resource for each step of a move, and none for a job with several opcodes.  So each opcode becomes a job that
depends on the success of the one before it; 3.1's RAPI takes all that is sent here.
"""

from __future__ import annotations

import contextlib
import signal
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from ganeti import constants, runtime
from ganeti.htools.options import Values
from ganeti.http import fetch
from ganeti.rapi.client import CertificateError, GanetiApiError, GanetiRapiClient, GenericCurlConfig
from ganeti.tools.htools import sources
from ganeti.tools.htools.execution import Opcode, QueueFailed
from ganeti.tools.htools.output import Failed, Streams
from ganeti.utils.text import TryingAgain

PATIENCE: Final = 60.0
"""Seconds in which a server that stopped answering may come back, such as after a fail-over of the master."""
_CONNECT_TIMEOUT, _TIMEOUT = 15, 60
_PAUSE = 1.0
_NOT_FOUND = 404
_RESOURCES: Final = {
    "OP_INSTANCE_MIGRATE": ("PUT", "migrate"),
    "OP_INSTANCE_FAILOVER": ("PUT", "failover"),
    "OP_INSTANCE_REPLACE_DISKS": ("POST", "replace-disks"),
}
# What stands in the path, or what the server sets itself.
_NOT_IN_BODY = frozenset(["OP_ID", "instance_name", "reason", "depends"])
# The next job would meet these, too: no login, no permission, too many requests.
_FOR_ALL = frozenset([401, 403, 429])
_CURL_CODES = 100  # below it, there was no answer
# curl's numbers for what fails before a request is sent: no such host, no connection, no TLS, a certificate not accepted.
_NEVER_SENT = frozenset([5, 6, 7, 35, 58, 59, 60, 77, 90])

Value = TypeVar("Value")


def Open(options: Values, reason: str, streams: Streams) -> RapiQueue:
    """Return the queue of the cluster that ``-m`` names; nothing is sent yet.  Raises Failed."""
    parts = urllib.parse.urlsplit(sources.BaseUrl(options.master))
    try:
        port = parts.port
    except ValueError as err:
        raise Failed(f"{options.master}: {err}") from err
    if parts.scheme != "https" or not parts.hostname or parts.path.strip("/"):
        raise Failed(
            "hbal: jobs are submitted over https:// only; give -m HOST, or https://HOST:PORT without a path behind it"
        )
    access = sources.AccessOf(options)
    login = access.login
    if parts.username is not None:
        if access.login or access.token:
            raise Failed("The address of -m has a user and --credentials has one, too; leave one of them out")
        login = (urllib.parse.unquote(parts.username), urllib.parse.unquote(parts.password or ""))
    limits = GenericCurlConfig(proxy="", connect_timeout=_CONNECT_TIMEOUT, timeout=_TIMEOUT)

    def configure(curl: Any, logger: Any) -> None:
        limits(curl, logger)
        fetch.SetTrust(curl, access)

    client = GanetiRapiClient(
        parts.hostname,
        constants.DEFAULT_RAPI_PORT if port is None else port,
        username=login and login[0],
        password=login and login[1],
        token=access.token,
        curl_config_fn=configure,
    )
    return RapiQueue(client, reason, streams)


@contextlib.contextmanager
def _Whole() -> Iterator[None]:
    """Let SIGTERM wait until all jobs of a move are submitted, so that none is cut in two."""
    came: list[int] = []
    handler = signal.signal(signal.SIGTERM, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)
        if came:
            signal.raise_signal(signal.SIGTERM)


class RapiQueue:
    """Submits the opcodes of a move one by one, and looks at jobs one by one."""

    def __init__(self, client: GanetiRapiClient, reason: str, streams: Streams, patience: float = PATIENCE):
        self._client = client
        self._reason = reason
        self._streams = streams
        self._patience = patience

    # --- submitting ---------------------------------------------------------------------------------------------------

    def Submit(self, jobs: Sequence[Sequence[Opcode]]) -> tuple[list[int], list[str]]:
        """Submit a chain of jobs for each job; return all ids, and what was not submitted, and why.

        No request is sent twice: an answer that was lost may be one that said yes.
        """
        ids: list[int] = []
        refused: list[str] = []
        for place, opcodes in enumerate(jobs):
            with _Whole():
                sent, problem, hopeless = self._SubmitChain(opcodes)
            ids += sent
            if problem:
                refused.append(problem)
            if hopeless:
                refused += [f"{job[0]['instance_name']}: not submitted" for job in jobs[place + 1 :]]
                break
        return ids, refused

    def _SubmitChain(self, opcodes: Sequence[Opcode]) -> tuple[list[int], str, bool]:
        """Submit the opcodes of a job; return ids, what went wrong or "", and whether the next job would fail, too."""
        ids: list[int] = []
        for opcode in opcodes:
            try:
                ids.append(self._SubmitOne(opcode, ids[-1:]))
            except GanetiApiError as err:
                code = err.code or 0
                before = f" (it would have followed job {ids[-1]})" if ids else ""
                verb = _RESOURCES[opcode["OP_ID"]][1]
                doubt = "" if _SurelyNot(code) else "; it may have been submitted, see 'gnt-job list'"
                text = f"{opcode['instance_name']}: {verb}{before}: {err}{doubt}"
                return ids, text, code in _FOR_ALL or not _IsRejection(code)
        return ids, "", False

    def _SubmitOne(self, opcode: Opcode, after: Sequence[int]) -> int:
        method, word = _RESOURCES[opcode["OP_ID"]]
        body = {key: value for key, value in opcode.items() if key not in _NOT_IN_BODY}
        if after:
            body["depends"] = [[number, [constants.JOB_STATUS_SUCCESS]] for number in after]
        path = ("instances", opcode["instance_name"], word)
        number = _Checked(lambda: self._client.Request(method, path, body, self._reason))
        if not isinstance(number, int):
            raise GanetiApiError(f"The answer is not the number of a job: {str(number)[:100]!r}")
        return number

    # --- waiting ------------------------------------------------------------------------------------------------------

    def States(self, ids: Sequence[int]) -> list[tuple[int, str | None]]:
        return [(number, self._State(number)) for number in ids]

    def _State(self, number: int) -> str | None:
        try:
            shown = self._Patiently(lambda: self._client.GetJobStatus(number))
        except GanetiApiError as err:
            if err.code == _NOT_FOUND:
                return None
            raise QueueFailed(f"Job {number} cannot be looked at: {err}") from err
        if not isinstance(shown, dict) or not isinstance(shown.get("status"), str):
            raise QueueFailed(f"Job {number} cannot be looked at: the answer has no status")
        return str(shown["status"])

    def _Patiently(self, read: Callable[[], Value]) -> Value:
        """Return what is read, as soon as the server answers; raises GanetiApiError."""
        deadline = None
        while True:
            try:
                return _Checked(read)
            except CertificateError:
                raise
            except GanetiApiError as err:
                now = runtime.Monotonic()
                if _IsRejection(err.code or 0) or (deadline is not None and now > deadline):
                    raise
                if deadline is None:
                    deadline = now + self._patience
                    self._streams.Err(f"{err}; {TryingAgain(self._patience)} (submitted jobs go on)")
            runtime.Sleep(_PAUSE)


def _Checked(send: Callable[[], Any]) -> Any:
    """Return an answer; one that is not JSON is a GanetiApiError, such as that of something in front of the server."""
    try:
        return send()
    except ValueError as err:
        raise GanetiApiError(f"The answer is not JSON: {err}") from err


def _IsRejection(code: int) -> bool:
    """Return whether a server has looked at a request and said no."""
    return _CURL_CODES <= code < 500


def _SurelyNot(code: int) -> bool:
    """Return whether a request that failed in this way has not made a job."""
    return _IsRejection(code) or code in _NEVER_SENT
