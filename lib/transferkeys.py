"""Keys that were made on this node for one transfer each (RUN/crypto), and what is left of them when it is over."""

from __future__ import annotations

import logging
import posixpath
import stat

from ganeti import errors, pathutils, runtime, x509

KEY_FILE, CERT_FILE = "key", "cert"
PEM_LIMIT = 1024 * 1024
# Seconds by which the clock may have been set back since a certificate was made.
_CLOCK_SKEW = 300.0


def RemoveExpired() -> None:
    """Remove the keys whose certificate is not in force; each is named in the log.

    A directory without a certificate was left by a crash, if it is older than any certificate may become.
    """
    try:
        found = runtime.ListStats(pathutils.CRYPTO_KEYS_DIR)
    except FileNotFoundError:
        return
    for name, info in sorted(found.items()):
        path = posixpath.join(pathutils.CRYPTO_KEYS_DIR, name)
        if stat.S_ISDIR(info.st_mode) and _IsOver(posixpath.join(path, CERT_FILE), info.st_mtime) and _Remove(path):
            logging.info("Removed key %s: its certificate expired before the transfer took place", name)


def _IsOver(cert_file: str, made: float) -> bool:
    now = runtime.Time()
    try:
        start, end = x509.Validity(runtime.ReadFile(cert_file, PEM_LIMIT), cert_file)
    except (OSError, errors.X509CertError):
        return made + x509.MAX_TRANSFER_VALIDITY < now
    return end < now or start > now + _CLOCK_SKEW


def _Remove(path: str) -> bool:
    """Remove key and certificate; the directory stays, and is reported, if somebody put something else there."""
    runtime.RemoveFile(posixpath.join(path, CERT_FILE))
    runtime.RemoveFile(posixpath.join(path, KEY_FILE))
    try:
        runtime.RemoveDir(path)
    except OSError:
        return False
    return True
