"""cfgshell: a walk through a configuration file, with a few changes (doc/reference/tools.md 8.2).

Objects are shown under their names where these are unique, else under their UUIDs.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ganeti import configfile, constants, errors, objects, pathutils, runtime, serializer, upgrade
from ganeti.configfile.load import MAX_CONFIG
from ganeti.daemon.main import ErrorText
from ganeti.tools import common
from ganeti.utils import files
from ganeti.utils.text import Printable

_DELETABLE = ("instances", "nodes")
# Where configurations are kept by UUID: named by their names here.
_KINDS = ("nodes", "nodegroups", "instances", "networks", "disks", "filters")


def Main() -> int:
    parser = common.Parser("%prog [CONFIG-FILE]\n\nShows and changes a configuration file")
    parser.prog = "cfgshell"
    options, arguments = parser.parse_args()
    common.LogToStderr(options.debug, options.verbose)
    if len(arguments) > 1:
        parser.error("At most one argument is expected")
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - lines can be edited and called back
    shell = Shell()
    if arguments:
        shell.Do(f"load {arguments[0]}")
    try:
        while shell.Do(input(shell.prompt)):
            sys.stdout.flush()
    except EOFError:
        print()
    except KeyboardInterrupt:
        print()
        return constants.EXIT_FAILURE
    return constants.EXIT_SUCCESS


def _IsContainer(value: Any) -> bool:
    return isinstance(value, (dict, list))


class Shell:
    """``_data``: the configuration as it was read; ``_path``: the keys that lead to where the user is."""

    def __init__(self) -> None:
        self._file = ""
        self._data: dict[str, Any] | None = None
        self._path: list[str] = []
        self._commands: dict[str, Callable[[str], None]] = {
            "load": self._Load,
            "ls": self._List,
            "cd": self._Go,
            "pwd": self._Where,
            "cat": self._Print,
            "verify": self._Verify,
            "save": self._Save,
            "rm": self._Remove,
            "help": self._Help,
        }

    @property
    def prompt(self) -> str:
        return "(#no config) " if self._data is None else f"({self._Place()}) "

    def _Place(self) -> str:
        return "/" + "/".join(map(Printable, self._path))

    def Do(self, line: str) -> bool:
        """Do what a line says; return whether there is to be another one."""
        word, _, rest = line.strip().partition(" ")
        if word == "quit":
            return False
        command = self._commands.get(word)
        try:
            if command is not None:
                command(rest.strip())
            elif word:
                print(f"*** Unknown syntax: {Printable(line)}")
        except errors.GenericError as err:
            print(Printable(ErrorText(err), "\n"))
        except OSError as err:
            print(f"{err.filename}: {err.strerror}")
        return True

    def _Help(self, _name: str) -> None:
        print(f"Commands: {', '.join([*self._commands, 'quit'])}")

    # --- the tree -----------------------------------------------------------------------------------------------------

    def _Loaded(self) -> dict[str, Any]:
        if self._data is None:
            raise errors.ParameterError("No config data loaded")
        return self._data

    def _Children(self, path: list[str]) -> dict[str, Any]:
        """Return the entries of a place by the names that are shown."""
        value: Any = self._Loaded()
        for number, name in enumerate(path):
            value = _Named(path[:number], value)[name]
        return _Named(path, value)

    def _Here(self) -> dict[str, Any]:
        return self._Children(self._path)

    # --- commands -----------------------------------------------------------------------------------------------------

    def _Load(self, name: str) -> None:
        """Read a configuration, that of the cluster by default."""
        path = name or pathutils.CLUSTER_CONF_FILE
        data = serializer.LoadProper(runtime.ReadFile(path, MAX_CONFIG), MAX_CONFIG)
        if not isinstance(data, dict):
            raise errors.ConfigurationError(f"{path} holds no JSON object")
        self._file, self._data, self._path = path, data, []

    def _List(self, _name: str) -> None:
        """List the entries here; those with a slash have entries themselves."""
        for name, value in self._Here().items():
            print(Printable(name) + ("/" if _IsContainer(value) else ""))

    def _Go(self, name: str) -> None:
        """Go to an entry, back, or to the top."""
        here = self._Here()
        if name in ("", "/"):
            self._path = []
        elif name == "..":
            if not self._path:
                print("Already at top level")
            self._path = self._path[:-1]
        elif _IsContainer(here.get(name)):
            self._path.append(name)
        else:
            print("No such child")

    def _Where(self, _name: str) -> None:
        """Print where you are."""
        self._Loaded()
        print(self._Place())

    def _Print(self, name: str) -> None:
        """Print an entry."""
        here = self._Here()
        if name not in here:
            print("No such entry")
        else:
            print(Printable(serializer.Dump(here[name]), "\n\t"))

    def _Verify(self, _name: str) -> None:
        """Check the configuration."""
        problems = self._Problems()
        print("\n".join(Printable(problem) for problem in problems) or "No problems found")

    def _Problems(self) -> list[str]:
        try:
            return configfile.VerifyConfig(configfile.LoadDict(upgrade.UpgradeConfig(self._Loaded())))
        except (errors.ConfigurationError, errors.ParseError) as err:
            return [str(err)]

    def _Save(self, _name: str) -> None:
        """Write the file, unless it has problems; the one before is kept beside it."""
        data = self._Loaded()
        problems = self._Problems()
        if problems:
            print("\n".join(["Not saved, the configuration has problems:", *map(Printable, problems)]))
            return
        if self._file == pathutils.CLUSTER_CONF_FILE:
            # The master daemon would write over it; at its next start it takes what was changed here.
            common.CheckStopped()
        info = runtime.Stat(self._file)
        copy = files.KeepCopy(self._file)
        text = serializer.Dump(data if upgrade.Version(data) != upgrade.V3_1 else _Again(data))
        runtime.WriteFile(self._file, text, info.st_mode & 0o777, info.st_uid, info.st_gid)
        print(f"Saved; the configuration as it was is in {copy}")

    def _Remove(self, name: str) -> None:
        """Remove an instance with its disks, or a node."""
        here = self._Here()
        if len(self._path) != 1 or self._path[0] not in _DELETABLE:
            print("Can only delete instances and nodes")
            return
        if name not in here:
            print("No such entry")
            return
        data = self._Loaded()
        removed = here[name]
        kept = data[self._path[0]]
        data[self._path[0]] = {key: value for key, value in kept.items() if value is not removed}
        disks = removed.get("disks") if isinstance(removed, dict) else None
        for uuid in disks if isinstance(disks, list) else ():
            if isinstance(uuid, str):
                data.get("disks", {}).pop(uuid, None)


def _Again(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration in the form in which this release writes it."""
    loaded: dict[str, Any] = serializer.Load(objects.ConfigText(configfile.LoadDict(dict(data))))
    return loaded


def _Named(path: list[str], value: Any) -> dict[str, Any]:
    """Return the entries of a container: those of a list by number, objects by name."""
    if isinstance(value, list):
        return {str(number): item for number, item in enumerate(value)}
    if not isinstance(value, dict):
        raise errors.ParameterError("No such child")
    if len(path) != 1 or path[0] not in _KINDS:
        return dict(value)
    names = [item.get("name") if isinstance(item, dict) else None for item in value.values()]
    return {
        name if isinstance(name, str) and name and names.count(name) == 1 else key: item
        for name, (key, item) in zip(names, value.items(), strict=True)
    }
