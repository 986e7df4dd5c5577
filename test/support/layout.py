"""The package with other decisions of configure than the tree's: a directory of links, as a VPATH build makes it."""

from __future__ import annotations

import os
import subprocess
import sys

from support.virtualnode import TOP


def MakePackage(directory: str, **settings: str) -> str:
    """Makes DIRECTORY/ganeti with the given settings of autotools/write-autoconf; returns DIRECTORY for PYTHONPATH."""
    package = os.path.join(directory, "ganeti")
    os.makedirs(package)
    for name in os.listdir(os.path.join(TOP, "lib")):
        if name not in ("_autoconf.py", "__pycache__"):
            os.symlink(os.path.join(TOP, "lib", name), os.path.join(package, name))
    values = [f"{name}={value}" for name, value in settings.items()]
    writer = os.path.join(TOP, "autotools", "write-autoconf")
    subprocess.run(
        [sys.executable, "-B", writer, os.path.join(package, "_autoconf.py"), *values], check=True, timeout=30
    )
    return directory


def WriteProgram(path: str, text: str) -> str:
    """An executable file."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.chmod(path, 0o755)
    return path
