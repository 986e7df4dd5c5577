"""A client for the REST interface of a Ganeti cluster, in one file.

It needs nothing but pycurl and can be copied into another program::

    client = GanetiRapiClient("cluster.example.com", username="jack", password="abc123",
                              curl_config_fn=GenericCurlConfig(cafile="/etc/ssl/cluster.pem"))
    job = client.StartupInstance("web1.example.com")
    if not client.WaitForJobCompletion(job):
        print(client.GetJobStatus(job)["opresult"])

Methods, arguments, requests and errors are those of Ganeti 3.1.  A server of this release also has tokens (``token``),
conditional requests (``Conditional``), a stream of changes (``Events``) and metrics (``GetMetrics``).  ``Request`` sends what no
other method does.

Without ``curl_config_fn`` the server's certificate is not verified, as in 3.1.

A ``GanetiRapiClient`` may be used by several threads as long as each looks at its own answers and not at ``etag``.
Programs with threads call functions that use clients through ``UsesRapiClient``, once, before they start any.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import logging
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import pycurl

GANETI_RAPI_PORT = 5080
GANETI_RAPI_VERSION = 2

HTTP_DELETE = "DELETE"
HTTP_GET = "GET"
HTTP_PUT = "PUT"
HTTP_POST = "POST"
HTTP_OK = 200
HTTP_NOT_FOUND = 404
HTTP_APP_JSON = "application/json"

REPLACE_DISK_PRI = "replace_on_primary"
REPLACE_DISK_SECONDARY = "replace_on_secondary"
REPLACE_DISK_CHG = "replace_new_secondary"
REPLACE_DISK_AUTO = "replace_auto"

NODE_EVAC_PRI = "primary-only"
NODE_EVAC_SEC = "secondary-only"
NODE_EVAC_ALL = "all"

NODE_ROLE_DRAINED = "drained"
NODE_ROLE_MASTER_CANDIDATE = "master-candidate"
NODE_ROLE_MASTER = "master"
NODE_ROLE_OFFLINE = "offline"
NODE_ROLE_REGULAR = "regular"

JOB_STATUS_QUEUED = "queued"
JOB_STATUS_WAITING = "waiting"
JOB_STATUS_WAITLOCK = JOB_STATUS_WAITING
JOB_STATUS_CANCELING = "canceling"
JOB_STATUS_RUNNING = "running"
JOB_STATUS_CANCELED = "canceled"
JOB_STATUS_SUCCESS = "success"
JOB_STATUS_ERROR = "error"
JOB_STATUS_PENDING = frozenset([JOB_STATUS_QUEUED, JOB_STATUS_WAITING, JOB_STATUS_CANCELING])
JOB_STATUS_FINALIZED = frozenset([JOB_STATUS_CANCELED, JOB_STATUS_SUCCESS, JOB_STATUS_ERROR])
JOB_STATUS_ALL = frozenset([JOB_STATUS_RUNNING]) | JOB_STATUS_PENDING | JOB_STATUS_FINALIZED

INST_CREATE_REQV1 = _INST_CREATE_REQV1 = "instance-create-reqv1"
INST_REINSTALL_REQV1 = _INST_REINSTALL_REQV1 = "instance-reinstall-reqv1"
NODE_MIGRATE_REQV1 = _NODE_MIGRATE_REQV1 = "node-migrate-reqv1"
NODE_EVAC_RES1 = _NODE_EVAC_RES1 = "node-evac-res1"

# The second part of an OpPrereqError in a job's result.
ECODE_RESOLVER = "resolver_error"
ECODE_NORES = "insufficient_resources"
ECODE_TEMP_NORES = "temp_insufficient_resources"
ECODE_INVAL = "wrong_input"
ECODE_STATE = "wrong_state"
ECODE_NOENT = "unknown_entity"
ECODE_EXISTS = "already_exists"
ECODE_NOTUNIQUE = "resource_not_unique"
ECODE_FAULT = "internal_error"
ECODE_ENVIRON = "environment_error"
ECODE_ALL = frozenset(
    [
        ECODE_RESOLVER, ECODE_NORES, ECODE_TEMP_NORES, ECODE_INVAL, ECODE_STATE, ECODE_NOENT, ECODE_EXISTS,
        ECODE_NOTUNIQUE, ECODE_FAULT, ECODE_ENVIRON,
    ]
)  # fmt: skip

# Kinds of events that are not changes.
EVENT_OPEN = "open"
EVENT_MISSED = "missed"

# Of a stream of events: seconds before a new connection; what one event may have.
_RETRY_SECONDS, _RETRY_LEAST, _RETRY_MOST = 1.0, 0.1, 30.0
_EVENT_BYTES = 16 * 1024 * 1024
_EVENT_STREAM = "text/event-stream"
_OPENMETRICS = "application/openmetrics-text"
# What the server, or something in front of it, answers while the master daemon is away.
_AWAY = frozenset([502, 503, 504])

# The body of a request that has none; None would be the JSON value null.
_NO_CONTENT: Any = object()

Function = TypeVar("Function", bound=Callable[..., Any])
Query = Sequence[tuple[str, Any]]
CurlConfig = Callable[[Any, Any], None]


class Error(Exception):
    """The base of this library's errors; by itself: the library was called in a wrong way."""


class GanetiApiError(Error):
    """The server answered with an error, or could not be reached.

    ``code``: the HTTP status (400 and above) or the number of curl's error (below 100); None if neither applies.
    """

    def __init__(self, msg: str, code: int | None = None):
        super().__init__(msg)
        self.code = code


class CertificateError(GanetiApiError):
    """The server's certificate was rejected, or the file to verify it with is not usable."""


class Event(NamedTuple):
    """One change that the server reported.  ``id``: where to resume after it.  ``kind``: what changed."""

    id: str | None
    kind: str
    data: Any


# --- functions ------------------------------------------------------------------------------------------------------


def EpochNano() -> int:
    """Return the time in nanoseconds, as reason trails have it."""
    return time.time_ns()


def UsesRapiClient(function: Function) -> Function:
    """Decorate a function, usually ``main``, that uses clients: pycurl is prepared before it and released after it."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        pycurl.global_init(pycurl.GLOBAL_ALL)
        try:
            return function(*args, **kwargs)
        finally:
            pycurl.global_cleanup()

    return wrapper  # type: ignore[return-value]


def GenericCurlConfig(
    verbose: bool = False,
    use_signal: bool = False,
    use_curl_cabundle: bool = False,
    cafile: str | None = None,
    capath: str | None = None,
    proxy: str | None = None,
    verify_hostname: bool = False,
    connect_timeout: int | None = None,
    timeout: int | None = None,
) -> CurlConfig:
    """Return a function for ``curl_config_fn`` that sets what most programs need.

    * ``use_curl_cabundle``: verify the certificate with the authorities that curl knows; ``cafile``, ``capath``: with
      those of a file, a directory.  Without any of them it is not verified.
    * ``verify_hostname``: the certificate must be for the host
    * ``proxy``: None: as the environment says; an empty text: none
    * ``connect_timeout``, ``timeout``: seconds until there is a connection, until there is an answer
    * ``use_signal``: let curl use signals for time-outs of the resolver; not in programs with threads
    """
    if use_curl_cabundle and (cafile or capath):
        raise Error("'use_curl_cabundle' cannot be combined with 'cafile' or 'capath'")

    def configure(curl: Any, _logger: Any) -> None:
        curl.setopt(pycurl.VERBOSE, int(verbose))
        curl.setopt(pycurl.NOSIGNAL, int(not use_signal))
        curl.setopt(pycurl.SSL_VERIFYPEER, int(bool(use_curl_cabundle or cafile or capath)))
        curl.setopt(pycurl.SSL_VERIFYHOST, 2 if verify_hostname else 0)
        for option, value in (
            (pycurl.CAINFO, cafile),
            (pycurl.CAPATH, capath),
            (pycurl.PROXY, proxy),
            (pycurl.CONNECTTIMEOUT, connect_timeout),
            (pycurl.TIMEOUT, timeout),
        ):
            if value is not None:
                curl.setopt(option, value)

    return configure


def _Given(*arguments: tuple[str, Any]) -> list[tuple[str, Any]]:
    """Return the arguments that have a value."""
    return [(name, value) for name, value in arguments if value is not None]


def _Flag(value: Any) -> int | None:
    """Return an argument that is only sent if it is true."""
    return 1 if value else None


def _Choice(value: Any) -> int | None:
    """Return an argument that is sent as 0 or 1 if it was given."""
    return None if value is None else int(bool(value))


def _Object(**values: Any) -> dict[str, Any]:
    """Return a body with what was given."""
    return {name: value for name, value in values.items() if value is not None}


def _Listed(value: str | Iterable[str] | None) -> list[str] | None:
    """Return the parts of a text separated by commas."""
    return value.split(",") if isinstance(value, str) else None if value is None else list(value)


def _Tags(tags: Iterable[str]) -> list[str]:
    return [tags] if isinstance(tags, str) else list(tags)


def _Path(*segments: Any) -> str:
    """Return a path below ``/2``; no name in it leads anywhere else."""
    return "/2/" + "/".join(urllib.parse.quote(str(segment), safe="") for segment in segments)


def _EncodeQuery(query: Query) -> str:
    pairs = []
    for name, value in query:
        if isinstance(value, (list, tuple, dict)):
            raise ValueError(f"Argument '{name}' must be a single value, not {value!r}")
        if value is None:
            value = ""
        elif isinstance(value, bool):
            value = int(value)
        pairs.append((name, value))
    return urllib.parse.urlencode(pairs)


def _EncodeBody(content: Any) -> str:
    return "" if content is _NO_CONTENT else json.dumps(content, sort_keys=True)


def _Decode(data: bytes) -> Any:
    """Return the value of an answer, None for an empty one.  Raises ValueError."""
    if not data:
        return None
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("The answer's JSON is nested too deeply") from None


def _HeaderText(name: str, value: str) -> str:
    """Return a value that cannot end its header line.  Raises Error."""
    if not (value.isascii() and value.isprintable()):
        raise Error(f"{name} {value!r} has characters that a header cannot have")
    return value


def _CurlFailure(place: str, code: int, text: str) -> GanetiApiError:
    if code in (pycurl.E_SSL_CACERT, pycurl.E_SSL_CACERT_BADFILE):
        return CertificateError(f"Certificate of {place} cannot be verified: {text} (curl error {code})", code=code)
    return GanetiApiError(f"Request to {place} failed: {text} (curl error {code})", code=code)


def _StatusFailure(code: int, value: Any) -> GanetiApiError:
    """Return the error for an answer that is not a success."""
    if isinstance(value, dict) and {"code", "message", "explain"} <= value.keys():
        return GanetiApiError(f"{value['code']} {value['message']}: {value['explain']}", code=code)
    return GanetiApiError(str(value), code=code)


# --- transport ------------------------------------------------------------------------------------------------------


class _Answer:
    """Collects what curl receives."""

    def __init__(self) -> None:
        self.body = bytearray()
        self.headers: dict[str, str] = {}

    def Header(self, line: bytes) -> None:
        """Take one line; each answer begins with a status line."""
        text = line.decode("latin-1")
        if text.startswith("HTTP/"):
            self.headers.clear()
        name, colon, value = text.partition(":")
        if colon:
            self.headers[name.strip().lower()] = value.strip()

    def Body(self, data: bytes) -> None:
        self.body += data


class _EventParser:
    """Makes events of the bytes of a stream, as the HTML standard describes ("Server-sent events")."""

    def __init__(self, last_id: str | None):
        self.last_id = last_id
        self.retry = _RETRY_SECONDS
        self.heard: float | None = None
        """When the last bytes came."""
        self._rest = b""
        self._id = last_id
        self._Clear()

    def _Clear(self) -> None:
        self._kind = ""
        self._data: list[str] = []

    def Reset(self) -> None:
        """Forget what came of an event whose end will not come."""
        self._rest, self._id = b"", self.last_id
        self._Clear()

    def Feed(self, data: bytes) -> Iterator[Event]:
        """Take bytes, yield the events that they complete."""
        self.heard = time.monotonic()
        # An end of line is LF, CR LF or CR; a CR at the end may yet be followed by its LF.
        text = self._rest + data
        held = text.endswith(b"\r")
        text = text[: len(text) - held].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = text.split(b"\n")
        self._rest = rest + b"\r" * held
        for line in lines:
            yield from self._Line(line.decode("utf-8", "replace"))
        if len(self._rest) > _EVENT_BYTES or sum(map(len, self._data)) > _EVENT_BYTES:
            raise GanetiApiError(f"The server sent an event of more than {_EVENT_BYTES} bytes")

    def _Line(self, line: str) -> Iterator[Event]:
        if not line:
            self.last_id = self._id
            kind, data = self._kind or "message", "\n".join(self._data)
            self._Clear()
            if data:
                yield Event(self.last_id, kind, _Decode(data.encode()))
            return
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isdecimal() and value.isascii():
            self.retry = min(max(int(value) / 1000, _RETRY_LEAST), _RETRY_MOST)


class GanetiRapiClient:
    """A cluster's REST interface.  Each call is one request on a connection of its own.

    All methods that return a number start a job, which ends later, with success or not.  ``reason`` is kept with the job.
    ``etag``: the version of what the last answer showed, None if it had none.
    """

    USER_AGENT = "Ganeti RAPI Client"

    def __init__(
        self,
        host: str,
        port: int = GANETI_RAPI_PORT,
        username: str | None = None,
        password: str | None = None,
        logger: Any = logging,
        curl_config_fn: CurlConfig | None = None,
        curl_factory: Callable[[], Any] | None = None,
        *,
        token: str | None = None,
    ):
        """Prepare requests to a host; nothing is sent yet.

        ``curl_config_fn``: called with each curl handle and the logger.  ``curl_factory``: makes the handles.
        ``token``: a token of the cluster, in place of user name and password.
        """
        if (username is None) != (password is None):
            raise Error("User name and password belong together: give both or neither")
        if token is not None and username is not None:
            raise Error("A token takes the place of user name and password: give one or the other")
        self._base_url = f"https://{f'[{host}]' if ':' in host else host}:{port}"
        self._credentials = None if username is None or password is None else (username.encode(), password.encode())
        self._token = None if token is None else _HeaderText("Token", token)
        self._logger = logger
        self._configure = curl_config_fn
        self._curl_factory = curl_factory or pycurl.Curl
        self._if_match: str | None = None
        self._if_none_match: str | None = None
        self.etag: str | None = None

    def _Prepare(
        self, method: str, path: str, query: Query, accept: str, headers: Sequence[str]
    ) -> tuple[Any, _Answer]:
        """Return a handle for one request, with the answer that it will fill."""
        url = self._base_url + path
        if query:
            url += "?" + _EncodeQuery(query)
        answer = _Answer()
        curl = self._curl_factory()
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.FOLLOWLOCATION, 0)
        curl.setopt(pycurl.USERAGENT, self.USER_AGENT)
        curl.setopt(pycurl.SSL_VERIFYPEER, 0)
        curl.setopt(pycurl.SSL_VERIFYHOST, 0)
        # Names that consist of dots are names.
        curl.setopt(pycurl.PATH_AS_IS, 1)
        if self._credentials is not None:
            curl.setopt(pycurl.HTTPAUTH, pycurl.HTTPAUTH_BASIC)
            curl.setopt(pycurl.USERNAME, self._credentials[0])
            curl.setopt(pycurl.PASSWORD, self._credentials[1])
        lines = [f"Accept: {accept}", f"Content-type: {HTTP_APP_JSON}", *headers]
        if self._token is not None:
            lines.append(f"Authorization: Bearer {self._token}")
        curl.setopt(pycurl.HTTPHEADER, lines)
        if self._configure is not None:
            self._configure(curl, self._logger)
        curl.setopt(pycurl.CUSTOMREQUEST, method)
        curl.setopt(pycurl.URL, url)
        curl.setopt(pycurl.HEADERFUNCTION, answer.Header)
        curl.setopt(pycurl.WRITEFUNCTION, answer.Body)
        # Neither bodies nor credentials are logged.
        self._logger.debug("Sending %s %s to %s", method, path, self._base_url)
        return curl, answer

    def _Perform(self, curl: Any) -> None:
        try:
            curl.perform()
        except pycurl.error as err:
            raise _CurlFailure(self._base_url, *err.args[:2]) from err

    def _Send(self, method: str, path: str, query: Query = (), content: Any = _NO_CONTENT) -> Any:
        """Send a request and return the value of its answer."""
        conditions = []
        if method == HTTP_GET and self._if_none_match is not None:
            conditions.append(f"If-None-Match: {self._if_none_match}")
        if method != HTTP_GET and self._if_match is not None:
            conditions.append(f"If-Match: {self._if_match}")
        curl, answer = self._Prepare(method, path, query, HTTP_APP_JSON, conditions)
        with contextlib.closing(curl):
            curl.setopt(pycurl.POSTFIELDS, _EncodeBody(content))
            self._Perform(curl)
            code = curl.getinfo(pycurl.RESPONSE_CODE)
        self.etag = answer.headers.get("etag")
        value = _Decode(bytes(answer.body))
        if code != HTTP_OK:
            raise _StatusFailure(code, value)
        return value

    def _Names(self, kind: str, key: str, bulk: bool, *arguments: tuple[str, Any]) -> Any:
        """Return the names of a list, or with ``bulk`` its objects."""
        items = self._Send(HTTP_GET, _Path(kind), _Given(("bulk", _Flag(bulk)), *arguments))
        return items if bulk else [item[key] for item in items]

    def _Read(self, path: str, reason: str | None) -> Any:
        return self._Send(HTTP_GET, path, _Given(("reason", reason)))

    def _ChangeTags(self, method: str, path: str, tags: Iterable[str], dry_run: bool, reason: str | None) -> int:
        query = [("tag", tag) for tag in _Tags(tags)]
        return self._Send(method, path, query + _Given(("dry-run", _Flag(dry_run)), ("reason", reason)))

    def _Need(self, feature: str, what: str) -> None:
        if feature not in self.GetFeatures():
            raise GanetiApiError(f"{what} is not supported by {self._base_url}: it lacks the feature '{feature}'")

    # --- additions ----------------------------------------------------------------------------------------------------

    def Conditional(self, *, if_match: str | None = None, if_none_match: str | None = None) -> GanetiRapiClient:
        """Return a client for requests that depend on the version of their object.

        * ``if_match``: changes are made only if the object still has this ``etag``, else GanetiApiError with code 412
        * ``if_none_match``: objects are read only if they have another ``etag``, else GanetiApiError with code 304
        """
        other = copy.copy(self)
        other._if_match = None if if_match is None else _HeaderText("ETag", if_match)
        other._if_none_match = None if if_none_match is None else _HeaderText("ETag", if_none_match)
        return other

    def Request(self, method: str, segments: Sequence[Any], content: Any = None, reason: str | None = None) -> Any:
        """Send a request for which there is no other method, and return the value of its answer.

        ``segments``: of the path below ``/2``.  ``content``: the body, such as an instance's migration with ``depends`` and
        ``priority``, which ``MigrateInstance`` does not have; None sends none.
        """
        return self._Send(
            method, _Path(*segments), _Given(("reason", reason)), _NO_CONTENT if content is None else content
        )

    def GetMetrics(self) -> str:
        """Return the cluster's metrics in the OpenMetrics format."""
        curl, answer = self._Prepare(HTTP_GET, "/metrics", (), _OPENMETRICS, ())
        with contextlib.closing(curl):
            curl.setopt(pycurl.HTTPGET, 1)
            self._Perform(curl)
            self._CheckStream(curl, answer)
        return answer.body.decode("utf-8")

    def _CheckStream(self, curl: Any, answer: _Answer) -> None:
        """Raise the error of an answer whose value is not JSON."""
        code = curl.getinfo(pycurl.RESPONSE_CODE)
        if code != HTTP_OK:
            raise _StatusFailure(code, _Decode(bytes(answer.body)))

    def Events(
        self, last_event_id: str | None = None, *, silence: int = 60, patience: float = 300, **arguments: Any
    ) -> Iterator[Event]:
        """Yield the changes of the cluster as they happen, without end.

        The first event is of the kind ``EVENT_OPEN``: from then on nothing is missed, so read then what you follow.  Later, one
        of the kind ``EVENT_MISSED`` says that changes were missed: read it again.

        * ``last_event_id``: the ``id`` of the last event that the caller has seen, to resume after it
        * ``arguments``: those of ``/2/events``

        A connection that breaks, or that was silent for ``silence`` seconds, is replaced by another one, which resumes after
        the last event.  GanetiApiError is raised if the first connection fails, if the server rejects the request, and if
        nothing was received for ``patience`` seconds, not counting those that the caller spent with an event.
        """
        parser = _EventParser(None if last_event_id is None else _HeaderText("Event id", last_event_id))
        query = _Given(*arguments.items())
        pause = 0.0
        while True:
            seen, began = parser.last_id, time.monotonic()
            try:
                yield from self._Stream(parser, query, silence)
                failure = GanetiApiError(f"{self._base_url} ended the stream of events")
            except CertificateError:
                raise
            except GanetiApiError as err:
                if err.code is not None and err.code >= 100 and err.code not in _AWAY:
                    raise
                failure = err
            now = time.monotonic()
            if parser.heard is None or now - parser.heard > patience:
                raise failure
            # A server that ends each stream before anything new comes is asked less and less often.
            worked = parser.last_id != seen or parser.heard - began > _RETRY_MOST
            pause = parser.retry if worked else min(2 * max(pause, parser.retry), _RETRY_MOST)
            self._logger.info("%s; connecting again in %g seconds", failure, pause)
            time.sleep(pause)
            parser.Reset()

    def _Stream(self, parser: _EventParser, query: Query, silence: int) -> Iterator[Event]:
        """Yield the events of one connection until it ends."""
        resume = [] if parser.last_id is None else [f"Last-Event-ID: {parser.last_id}"]
        curl, answer = self._Prepare(HTTP_GET, _Path("events"), query, _EVENT_STREAM, resume)
        with contextlib.closing(pycurl.CurlMulti()) as multi, contextlib.closing(curl):
            curl.setopt(pycurl.HTTPGET, 1)
            curl.setopt(pycurl.TIMEOUT, 0)
            curl.setopt(pycurl.LOW_SPEED_LIMIT, 1)
            curl.setopt(pycurl.LOW_SPEED_TIME, silence)
            multi.add_handle(curl)
            try:
                running = 1
                while running:
                    running = multi.perform()[1]
                    if curl.getinfo(pycurl.RESPONSE_CODE) == HTTP_OK and answer.body:
                        self._CheckMedia(answer)
                        data = bytes(answer.body)
                        answer.body.clear()
                        begins = parser.heard is None
                        events = list(parser.Feed(data))
                        if begins:
                            yield Event(parser.last_id, EVENT_OPEN, None)
                        yield from events
                        # What the caller has done with them meanwhile was no silence of the server's.
                        parser.heard = time.monotonic()
                    if running and multi.select(1.0) == -1:
                        time.sleep(0.02)
                failures = multi.info_read()[2]
                if failures:
                    raise _CurlFailure(self._base_url, *failures[0][1:3])
                self._CheckStream(curl, answer)
            finally:
                multi.remove_handle(curl)

    def _CheckMedia(self, answer: _Answer) -> None:
        media = answer.headers.get("content-type", "").partition(";")[0].strip()
        if media != _EVENT_STREAM:
            raise Error(f"{self._base_url} answered with '{media}' instead of a stream of events")

    # --- cluster ------------------------------------------------------------------------------------------------------

    def GetVersion(self) -> int:
        """Return the version of the interface, 2."""
        return self._Send(HTTP_GET, "/version")

    def GetFeatures(self) -> list[str]:
        """Return the names of what this server can do beyond the first version of the interface."""
        try:
            return self._Send(HTTP_GET, _Path("features"))
        except GanetiApiError as err:
            if err.code == HTTP_NOT_FOUND:
                return []
            raise

    def GetOperatingSystems(self, reason: str | None = None) -> list[str]:
        """Return the operating systems that instances can have, with their variants."""
        return self._Read(_Path("os"), reason)

    def GetInfo(self, reason: str | None = None) -> dict[str, Any]:
        """Return the cluster's settings."""
        return self._Read(_Path("info"), reason)

    def RedistributeConfig(self, reason: str | None = None) -> int:
        """Send the configuration's files to all nodes again."""
        return self._Send(HTTP_PUT, _Path("redistribute-config"), _Given(("reason", reason)))

    def ModifyCluster(self, reason: str | None = None, **kwargs: Any) -> int:
        """Change the cluster's settings: the parameters of OP_CLUSTER_SET_PARAMS."""
        return self._Send(HTTP_PUT, _Path("modify"), _Given(("reason", reason)), kwargs)

    def GetClusterTags(self, reason: str | None = None) -> list[str]:
        """Return the cluster's tags."""
        return self._Read(_Path("tags"), reason)

    def AddClusterTags(self, tags: Iterable[str], dry_run: bool = False, reason: str | None = None) -> int:
        """Add tags to the cluster."""
        return self._ChangeTags(HTTP_PUT, _Path("tags"), tags, dry_run, reason)

    def DeleteClusterTags(self, tags: Iterable[str], dry_run: bool = False, reason: str | None = None) -> int:
        """Remove tags from the cluster."""
        return self._ChangeTags(HTTP_DELETE, _Path("tags"), tags, dry_run, reason)

    # --- instances ----------------------------------------------------------------------------------------------------

    def GetInstances(self, bulk: bool = False, reason: str | None = None) -> Any:
        """Return the names of all instances, or with ``bulk`` what is known of each."""
        return self._Names("instances", "id", bulk, ("reason", reason))

    def GetInstance(self, instance: str, reason: str | None = None) -> dict[str, Any]:
        """Return what is known of an instance."""
        return self._Read(_Path("instances", instance), reason)

    def GetInstanceInfo(self, instance: str, static: bool | None = None, reason: str | None = None) -> int:
        """Start a job whose result describes an instance in detail; ``static``: without asking its nodes."""
        query = _Given(("static", _Choice(static)), ("reason", reason))
        return self._Send(HTTP_GET, _Path("instances", instance, "info"), query)

    @staticmethod
    def InstanceAllocation(
        mode: str, name: str, disk_template: str, disks: Any, nics: Any, **kwargs: Any
    ) -> dict[str, Any]:
        """Return one entry for ``InstancesMultiAlloc``; arguments as for ``CreateInstance``."""
        given = {key: value for key, value in kwargs.items() if key != "dry_run"}
        return {**given, "mode": mode, "name": name, "disk_template": disk_template, "disks": disks, "nics": nics}

    def InstancesMultiAlloc(self, instances: Sequence[dict[str, Any]], reason: str | None = None, **kwargs: Any) -> int:
        """Create several instances, made by ``InstanceAllocation``, on nodes that one allocation chooses."""
        query = _Given(("dry-run", _Flag(kwargs.pop("dry_run", False))), ("reason", reason))
        return self._Send(HTTP_POST, _Path("instances-multi-alloc"), query, {**kwargs, "instances": instances})

    def CreateInstance(
        self,
        mode: str,
        name: str,
        disk_template: str,
        disks: Any,
        nics: Any,
        reason: str | None = None,
        **kwargs: Any,
    ) -> int:
        """Create an instance.

        * ``mode``: ``create``, ``import`` or ``remote-import``
        * ``disks``: one object each, such as ``{"size": 1024}`` (MiB); ``nics``: such as ``{"mode": "bridged"}``
        * further keywords: the parameters of OP_INSTANCE_CREATE, such as ``os``, ``pnode``, ``beparams``; ``dry_run``
        """
        self._Need(INST_CREATE_REQV1, "Creating instances")
        query = _Given(("dry-run", _Flag(kwargs.get("dry_run"))), ("reason", reason))
        body = self.InstanceAllocation(mode, name, disk_template, disks, nics, **kwargs)
        return self._Send(HTTP_POST, _Path("instances"), query, {**body, "__version__": 1})

    def DeleteInstance(self, instance: str, dry_run: bool = False, reason: str | None = None, **kwargs: Any) -> int:
        """Remove an instance with its disks; keywords: the parameters of OP_INSTANCE_REMOVE."""
        query = _Given(("dry-run", _Flag(dry_run)), ("reason", reason))
        return self._Send(HTTP_DELETE, _Path("instances", instance), query, kwargs)

    def ModifyInstance(self, instance: str, reason: str | None = None, **kwargs: Any) -> int:
        """Change an instance: the parameters of OP_INSTANCE_SET_PARAMS."""
        return self._Send(HTTP_PUT, _Path("instances", instance, "modify"), _Given(("reason", reason)), kwargs)

    def ActivateInstanceDisks(self, instance: str, ignore_size: bool | None = None, reason: str | None = None) -> int:
        """Activate an instance's disks; ``ignore_size``: even if their sizes are not the recorded ones."""
        query = _Given(("ignore_size", _Flag(ignore_size)), ("reason", reason))
        return self._Send(HTTP_PUT, _Path("instances", instance, "activate-disks"), query)

    def DeactivateInstanceDisks(self, instance: str, reason: str | None = None, force: bool = False) -> int:
        """Deactivate an instance's disks; ``force``: even while it runs."""
        query = _Given(("reason", reason), ("force", _Flag(force)))
        return self._Send(HTTP_PUT, _Path("instances", instance, "deactivate-disks"), query)

    def RecreateInstanceDisks(
        self,
        instance: str,
        disks: Any = None,
        nodes: Sequence[str] | None = None,
        reason: str | None = None,
        iallocator: str | None = None,
    ) -> int:
        """Make disks again that were lost; ``disks``: only those with these numbers, ``nodes``: on these nodes."""
        body = _Object(disks=disks, nodes=nodes, iallocator=iallocator)
        return self._Send(HTTP_POST, _Path("instances", instance, "recreate-disks"), _Given(("reason", reason)), body)

    def GrowInstanceDisk(
        self, instance: str, disk: int, amount: int, wait_for_sync: bool | None = None, reason: str | None = None
    ) -> int:
        """Make a disk larger by some MiB."""
        body = {"amount": amount, **_Object(wait_for_sync=wait_for_sync)}
        path = _Path("instances", instance, "disk", disk, "grow")
        return self._Send(HTTP_POST, path, _Given(("reason", reason)), body)

    def GetInstanceTags(self, instance: str, reason: str | None = None) -> list[str]:
        """Return an instance's tags."""
        return self._Read(_Path("instances", instance, "tags"), reason)

    def AddInstanceTags(
        self, instance: str, tags: Iterable[str], dry_run: bool = False, reason: str | None = None
    ) -> int:
        """Add tags to an instance."""
        return self._ChangeTags(HTTP_PUT, _Path("instances", instance, "tags"), tags, dry_run, reason)

    def DeleteInstanceTags(
        self, instance: str, tags: Iterable[str], dry_run: bool = False, reason: str | None = None
    ) -> int:
        """Remove tags from an instance."""
        return self._ChangeTags(HTTP_DELETE, _Path("instances", instance, "tags"), tags, dry_run, reason)

    def RebootInstance(
        self,
        instance: str,
        reboot_type: str | None = None,
        ignore_secondaries: bool | None = None,
        dry_run: bool = False,
        reason: str | None = None,
        **kwargs: Any,
    ) -> int:
        """Restart an instance; ``reboot_type``: ``hard``, ``soft`` or ``full``."""
        query = _Given(
            ("type", reboot_type),
            ("ignore_secondaries", _Choice(ignore_secondaries)),
            ("dry-run", _Flag(dry_run)),
            ("reason", reason),
        )
        return self._Send(HTTP_POST, _Path("instances", instance, "reboot"), query, kwargs)

    def ShutdownInstance(
        self,
        instance: str,
        dry_run: bool = False,
        no_remember: bool = False,
        reason: str | None = None,
        **kwargs: Any,
    ) -> int:
        """Stop an instance; ``no_remember``: the watcher will start it again."""
        query = _Given(("dry-run", _Flag(dry_run)), ("no_remember", _Flag(no_remember)), ("reason", reason))
        return self._Send(HTTP_PUT, _Path("instances", instance, "shutdown"), query, kwargs)

    def StartupInstance(
        self, instance: str, dry_run: bool = False, no_remember: bool = False, reason: str | None = None
    ) -> int:
        """Start an instance; ``no_remember``: it still counts as one that should be stopped."""
        query = _Given(("dry-run", _Flag(dry_run)), ("no_remember", _Flag(no_remember)), ("reason", reason))
        return self._Send(HTTP_PUT, _Path("instances", instance, "startup"), query)

    def ReinstallInstance(
        self,
        instance: str,
        os: str | None = None,
        no_startup: bool = False,
        osparams: dict[str, Any] | None = None,
        reason: str | None = None,
    ) -> int:
        """Install an instance's operating system again, or another one; what is on its disks is lost."""
        path = _Path("instances", instance, "reinstall")
        if INST_REINSTALL_REQV1 in self.GetFeatures():
            body = {"start": not no_startup, **_Object(os=os, osparams=osparams)}
            return self._Send(HTTP_POST, path, _Given(("reason", reason)), body)
        # Servers before 2.4.
        if osparams is not None:
            raise GanetiApiError(f"OS parameters are not supported by {self._base_url} when an instance is reinstalled")
        return self._Send(HTTP_POST, path, _Given(("os", os), ("nostartup", _Flag(no_startup)), ("reason", reason)))

    def ReplaceInstanceDisks(
        self,
        instance: str,
        disks: Iterable[int] | None = None,
        mode: str = REPLACE_DISK_AUTO,
        remote_node: str | None = None,
        iallocator: str | None = None,
        reason: str | None = None,
        early_release: bool | None = None,
    ) -> int:
        """Replace mirrored disks; ``mode``: one of the ``REPLACE_DISK_`` names, ``disks``: only these numbers."""
        query = _Given(
            ("disks", None if disks is None else ",".join(map(str, disks))),
            ("mode", mode),
            ("remote_node", remote_node),
            ("iallocator", iallocator),
            ("reason", reason),
            ("early_release", _Choice(early_release)),
        )
        return self._Send(HTTP_POST, _Path("instances", instance, "replace-disks"), query)

    def PrepareExport(self, instance: str, mode: str, reason: str | None = None) -> int:
        """Start a job whose result ``CreateInstance`` needs for a remote import; ``mode``: ``local``, ``remote``."""
        query = [("mode", mode), *_Given(("reason", reason))]
        return self._Send(HTTP_PUT, _Path("instances", instance, "prepare-export"), query)

    def ExportInstance(
        self,
        instance: str,
        mode: str,
        destination: Any,
        shutdown: bool | None = None,
        remove_instance: bool | None = None,
        x509_key_name: Any = None,
        destination_x509_ca: str | None = None,
        compress: str | None = None,
        reason: str | None = None,
    ) -> int:
        """Export an instance to a node (``mode`` is ``local``) or to another cluster (``remote``)."""
        body = {
            "destination": destination,
            "mode": mode,
            **_Object(
                shutdown=shutdown,
                remove_instance=remove_instance,
                x509_key_name=x509_key_name,
                destination_x509_ca=destination_x509_ca,
                compress=compress,
            ),
        }
        return self._Send(HTTP_PUT, _Path("instances", instance, "export"), _Given(("reason", reason)), body)

    def MigrateInstance(
        self,
        instance: str,
        mode: str | None = None,
        cleanup: bool | None = None,
        target_node: str | None = None,
        reason: str | None = None,
    ) -> int:
        """Move a running instance to another node; ``mode``: ``live`` or ``non-live``."""
        body = _Object(mode=mode, cleanup=cleanup, target_node=target_node)
        return self._Send(HTTP_PUT, _Path("instances", instance, "migrate"), _Given(("reason", reason)), body)

    def FailoverInstance(
        self,
        instance: str,
        iallocator: str | None = None,
        ignore_consistency: bool | None = None,
        target_node: str | None = None,
        reason: str | None = None,
    ) -> int:
        """Stop an instance and start it on another node."""
        body = _Object(iallocator=iallocator, ignore_consistency=ignore_consistency, target_node=target_node)
        return self._Send(HTTP_PUT, _Path("instances", instance, "failover"), _Given(("reason", reason)), body)

    def RenameInstance(
        self,
        instance: str,
        new_name: str,
        ip_check: bool | None = None,
        name_check: bool | None = None,
        reason: str | None = None,
    ) -> int:
        """Rename an instance."""
        body = {"new_name": new_name, **_Object(ip_check=ip_check, name_check=name_check)}
        return self._Send(HTTP_PUT, _Path("instances", instance, "rename"), _Given(("reason", reason)), body)

    def GetInstanceConsole(self, instance: str, reason: str | None = None) -> dict[str, Any]:
        """Return how to reach an instance's console."""
        return self._Read(_Path("instances", instance, "console"), reason)

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def GetJobs(self, bulk: bool = False) -> Any:
        """Return the numbers of all jobs, or with ``bulk`` what is known of each."""
        jobs = self._Names("jobs", "id", bulk)
        return jobs if bulk else [int(job) for job in jobs]

    def GetJobStatus(self, job_id: int) -> dict[str, Any]:
        """Return what is known of a job."""
        return self._Send(HTTP_GET, _Path("jobs", job_id))

    def WaitForJobCompletion(self, job_id: int, period: float = 5, retries: int = -1) -> bool:
        """Wait until a job has ended; return whether with success.

        It is looked at every ``period`` seconds, at most ``retries`` times (-1: without limit); False if it has not ended
        by then.  Raises GanetiApiError with code 404 if there is no such job.
        """
        while retries:
            status = self.GetJobStatus(job_id)["status"]
            if status is None:
                # Ganeti 3.1 answers so for a job that it does not know.
                raise GanetiApiError(f"{self._base_url} does not know job {job_id}", code=HTTP_NOT_FOUND)
            if status in JOB_STATUS_FINALIZED:
                return status == JOB_STATUS_SUCCESS
            retries = max(retries - 1, -1)
            if retries and period:
                time.sleep(period)
        return False

    def WaitForJobChange(
        self, job_id: int, fields: Sequence[str], prev_job_info: Any, prev_log_serial: int | None
    ) -> dict[str, Any] | None:
        """Wait until something of a job differs from what the caller has seen; None if nothing changed for some time."""
        body = {"fields": fields, "previous_job_info": prev_job_info, "previous_log_serial": prev_log_serial}
        return self._Send(HTTP_GET, _Path("jobs", job_id, "wait"), (), body)

    def CancelJob(self, job_id: int, dry_run: bool = False) -> list[Any]:
        """Cancel a job; return whether that worked, and a sentence about it."""
        return self._Send(HTTP_DELETE, _Path("jobs", job_id), _Given(("dry-run", _Flag(dry_run))))

    # --- nodes --------------------------------------------------------------------------------------------------------

    def GetNodes(self, bulk: bool = False, reason: str | None = None) -> Any:
        """Return the names of all nodes, or with ``bulk`` what is known of each."""
        return self._Names("nodes", "id", bulk, ("reason", reason))

    def GetNode(self, node: str, reason: str | None = None) -> dict[str, Any]:
        """Return what is known of a node."""
        return self._Read(_Path("nodes", node), reason)

    def EvacuateNode(
        self,
        node: str,
        iallocator: str | None = None,
        remote_node: str | None = None,
        dry_run: bool = False,
        early_release: bool | None = None,
        mode: str | None = None,
        accept_old: bool = False,
        reason: str | None = None,
    ) -> int:
        """Move instances away from a node; ``mode``: one of the ``NODE_EVAC_`` names.

        The job's result has the numbers of further jobs.  ``accept_old``: also send the request to a server whose answer
        may have another form (before 2.5).
        """
        if iallocator is not None and remote_node is not None:
            raise GanetiApiError("Give either an allocator or a node to evacuate to, not both")
        if NODE_EVAC_RES1 not in self.GetFeatures() and not accept_old:
            raise GanetiApiError(
                f"{self._base_url} answers requests to evacuate a node in its own way (see accept_old)"
            )
        body = _Object(early_release=early_release, iallocator=iallocator, mode=mode, remote_node=remote_node)
        query = _Given(("dry-run", _Flag(dry_run)), ("reason", reason))
        return self._Send(HTTP_POST, _Path("nodes", node, "evacuate"), query, body)

    def MigrateNode(
        self,
        node: str,
        mode: str | None = None,
        dry_run: bool = False,
        iallocator: str | None = None,
        target_node: str | None = None,
        reason: str | None = None,
    ) -> int:
        """Move all running instances whose primary node this is to other nodes.

        The job's result has the numbers of further jobs.  Ganeti 3.1 migrates even with ``dry_run``, and with ``reason``
        ignores where to.
        """
        path = _Path("nodes", node, "migrate")
        query = _Given(("dry-run", _Flag(dry_run)), ("reason", reason))
        if NODE_MIGRATE_REQV1 in self.GetFeatures():
            return self._Send(
                HTTP_POST, path, query, _Object(iallocator=iallocator, mode=mode, target_node=target_node)
            )
        # Servers before 2.4.
        if iallocator is not None or target_node is not None:
            raise GanetiApiError(f"{self._base_url} can migrate instances to their secondary nodes only")
        return self._Send(HTTP_POST, path, _Given(("mode", mode)) + query)

    def GetNodeRole(self, node: str, reason: str | None = None) -> str:
        """Return a node's role, one of the ``NODE_ROLE_`` names."""
        return self._Read(_Path("nodes", node, "role"), reason)

    def SetNodeRole(
        self, node: str, role: str, force: bool = False, auto_promote: bool | None = None, reason: str | None = None
    ) -> int:
        """Give a node another role; ``auto_promote``: make other nodes candidates so that there are enough."""
        query = _Given(("force", _Flag(force)), ("auto-promote", _Choice(auto_promote)), ("reason", reason))
        return self._Send(HTTP_PUT, _Path("nodes", node, "role"), query, role)

    def PowercycleNode(self, node: str, force: bool = False, reason: str | None = None) -> int:
        """Restart a node at once, without stopping what runs there."""
        return self._Send(
            HTTP_POST, _Path("nodes", node, "powercycle"), _Given(("force", _Flag(force)), ("reason", reason))
        )

    def ModifyNode(self, node: str, reason: str | None = None, **kwargs: Any) -> int:
        """Change a node: the parameters of OP_NODE_SET_PARAMS."""
        return self._Send(HTTP_POST, _Path("nodes", node, "modify"), _Given(("reason", reason)), kwargs)

    def GetNodeStorageUnits(self, node: str, storage_type: str, output_fields: str, reason: str | None = None) -> int:
        """Start a job whose result lists a node's storage; ``output_fields``: names separated by commas."""
        query = [("storage_type", storage_type), ("output_fields", output_fields), *_Given(("reason", reason))]
        return self._Send(HTTP_GET, _Path("nodes", node, "storage"), query)

    def ModifyNodeStorageUnits(
        self, node: str, storage_type: str, name: str, allocatable: bool | None = None, reason: str | None = None
    ) -> int:
        """Change a unit of a node's storage; ``allocatable``: whether new disks may lie there."""
        query = [
            ("storage_type", storage_type),
            ("name", name),
            *_Given(("allocatable", _Choice(allocatable)), ("reason", reason)),
        ]
        return self._Send(HTTP_PUT, _Path("nodes", node, "storage", "modify"), query)

    def RepairNodeStorageUnits(self, node: str, storage_type: str, name: str, reason: str | None = None) -> int:
        """Repair a unit of a node's storage."""
        query = [("storage_type", storage_type), ("name", name), *_Given(("reason", reason))]
        return self._Send(HTTP_PUT, _Path("nodes", node, "storage", "repair"), query)

    def GetNodeTags(self, node: str, reason: str | None = None) -> list[str]:
        """Return a node's tags."""
        return self._Read(_Path("nodes", node, "tags"), reason)

    def AddNodeTags(self, node: str, tags: Iterable[str], dry_run: bool = False, reason: str | None = None) -> int:
        """Add tags to a node."""
        listed = _Tags(tags)
        query = [*(("tag", tag) for tag in listed), *_Given(("dry-run", _Flag(dry_run)), ("reason", reason))]
        # Only here the tags are in the body too, as in 3.1; servers look at the query.
        return self._Send(HTTP_PUT, _Path("nodes", node, "tags"), query, listed)

    def DeleteNodeTags(self, node: str, tags: Iterable[str], dry_run: bool = False, reason: str | None = None) -> int:
        """Remove tags from a node."""
        return self._ChangeTags(HTTP_DELETE, _Path("nodes", node, "tags"), tags, dry_run, reason)

    # --- networks -----------------------------------------------------------------------------------------------------

    def GetNetworks(self, bulk: bool = False, reason: str | None = None) -> Any:
        """Return the names of all networks, or with ``bulk`` what is known of each."""
        return self._Names("networks", "name", bulk, ("reason", reason))

    def GetNetwork(self, network: str, reason: str | None = None) -> dict[str, Any]:
        """Return what is known of a network."""
        return self._Read(_Path("networks", network), reason)

    def CreateNetwork(
        self,
        network_name: str,
        network: str,
        gateway: str | None = None,
        network6: str | None = None,
        gateway6: str | None = None,
        mac_prefix: str | None = None,
        add_reserved_ips: str | Iterable[str] | None = None,
        tags: str | Iterable[str] | None = None,
        dry_run: bool = False,
        reason: str | None = None,
    ) -> int:
        """Add a network; ``add_reserved_ips`` and ``tags`` are separated by commas."""
        body = {
            "network_name": network_name,
            "network": network,
            "gateway": gateway,
            "network6": network6,
            "gateway6": gateway6,
            "mac_prefix": mac_prefix,
            "add_reserved_ips": _Listed(add_reserved_ips),
            "tags": _Listed(tags),
        }
        query = _Given(("dry-run", _Flag(dry_run)), ("reason", reason))
        return self._Send(HTTP_POST, _Path("networks"), query, body)

    def ConnectNetwork(
        self,
        network_name: str,
        group_name: str,
        mode: str,
        link: str,
        vlan: str = "",
        dry_run: bool = False,
        reason: str | None = None,
    ) -> int:
        """Connect a network to a node group; ``mode`` and ``link`` as NICs of instances have them."""
        body = {"group_name": group_name, "network_mode": mode, "network_link": link, "network_vlan": vlan}
        query = _Given(("dry-run", _Flag(dry_run)), ("reason", reason))
        return self._Send(HTTP_PUT, _Path("networks", network_name, "connect"), query, body)

    def DisconnectNetwork(
        self, network_name: str, group_name: str, dry_run: bool = False, reason: str | None = None
    ) -> int:
        """Disconnect a network from a node group."""
        query = _Given(("dry-run", _Flag(dry_run)), ("reason", reason))
        return self._Send(HTTP_PUT, _Path("networks", network_name, "disconnect"), query, {"group_name": group_name})

    def ModifyNetwork(self, network: str, reason: str | None = None, **kwargs: Any) -> int:
        """Change a network: the parameters of OP_NETWORK_SET_PARAMS.  ``reason`` is not sent, as in 3.1."""
        del reason
        return self._Send(HTTP_PUT, _Path("networks", network, "modify"), (), kwargs)

    def DeleteNetwork(self, network: str, dry_run: bool = False, reason: str | None = None) -> int:
        """Remove a network."""
        query = _Given(("dry-run", _Flag(dry_run)), ("reason", reason))
        return self._Send(HTTP_DELETE, _Path("networks", network), query)

    def RenameNetwork(self, network: str, new_name: str, reason: str | None = None) -> int:
        """Rename a network."""
        query = _Given(("reason", reason))
        return self._Send(HTTP_PUT, _Path("networks", network, "rename"), query, {"new_name": new_name})

    def GetNetworkTags(self, network: str, reason: str | None = None) -> list[str]:
        """Return a network's tags."""
        return self._Read(_Path("networks", network, "tags"), reason)

    def AddNetworkTags(
        self, network: str, tags: Iterable[str], dry_run: bool = False, reason: str | None = None
    ) -> int:
        """Add tags to a network."""
        return self._ChangeTags(HTTP_PUT, _Path("networks", network, "tags"), tags, dry_run, reason)

    def DeleteNetworkTags(
        self, network: str, tags: Iterable[str], dry_run: bool = False, reason: str | None = None
    ) -> int:
        """Remove tags from a network."""
        return self._ChangeTags(HTTP_DELETE, _Path("networks", network, "tags"), tags, dry_run, reason)

    # --- node groups --------------------------------------------------------------------------------------------------

    def GetGroups(self, bulk: bool = False, reason: str | None = None) -> Any:
        """Return the names of all node groups, or with ``bulk`` what is known of each."""
        return self._Names("groups", "name", bulk, ("reason", reason))

    def GetGroup(self, group: str, reason: str | None = None) -> dict[str, Any]:
        """Return what is known of a node group."""
        return self._Read(_Path("groups", group), reason)

    def CreateGroup(
        self, name: str, alloc_policy: str | None = None, dry_run: bool = False, reason: str | None = None
    ) -> int:
        """Add a node group; ``alloc_policy``: ``preferred``, ``last_resort`` or ``unallocable``."""
        query = _Given(("dry-run", _Flag(dry_run)), ("reason", reason))
        return self._Send(HTTP_POST, _Path("groups"), query, {"name": name, "alloc_policy": alloc_policy})

    def ModifyGroup(self, group: str, reason: str | None = None, **kwargs: Any) -> int:
        """Change a node group: the parameters of OP_GROUP_SET_PARAMS."""
        return self._Send(HTTP_PUT, _Path("groups", group, "modify"), _Given(("reason", reason)), kwargs)

    def DeleteGroup(self, group: str, dry_run: bool = False, reason: str | None = None) -> int:
        """Remove a node group."""
        query = _Given(("dry-run", _Flag(dry_run)), ("reason", reason))
        return self._Send(HTTP_DELETE, _Path("groups", group), query)

    def RenameGroup(self, group: str, new_name: str, reason: str | None = None) -> int:
        """Rename a node group."""
        query = _Given(("reason", reason))
        return self._Send(HTTP_PUT, _Path("groups", group, "rename"), query, {"new_name": new_name})

    def AssignGroupNodes(
        self,
        group: str,
        nodes: Sequence[str],
        force: bool = False,
        dry_run: bool = False,
        reason: str | None = None,
    ) -> int:
        """Move nodes into a node group; ``force``: even if instances end up in two groups."""
        query = _Given(("force", _Flag(force)), ("dry-run", _Flag(dry_run)), ("reason", reason))
        return self._Send(HTTP_PUT, _Path("groups", group, "assign-nodes"), query, {"nodes": nodes})

    def GetGroupTags(self, group: str, reason: str | None = None) -> list[str]:
        """Return a node group's tags."""
        return self._Read(_Path("groups", group, "tags"), reason)

    def AddGroupTags(self, group: str, tags: Iterable[str], dry_run: bool = False, reason: str | None = None) -> int:
        """Add tags to a node group."""
        return self._ChangeTags(HTTP_PUT, _Path("groups", group, "tags"), tags, dry_run, reason)

    def DeleteGroupTags(self, group: str, tags: Iterable[str], dry_run: bool = False, reason: str | None = None) -> int:
        """Remove tags from a node group."""
        return self._ChangeTags(HTTP_DELETE, _Path("groups", group, "tags"), tags, dry_run, reason)

    # --- queries ------------------------------------------------------------------------------------------------------

    def Query(self, what: str, fields: Sequence[str], qfilter: Any = None, reason: str | None = None) -> dict[str, Any]:
        """Return fields of all objects of a kind that match a filter, such as ``["=", "name", "web1.example.com"]``."""
        # Older servers know the filter by its older name.
        body = {"fields": fields, **_Object(qfilter=qfilter, filter=qfilter)}
        return self._Send(HTTP_PUT, _Path("query", what), _Given(("reason", reason)), body)

    def QueryFields(self, what: str, fields: Sequence[str] | None = None, reason: str | None = None) -> dict[str, Any]:
        """Return what fields objects of a kind have; ``fields``: only these."""
        query = _Given(("reason", reason), ("fields", None if fields is None else ",".join(fields)))
        return self._Send(HTTP_GET, _Path("query", what, "fields"), query)

    # --- job filters --------------------------------------------------------------------------------------------------

    def GetFilters(self, bulk: bool = False) -> Any:
        """Return the UUIDs of all job filters, or with ``bulk`` what is known of each."""
        return self._Names("filters", "uuid", bulk)

    def GetFilter(self, filter_uuid: str) -> dict[str, Any]:
        """Return what is known of a job filter."""
        return self._Send(HTTP_GET, _Path("filters", filter_uuid))

    def AddFilter(self, priority: int, predicates: Any, action: Any, reason_trail: Any = None) -> str:
        """Add a job filter and return its UUID."""
        body = _FilterBody(priority, predicates, action, reason_trail)
        return self._Send(HTTP_POST, _Path("filters"), (), body)

    def ReplaceFilter(self, uuid: str, priority: int, predicates: Any, action: Any, reason_trail: Any = None) -> str:
        """Replace a job filter, or add one with this UUID; return the UUID."""
        body = _FilterBody(priority, predicates, action, reason_trail)
        return self._Send(HTTP_PUT, _Path("filters", uuid), (), body)

    def DeleteFilter(self, uuid: str) -> None:
        """Remove a job filter."""
        return self._Send(HTTP_DELETE, _Path("filters", uuid), (), {})


def _FilterBody(priority: int, predicates: Any, action: Any, reason_trail: Any) -> dict[str, Any]:
    trail = [*(reason_trail or []), ["gnt:client", "", EpochNano()]]
    return {"priority": priority, "predicates": predicates, "action": action, "reason": trail}
