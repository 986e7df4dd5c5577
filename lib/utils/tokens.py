"""Tokens of the remote interface: ``NAME.SECRET``, of which the configuration keeps the SHA-256 only (doc/design-rapi.rst)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re

from ganeti import errors, ht

SECRET_BYTES = 32
MAX_NAME = 64
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{MAX_NAME - 1}}}", re.ASCII)
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)

TName = ht.TRegex(_NAME.pattern, f"a name of up to {MAX_NAME} letters, digits, _ and -")
TDigest = ht.TRegex("[0-9a-f]{64}", "a SHA-256 as 64 hexadecimal digits")


def Make(name: str, secret: bytes) -> str:
    """Return the token of this name with SECRET_BYTES random bytes."""
    if len(secret) != SECRET_BYTES:
        raise errors.ProgrammerError(f"a token has {SECRET_BYTES} random bytes, {len(secret)} were given")
    return f"{name}.{base64.urlsafe_b64encode(secret).rstrip(b'=').decode('ascii')}"


def NameOf(token: str) -> str | None:
    """Return the name in a token; None for a text that cannot be one."""
    name, _, secret = token.partition(".")
    return name if _NAME.fullmatch(name) and _SECRET.fullmatch(secret) else None


def Digest(token: str) -> str:
    """Return what is stored of a token.  Its 256 random bits cannot be guessed, so one fast hash is enough."""
    return hashlib.sha256(token.encode("utf-8")).hexdigest()


def Fits(token: str, digest: str) -> bool:
    """Return whether this is the token; how long that takes says nothing about the right one."""
    return hmac.compare_digest(Digest(token), digest)
