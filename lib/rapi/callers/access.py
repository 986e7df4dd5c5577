"""Who sends a request and what it may do: the users file, and the place where tokens come in (doc/reference/rapi.md 2)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ganeti import runtime
from ganeti.rapi.declared import READ, WRITE, Method, Resource
from ganeti.rapi.requests.call import Caller, HttpError

REALM = "Ganeti Remote API"
MAX_FILE = 1024 * 1024
_CHALLENGE = {"WWW-Authenticate": f'Basic realm="{REALM}"'}
_SCHEME = re.compile(r"\{(\w+)\}(.*)", re.DOTALL)
_SCHEMES = frozenset(["HA1", "CLEARTEXT"])
_DIGEST = re.compile(r"[0-9a-f]{32}", re.ASCII | re.IGNORECASE)
_OPTIONS = frozenset([READ, WRITE])
# Somebody who is not in the file takes as long to reject as somebody who is.
_NOBODY = "{HA1}" + "0" * 32

TokenFinder = Callable[[str, str], Awaitable[Caller | None]]
"""Returns the caller with this token at this address, None for a token that is unknown, expired or revoked."""


@dataclass(frozen=True)
class User:
    """One line of the users file."""

    name: str
    password: str
    options: frozenset[str]

    def Fits(self, password: str) -> bool:
        """Whether this is the password; how long that takes says nothing about the right one."""
        scheme = _SCHEME.fullmatch(self.password)
        kind = scheme[1].upper() if scheme else "CLEARTEXT"
        if kind == "HA1" and scheme:
            text = f"{self.name}:{REALM}:{password}"
            digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
            return hmac.compare_digest(digest.encode(), scheme[2].lower().encode())
        wanted = scheme[2] if scheme else self.password
        fits = hmac.compare_digest(password.encode(), wanted.encode())
        return fits and kind == "CLEARTEXT" and (scheme is not None or not self.password.startswith("{"))


def ParseUsers(text: str) -> tuple[dict[str, User], list[str]]:
    """Return the users by name, and what is wrong with lines of the file (never their content, which may be a password)."""
    users: dict[str, User] = {}
    lines: dict[str, int] = {}
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split(None, 2)
        if not fields or fields[0].startswith("#"):
            continue
        if len(fields) < 2:
            problems.append(f"line {number} has no password and is ignored")
            continue
        options = (
            frozenset(filter(None, (part.strip() for part in fields[2].split(",")))) if fields[2:] else frozenset()
        )
        user = users[fields[0]] = User(fields[0], fields[1], options)
        if user.name in lines:
            problems.append(f"line {number} has the same name as line {lines[user.name]}, which does not count")
        lines[user.name] = number
        problems += [f"line {number} {problem}" for problem in _Mistakes(user)]
    return users, problems


def _Mistakes(user: User) -> list[str]:
    """Return what a line says that takes rights away, as nobody can have meant it."""
    found = []
    if user.options - _OPTIONS:
        known = " and ".join(f"'{option}'" for option in sorted(_OPTIONS))
        found.append(f"has an option that is not known and has no effect; {known} are, with a comma between them")
    scheme = _SCHEME.fullmatch(user.password)
    if scheme is None:
        broken = user.password.startswith("{")
    else:
        broken = scheme[1].upper() not in _SCHEMES
    if broken:
        found.append("has a form of password that is not known, so this user cannot log in; write {HA1} or {CLEARTEXT}")
    elif scheme is not None and scheme[1].upper() == "HA1" and not _DIGEST.fullmatch(scheme[2]):
        found.append("has no 32 hexadecimal digits after {HA1}, so this user cannot log in")
    return found


class Users:
    """The users file as it is now; without one that can be read there are no users."""

    def __init__(self, path: str):
        self._path = path
        self._users: dict[str, User] = {}

    def Load(self) -> None:
        """Read the file again; says in the log what became of it."""
        self._users = {}
        try:
            text = runtime.ReadText(self._path, MAX_FILE)
        except FileNotFoundError:
            logging.warning("Users file %s does not exist: nobody can log in", self._path)
            return
        except (OSError, ValueError, runtime.FileTooLarge) as err:
            reason = err.strerror if isinstance(err, OSError) and err.strerror else _Why(err)
            logging.error("Users file %s cannot be read: %s; nobody can log in", self._path, reason)
            return
        self._users, problems = ParseUsers(text)
        for problem in problems:
            logging.warning("Users file %s: %s", self._path, problem)
        logging.info("Users file %s: %d users", self._path, len(self._users))

    def Find(self, name: str, password: str) -> User | None:
        """Return the user if the password is right."""
        user = self._users.get(name)
        if user is None:
            User(name, _NOBODY, frozenset()).Fits(password)
            return None
        return user if user.Fits(password) else None

    def Knows(self, name: str) -> bool:
        return name in self._users


def _Why(err: Exception) -> str:
    """Name the trouble without any of the content, which may be a password."""
    if isinstance(err, UnicodeDecodeError):
        return f"it is not UTF-8 at byte {err.start}"
    return f"it is larger than {MAX_FILE} bytes" if isinstance(err, runtime.FileTooLarge) else type(err).__name__


class Access:
    """Identifies callers and decides what they may do."""

    def __init__(self, users: Users, required: bool = False, tokens: TokenFinder | None = None):
        self._users = users
        self._required = required
        self._tokens = tokens

    @property
    def required(self) -> bool:
        """Whether every request needs credentials."""
        return self._required

    async def Identify(self, header: str | None, address: str) -> Caller:
        """Return who sends this Authorization header; one that is sent must be right, even where none is needed."""
        if header is None:
            return Caller(None, address)
        scheme, _, rest = header.strip().partition(" ")
        words = rest.split()
        if scheme.lower() == "bearer" and words and self._tokens is not None:
            caller = await self._tokens(words[0], address)
            if caller is None:
                logging.warning("Login from %s failed: the token is not known, has expired or is revoked", address)
                raise Unauthorized()
            return caller
        if scheme.lower() != "basic":
            raise Unauthorized()
        if not words:
            raise HttpError(400, "The Authorization header has no credentials")
        return self._LogIn(words[0], address)

    def _LogIn(self, credentials: str, address: str) -> Caller:
        try:
            name, colon, password = base64.b64decode(credentials, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            raise Unauthorized() from None
        user = self._users.Find(name, password) if colon else None
        if user is None:
            # A name that nobody has may be a password in the wrong place.
            who = f"user {name!r}" if self._users.Knows(name) else "an unknown user"
            logging.warning("Login of %s from %s failed", who, address)
            raise Unauthorized()
        return Caller(user.name, address, user.options)

    def Check(self, caller: Caller, resource: Resource, verb: str) -> None:
        """Raise HttpError (401, 403) unless the caller may do this."""
        method = resource.methods[verb]
        if caller.role is not None:
            _CheckRole(caller, method)
            return
        needed = resource.Access(verb)
        if caller.name is None and (needed or self._required):
            raise Unauthorized()
        if needed and not caller.options & {WRITE, *needed}:
            raise HttpError(403, f"This needs a user with the option {' or '.join(needed)}")


def _CheckRole(caller: Caller, method: Method) -> None:
    assert caller.role is not None
    if caller.role < method.role:
        raise HttpError(403, f"This needs a token with the role {method.role.name.lower()}")


def Unauthorized() -> HttpError:
    """Return the answer that asks for credentials."""
    return HttpError(401, headers=_CHALLENGE)
