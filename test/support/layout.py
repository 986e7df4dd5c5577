"""The package with other decisions of configure than the tree's: a directory of links, as a VPATH build makes it."""

from __future__ import annotations

import os
import subprocess
import sys

from support import patience
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
        [sys.executable, "-B", writer, os.path.join(package, "_autoconf.py"), *values],
        check=True,
        timeout=30 * patience.MOST,
    )
    return directory


def WriteProgram(path: str, text: str) -> str:
    """An executable file."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.chmod(path, 0o755)
    return path


def InstallPrograms(directory: str, package: str) -> None:
    """Makes every program in DIRECTORY, for Python and shell alike; PACKAGE: where ``MakePackage`` made the package."""
    tools = os.path.join(TOP, "autotools")
    listed = os.path.join(tools, "programs")
    with open(listed, encoding="utf-8") as stream:
        names = [words[1] for words in map(str.split, stream) if len(words) == 3 and words[0] != "#"]
    writer = os.path.join(tools, "write-start-script")
    commands = [[writer, os.path.join(directory, name), sys.executable, package, listed] for name in names]
    shell = os.path.join(TOP, "daemons", "tools")
    autoconf = os.path.join(package, "ganeti", "_autoconf.py")
    commands += [
        [os.path.join(tools, "substitute"), os.path.join(shell, name), os.path.join(directory, name[:-3]), autoconf]
        for name in os.listdir(shell)
        if name.endswith(".in")
    ]
    for command in commands:
        subprocess.run([sys.executable, "-B", *command], check=True, timeout=30 * patience.MOST)
