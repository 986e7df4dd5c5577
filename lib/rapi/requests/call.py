"""One request as actions see it, what they may return, and the errors that clients get."""

from __future__ import annotations

import http
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from ganeti import errors
from ganeti.rapi.declared import WRITE, Role

if TYPE_CHECKING:
    from ganeti.rapi.declared import Method, Resource

ABSENT: Final = object()
"""The body of a request that has none."""


class HttpError(errors.GenericError):
    """A request that is answered with an error of HTTP; a status that HTTP does not define is a ValueError."""

    def __init__(self, code: int, message: str = "", headers: Mapping[str, str] | None = None):
        phrase = http.HTTPStatus(code).phrase
        super().__init__(message or phrase)
        self.code = code
        self.headers = dict(headers or {})

    @property
    def explain(self) -> str:
        return http.HTTPStatus(self.code).description


class Master(Protocol):
    """The master daemon, over LUXI."""

    async def Call(self, method: str, *args: Any, caller: Caller | None = None) -> Any:
        """Call a LUXI method; ``caller``: for whom, None for this daemon itself.

        Raises the method's own error, or HttpError: 502 where no master daemon answers (it names the master if this node
        is not it), 503 where no place becomes free, 504 at a time-out.
        """


@dataclass(frozen=True)
class Caller:
    """Who sends a request: a user of the users file, a token, or nobody by name.

    ``address``: with the port.  ``options``: of the users file.  ``role``: of a token, else None.  ``tags``: a token's
    instances have one of these; empty: any.  ``since``: when the token was created.
    """

    name: str | None
    address: str
    options: frozenset[str] = frozenset()
    role: Role | None = None
    tags: tuple[str, ...] = ()
    since: float = 0.0

    @property
    def stranger(self) -> bool:
        """Whether the caller has not logged in."""
        return self.name is None

    @property
    def operates(self) -> bool:
        """Whether the caller may do more than read: a user with the option ``write``, a token from the role operate on."""
        return WRITE in self.options if self.role is None else self.role >= Role.OPERATE

    @property
    def from_browser(self) -> bool:
        """Whether a browser may have sent the caller's login by itself, as it does with passwords, not with tokens."""
        return self.name is not None and self.role is None

    @property
    def host(self) -> str:
        """The address without the port."""
        return self.address.rpartition(":")[0]


@dataclass
class Call:
    """A request whose sender may do what it asks.

    ``names``: what stands in the path for each segment.  ``arguments``: each declared argument's value.  ``body``: the JSON
    value, or ABSENT.  ``headers`` have names in lower case.
    """

    resource: Resource
    method: Method
    verb: str
    caller: Caller
    master: Master
    names: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    body: Any = ABSENT
    headers: Mapping[str, str] = field(default_factory=dict)
    if_match: str | None = None
    """What a job compares again under its locks: the parameter ``if_match`` of its first opcode."""
    seen: Mapping[str, Any] | None = None
    """What If-Match found at the path: values that a change without a job compares again; empty: any value will do."""
    instance_uuid: str | None = None
    """Of the instance whose tags were compared with the token's: no job is for another one of that name."""

    @property
    def target(self) -> str:
        """The object in the path: its UUID where that was looked at before, else its name."""
        return self.instance_uuid or self.names["name"]

    async def Ask(self, method: str, *args: Any) -> Any:
        """Call a LUXI method for the caller of this request."""
        return await self.master.Call(method, *args, caller=self.caller)


@dataclass
class Answer:
    """A value with more to say about it.  (A stream or another type than JSON is returned as a response of Starlette.)

    ``version``: what its ETag is made of, such as a UUID and a serial number (``Method.etag``).
    """

    value: Any
    version: Sequence[Any] = ()
