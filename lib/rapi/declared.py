"""What a resource is.  Dispatch, OpenAPI, ``doc/rapi.rst`` and tests follow these declarations and nothing else.

A method says what happens by its ``action``: ``Job`` turns the request into opcodes and submits them; any other awaitable
function of a ``Call`` returns the value to be shown, or an ``Answer`` (``rapi.requests.call``).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ganeti import ht

if TYPE_CHECKING:
    from ganeti.opcodes import OpCode
    from ganeti.rapi.requests.call import Call

READ: Final = "read"
WRITE: Final = "write"
JSON: Final = "application/json"


class Role(enum.IntEnum):
    """What a token may do; each role includes those before it."""

    READ = 1
    OPERATE = 2
    ADMIN = 3


class Scope(enum.Enum):
    """What of a method a token with tags may reach, as long as its role allows the method (``rapi.callers.tokens.CheckScope``)."""

    CLOSED = "closed"
    OPEN = "open"  # it shows nothing about the cluster
    LIST = "list"  # its action leaves out the instances without these tags (``tokens.IsAllowed``)
    INSTANCE = "instance"  # where {name} in the path is an instance with one of these tags
    OWN_JOB = "own job"  # where {job} in the path is a job that the token has submitted itself


class ArgumentKind(enum.Enum):
    """How the text of an argument is read (doc/reference/rapi.md 6.1)."""

    FLAG = "flag"  # a decimal number, 0 is false
    TEXT = "text"
    FIELDS = "fields"  # names separated by commas
    TEXTS = "texts"  # may be given several times


@dataclass(frozen=True)
class Argument:
    """One argument of the query string; a flag that is absent is ``default``, anything else None or []."""

    name: str
    kind: ArgumentKind
    doc: str
    required: bool = False
    default: Any = None


class BodyUse(enum.Enum):
    """What a method does with a body.  A body is always JSON with its content type, whatever becomes of it."""

    IGNORED = "ignored"  # of an object, the parameters of all jobs count where the action is a job
    OPTIONAL = "optional"  # an object; absent, empty and null are an empty one
    REQUIRED = "required"  # an object
    ANY = "any"  # any JSON value; the action checks it


class Etag(enum.Enum):
    """What the version stands for that an answer may have, shown as its ETag."""

    NONE = "none"
    OBJECT = (
        "object"  # one object's own; the answer also shows what changes without it, so it is never answered with 304
    )
    WHOLE = "whole"  # everything that the answer shows


@dataclass(frozen=True)
class Header:
    """A header that one method reads, beside those that mean the same everywhere."""

    name: str
    doc: str


Static = Callable[["Call"], dict[str, Any]]


@dataclass(frozen=True)
class Job:
    """Submits a job, as a rule of one opcode; the answer is the job's number.

    Its parameters come from the body, except for the ``static`` ones.  ``aliases``: name in the body -> parameter.
    ``forbidden``: parameters that are rejected with 403.  ``reads``: changes the body before the names are looked at.
    ``steps``: all opcodes of the job, made from this one.
    """

    opcode: type[OpCode]
    static: Static = lambda call: {}
    static_names: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    forbidden: tuple[str, ...] = ()
    reads: Callable[[Call, dict[str, Any]], dict[str, Any]] | None = None
    steps: Callable[[Call, OpCode], list[OpCode]] = lambda call, op: [op]

    async def __call__(self, call: Call) -> Any:
        from ganeti.rapi.requests import bodies

        return await bodies.Submit(call, self.steps(call, bodies.Fill(self, call)))


Action = Callable[["Call"], Awaitable[Any]]


@dataclass(frozen=True)
class Method:
    """One verb of a resource.

    ``access``: one of these options of the users file is needed; None: GET is open, all others need ``write``.
    ``role``: what a token needs; ``scope``: what of it a token with tags may reach, nothing unless declared.
    ``answer``: the type of the answer's JSON.  ``addition``: not in 3.1.  ``media``: the content type where the answer is not JSON.  ``etag``: what an answer's version stands for; an answer of a
    method that has one may lack it, such as a list with all fields.
    """

    action: Action
    doc: str
    role: Role
    answer: ht.Type = ht.TAny
    scope: Scope = Scope.CLOSED
    access: tuple[str, ...] | None = None
    arguments: tuple[Argument, ...] = ()
    body: BodyUse = BodyUse.IGNORED
    body_type: ht.Type | None = None
    """The type of a body that does not consist of an opcode's parameters; for a Job, of the keys beside these."""
    example: Any = None
    """A body that could be sent, for documents and tests."""
    answer_example: Any = None
    """An answer, as it is shown; for a job it follows from its type."""
    addition: bool = False
    media: str = JSON
    etag: Etag = Etag.NONE
    headers: tuple[Header, ...] = ()


# What the segments of a path may be.
SEGMENTS: Final = {
    "name": r"[A-Za-z0-9_.-]+",
    "uuid": r"[A-Za-z0-9_.-]+",
    "resource": r"[A-Za-z0-9_.-]+",
    "job": r"[0-9]+",
    "index": r"[0-9]+",
}
_SEGMENT = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Resource:
    """A path, such as ``/2/instances/{name}/startup``, with its methods by verb."""

    path: str
    doc: str
    methods: Mapping[str, Method]
    reason: str = ""
    """The word for reason trails, where it does not follow from the path."""
    shown_at: str = ""
    """The path that shows what is changed here, where that is neither this one nor an object in it."""
    version: Callable[[Call], Awaitable[Sequence[Any]]] | None = None
    """Returns UUID and serial number of the object that is changed here, where the path does not name it."""

    @property
    def pattern(self) -> re.Pattern[str]:
        """The expression that the undecoded path must match in full."""
        parts = _SEGMENT.split(self.path)
        text = "".join(f"(?P<{p}>{SEGMENTS[p]})" if i % 2 else re.escape(p) for i, p in enumerate(parts))
        return re.compile(text)

    @property
    def word(self) -> str:
        """The word for reason trails: ``instances_name_startup`` (doc/reference/rapi.md 6.4)."""
        if self.reason:
            return self.reason
        words = self.path.removeprefix("/2/").replace("/{index}", "").replace("{", "").replace("}", "")
        return words.replace("/", "_").replace("-", "_")

    def Access(self, verb: str) -> tuple[str, ...]:
        """Return the options of which a user needs one; empty: anybody may."""
        access = self.methods[verb].access
        if access is not None:
            return access
        return () if verb == "GET" else (WRITE,)
