"""What both sides' databases share: SQLite's errors in the words of the system and ours."""

from __future__ import annotations

import errno
import os
import sqlite3

from ganeti import errors
from ganeti.runtime.contract import BusyDatabase, DamagedDatabase

# How long another process may keep a database locked.
BUSY_SECONDS = 20.0

_SYSTEM_ERRORS = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_CANTOPEN: errno.ENOENT,
    sqlite3.SQLITE_PERM: errno.EACCES,
    sqlite3.SQLITE_AUTH: errno.EACCES,
    sqlite3.SQLITE_NOMEM: errno.ENOMEM,
}
# Python's own complaint about a text that SQLite gave it.
_NO_TEXT = "Could not decode to UTF-8"
_NO_SCHEMA = ("no such table", "no such column", "no such index")


FAILURES = (sqlite3.Error, UnicodeDecodeError)
"""What a statement may raise; the second when a message of SQLite quotes bytes of a damaged schema."""


def IsBusy(err: sqlite3.Error | UnicodeDecodeError) -> bool:
    """Return whether another connection keeps the database locked."""
    code = getattr(err, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def Translate(path: str, err: sqlite3.Error | UnicodeDecodeError) -> Exception:
    """Return an error of SQLite as one of the system's or ours."""
    if isinstance(err, UnicodeDecodeError):
        return DamagedDatabase(path, "its schema cannot be read")
    code = getattr(err, "sqlite_errorcode", None)
    base = code & 0xFF if code is not None else None
    if base in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return DamagedDatabase(path, err)
    if IsBusy(err):
        return BusyDatabase(path, BUSY_SECONDS)
    if base is None and str(err).startswith(_NO_TEXT):  # what follows is the row itself, maybe a secret
        return DamagedDatabase(path, f"{_NO_TEXT} a row")
    if base == sqlite3.SQLITE_ERROR and str(err).startswith(_NO_SCHEMA):
        return DamagedDatabase(path, err)
    if base in _SYSTEM_ERRORS:
        return OSError(_SYSTEM_ERRORS[base], f"{os.strerror(_SYSTEM_ERRORS[base])} (database: {err})", path)
    return errors.StorageError(f"database {path} rejected a statement: {err}")
