"""check-cert-expired FILE: exit code 0 if the certificate is not in force (yet or now), 1 in every other case."""

from __future__ import annotations

import os
import sys

from ganeti import errors, runtime, x509

_LIMIT = 1024 * 1024


def Main() -> int:
    program, *arguments = sys.argv
    if len(arguments) != 1:
        sys.stderr.write(f"Usage: {os.path.basename(program)} <certificate-path>\n")
        return 1
    (path,) = arguments
    try:
        in_force = x509.IsInForce(runtime.ReadFile(path, _LIMIT), path)
    except (OSError, errors.X509CertError) as err:
        sys.stderr.write(f"{path}: {err.args[1] if len(err.args) > 1 else err}\n")
        return 1
    if in_force:
        sys.stderr.write(f"{path}: the certificate is valid\n")
        return 1
    return 0
