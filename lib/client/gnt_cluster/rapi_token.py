"""gnt-cluster rapi-token: tokens with which programs use the remote interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ganeti import constants, errors, runtime
from ganeti.cli import jobs, output, tables
from ganeti.cli import options as o
from ganeti.cli.command import Command, Maybe, One
from ganeti.cli.parser import Options, Value, Values
from ganeti.opcodes import OpClusterRapiTokenAdd, OpClusterRapiTokenRemove
from ganeti.utils import tokens
from ganeti.utils.text import JoinOr, ParseTimespec

ROLE = Value(
    "--role", dest="role", choices=constants.RAPI_ROLES,
    text="What the token may do: " + ", ".join(f"{role} {doc}" for role, doc in constants.RAPI_ROLE_DOCS.items()),
)  # fmt: skip
EXPIRES = Value(
    "--expires",
    dest="expires",
    metavar="TIME",
    text="Time until the token expires, such as 12h or 30d; never if absent",
)
TAG = Values(
    "--tag", dest="tags", metavar="TAG",
    text="Only instances with this tag; repeat it to allow instances with any of several tags",
)  # fmt: skip

# A century: what is longer was hardly meant.
_LONGEST_DAYS = 36_500

_COLUMNS = tuple(tables.Column(title) for title in ("Name", "Role", "Tags", "Created", "Expires"))
_DETAILS = (
    "``add`` prints the token, which is shown only once: the cluster keeps its SHA-256.  A program sends it in the header"
    " ``Authorization: Bearer TOKEN``.  A token with tags reaches only instances that have one of them, and the jobs that it"
    " has submitted itself.  ``remove`` revokes a token at once."
)


def _Invalid(text: str, hint: str) -> errors.OpPrereqError:
    return errors.OpPrereqError(text, errors.ECODE_INVAL, hint=hint)


def _Name(arguments: list[str], command: str) -> str:
    if len(arguments) < 2:
        raise _Invalid("The name of the token is missing", f"write: gnt-cluster rapi-token {command} NAME")
    if not tokens.TName(arguments[1]):
        raise _Invalid(f"'{arguments[1]}' is not a valid name of a token", f"use {tokens.TName.words}")
    return arguments[1]


def _Add(options: Options, name: str) -> None:
    if options.role is None:
        raise _Invalid("The role of the token is missing", f"add --role {JoinOr(constants.RAPI_ROLES)} before {name}")
    expires = None
    if options.expires is not None:
        seconds = ParseTimespec(options.expires)
        if seconds <= 0:
            raise _Invalid("A token must expire in the future", "choose a time such as 12h or 30d")
        if seconds > _LONGEST_DAYS * 86400:
            raise _Invalid(
                f"A token cannot expire later than in {_LONGEST_DAYS} days",
                "choose a time such as 12h or 30d, or leave out --expires for a token that never expires",
            )
        expires = runtime.Time() + seconds
    token = tokens.Make(name, runtime.RandomBytes(tokens.SECRET_BYTES))
    op = OpClusterRapiTokenAdd(
        name=name, sha256=tokens.Digest(token), role=options.role, tags=options.tags, expires=expires
    )
    jobs.SubmitOpCode(op, options)
    output.ToStdout(token)
    output.ToStderr("This token is not shown again.")


def _List(options: Options) -> None:
    found = jobs.GetClient().QueryRapiTokens(None)
    if options.output:
        output.PrintJson([{key: token[key] for key in token if key != "sha256"} for token in found])
        return
    for line in tables.Layout(_COLUMNS, [_Row(token) for token in found], not options.no_headers, options.separator):
        output.ToStdout(line, options.separator or "")


def _Row(token: Mapping[str, Any]) -> list[str]:
    expires = token["expires"]
    until = "never" if expires is None else tables.FormatTimestamp(expires)
    if expires is not None and expires <= runtime.Time():
        until += " (expired)"
    tags = tables.JoinList(token["tags"]) or "-"
    return [token["name"], token["role"], tags, tables.FormatTimestamp(token["created"]), until]


def Run(options: Options, arguments: list[str]) -> int:
    command = arguments[0]
    if command == "add":
        _Add(options, _Name(arguments, command))
    elif command == "list":
        if len(arguments) > 1:
            raise _Invalid(f"'{arguments[1]}': list takes no name", "write: gnt-cluster rapi-token list")
        _List(options)
    elif command == "remove":
        jobs.SubmitOpCode(OpClusterRapiTokenRemove(name=_Name(arguments, command)), options)
    else:
        raise _Invalid(f"Command '{command}' is not valid.", "write add, list or remove")
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Add, list or remove tokens with which programs use the remote interface",
    (One("command", ("add", "list", "remove")), Maybe("name")),
    (ROLE, EXPIRES, TAG, *o.SET_HEADERS, o.OUTPUT_FORMAT, o.PRIORITY),
    details=_DETAILS,
)
