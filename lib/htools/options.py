"""Options of the programs, each declared once; the command lines of doc/reference/htools.md 1.2 and 22."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ganeti.htools.model.entities import TEMPLATES
from ganeti.htools.sizes import Size
from ganeti.htools.sources.loading import STATIC_KVM_NODE_MEMORY
from ganeti.htools.sources.text import TemplateOf
from ganeti.htools.units import BadSize, ParseSize


class UsageError(Exception):
    """The command line cannot be read: an unknown option, an argument missing or too many."""


class ValueProblem(Exception):
    """The value of an option cannot be used; the text is the whole reason."""


@dataclass(frozen=True)
class Option:
    """One option.

    ``names``: long name, and short letter or "".  ``argument``: its word in help; "" takes none; ``optional``: it must be
    attached.  ``read`` makes a value of the text; with ``repeat`` they are collected.  ``bare``: the value without argument.
    """

    long: str
    doc: str
    short: str = ""
    argument: str = ""
    optional: bool = False
    read: Callable[[str], Any] = str
    default: Any = None
    bare: Any = True
    repeat: bool = False
    completion: str = "none"
    counts: int = 0

    @property
    def dest(self) -> str:
        return self.long.replace("-", "_")

    @property
    def spellings(self) -> str:
        return ",".join(([f"-{self.short}"] if self.short else []) + [f"--{self.long}"])


# --- values -------------------------------------------------------------------------------------------------------------


def ReadSize(label: str, text: str) -> int:
    """Return MiB; raises ValueProblem."""
    try:
        return ParseSize(text)
    except BadSize as err:
        raise ValueProblem(f"{label}: {err}") from None


def _IntOf(label: str) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"\s*-?\d+", text, re.ASCII):
            raise ValueProblem(f"{label}: cannot parse string '{text}'")
        return int(text)

    return read


def _FloatOf(label: str) -> Callable[[str], float]:
    def read(text: str) -> float:
        if not re.fullmatch(r"\s*-?\d+(\.\d+)?([eE][-+]?\d+)?", text, re.ASCII):
            raise ValueProblem(f"{label}: cannot parse string '{text}'")
        return float(text)

    return read


def _List(text: str) -> list[str]:
    return text.split(",") if text else []


def _MaxCpu(text: str) -> float:
    ratio = _FloatOf("parsing max-cpu")(text)
    if ratio <= 0:
        raise ValueProblem("Invalid value of the max-cpu ratio, expected >0")
    return ratio


def _SpindleUse(text: str) -> int:
    number = _IntOf("parsing spindle-use")(text)
    if number < 0:
        raise ValueProblem("Invalid value of the spindle-use (expected >= 0)")
    return number


def _YesNo(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueProblem(f"Invalid choice '{text}', pass one of 'yes' or 'no'")
    return text == "yes"


PRIORITIES: Final = {"low": 10, "normal": 0, "high": -10}


def _Priority(text: str) -> int:
    if text not in PRIORITIES:
        raise ValueProblem(f"Unknown priority '{text}'")
    return PRIORITIES[text]


def _Template(text: str) -> str:
    try:
        return TemplateOf(text)
    except ValueError:
        raise ValueProblem(f'Invalid string value for type DiskTemplate: "{text}"') from None


def _AllocSpecOf(kind: str) -> Callable[[str], Size]:
    def read(text: str) -> Size:
        parts = text.split(",")
        if len(parts) not in (3, 4):
            raise ValueProblem(f"Invalid {kind} specification: '{text}', expected disk,ram,cpu")
        disk = ReadSize(f"{kind} specs disk", parts[0])
        memory = ReadSize(f"{kind} specs memory", parts[1])
        numbers = [_IntOf(f"{kind} specs {what}")(p) for what, p in zip(("cpus", "spindles"), parts[2:], strict=False)]
        return Size(disk, memory, *numbers)

    return read


# --- declarations -------------------------------------------------------------------------------------------------------


def _Flag(long: str, doc: str, short: str = "") -> Option:
    return Option(long, doc, short, default=False)


def _Named(long: str, doc: str, argument: str, short: str = "", **more: Any) -> Option:
    return Option(long, doc, short, argument, **more)


def _Real(long: str, doc: str, default: float | None, short: str = "") -> Option:
    return Option(long, doc, short, "NUMBER", read=_FloatOf(f"parsing {long}"), default=default, completion="float")


_TEMPLATE_CHOICES = "choices=" + ",".join(TEMPLATES)

OPTIONS: Final = {
    option.long: option
    for option in (
        _Named("text-data", "take the cluster from a text file", "FILE", "t", completion="file"),
        _Named("master", "take the cluster from RAPI at this address", "ADDRESS", "m", completion="host"),
        _Named("credentials", "file with what a server of RAPI is told: USER PASSWORD, or a token", "FILE",
               completion="file"),
        _Named("cacert", "file with the certificate of a server of RAPI, or of the authority that signed it", "FILE",
               completion="file"),
        _Named("luxi", "take the cluster from the master daemon", "SOCKET", "L", optional=True, bare="",
               completion="file"),
        _Named("ialloc-src", "take the cluster from the request of an allocator", "FILE", "I", completion="file"),
        _Named("simulate", "make up a group: POLICY,NODES,DISK,MEMORY,CPUS[,SPINDLES[,EXCLUSIVE]]", "SPEC", repeat=True,
               completion="string"),
        _Named("print-nodes", "print lists of nodes, with these fields", "FIELDS", "p", optional=True, bare=""),
        _Flag("print-instances", "print lists of instances"),
        _Named("print-commands", "print the commands of the solution, or write them to a file", "FILE", "C", optional=True,
               bare=""),
        _Named("save", "save states of the cluster under this name and a suffix", "FILE", "S"),
        Option("verbose", "say more", "v", default=0, counts=1),
        Option("quiet", "say less", "q", default=0, counts=1),
        _Named("offline", "treat a node as offline", "NODE", "O", repeat=True, completion="onenode"),
        _Named("group", "work on this group", "ID", "G", completion="onegroup"),
        _Named("max-length", "most moves or instances", "NUMBER", "l", read=_IntOf("parsing max-length"), default=-1,
               completion="integer"),
        _Real("min-score", "how close to the lowest possible score is good enough", 1e-9, "e"),
        _Real("min-gain", "least gain of a move", 0.01, "g"),
        _Real("min-gain-limit", "score below which the least gain matters", 0.1),
        _Real("move-cost", "what a move must gain for each GiB of memory and disk that it copies", 0.0),
        _Named("max-cpu", "virtual CPUs for each physical one, instead of the policy's", "RATIO", read=_MaxCpu,
               completion="float"),
        _Real("min-disk", "part of each disk to leave free", 0.0),
        _Flag("evac-mode", "move only instances on nodes that are offline", "E"),
        _Flag("restricted-migration", "do not migrate instances to free nodes"),
        _Flag("no-disk-moves", "do not replace disks"),
        _Flag("no-instance-moves", "do not move running instances"),
        _Named("select-instances", "move only these instances", "NAMES", read=_List, completion="manyinstances"),
        _Named("exclude-instances", "do not move these instances", "NAMES", read=_List, default=[],
               completion="manyinstances"),
        _Named("exclusion-tags", "instances that share a tag with one of these prefixes are kept apart", "PREFIXES",
               read=_List, default=[], completion="string"),
        _Flag("ignore-soft-errors", "do not insist on policies and reserves"),
        _Named("dynu-file", "take the utilisation of instances from a file", "FILE", "U", completion="file"),
        _Flag("ignore-dynu", "ignore the utilisation of instances"),
        _Named("mond", "ask the monitoring daemons for utilisation", "CHOICE", optional=True, read=_YesNo, default=False,
               completion="choices=yes,no"),
        _Named("mond-data", "take the monitoring daemons' answers from a file", "FILE", completion="file"),
        _Flag("mond-xen", "use the collector for Xen"),
        _Flag("exit-on-missing-mond-data", "end if a monitoring daemon does not answer"),
        _Flag("exec", "carry out the moves", "X"),
        _Flag("first-job-group", "print or carry out only the first set of jobs"),
        _Named("reason", "reason of the jobs", "TEXT"),
        _Named("priority", "priority of the jobs", "PRIORITY", read=_Priority, completion="choices=low,normal,high"),
        _Named("static-kvm-node-memory", "memory of a node under KVM; 0: as it is reported", "MIB",
               read=_IntOf("parsing static-kvm-node-memory"), default=STATIC_KVM_NODE_MEMORY, completion="integer"),
        _Flag("no-capacity-checks", "do not look whether nodes could be emptied"),
        _Named("restrict-allocation-to", "allocate on these nodes only", "NAMES", read=_List, completion="manynodes"),
        _Named("disk-template", "disk template of new instances", "TEMPLATE", read=_Template,
               completion=_TEMPLATE_CHOICES),
        _Named("spindle-use", "spindle use of new instances", "NUMBER", read=_SpindleUse, completion="float"),
        _Named("standard-alloc", "size of the standard instance: DISK,RAM,CPU[,SPINDLES]", "SPEC",
               read=_AllocSpecOf("standard"), completion="string"),
        _Named("tiered-alloc", "size to begin tiered allocation with: DISK,RAM,CPU[,SPINDLES]", "SPEC",
               read=_AllocSpecOf("tiered"), completion="string"),
        _Named("minimum-memory", "minimum memory of new instances, where a policy has a memory ratio", "SIZE",
               read=lambda text: ReadSize("minimum memory", text), completion="string"),
        _Flag("independent-groups", "let no group suffer from another"),
        _Flag("accept-existing-errors", "go on beside nodes that are not N+1 happy"),
        _Named("machine-readable", "print for programs", "CHOICE", optional=True, read=_YesNo, default=False,
               completion="choices=yes,no"),
        _Flag("no-simulation", "do not try to balance"),
        _Flag("no-headers", "print no headings"),
        _Named("node-tags", "only nodes with one of these tags", "TAGS", read=_List, completion="string"),
        _Flag("offline-maintenance", "instances may be shut down"),
        _Flag("skip-non-redundant", "leave out nodes with instances that are not mirrored"),
        _Flag("ignore-non-redundant", "do not move instances that are not mirrored"),
        _Flag("full-evacuation", "empty nodes completely"),
        _Flag("one-step-only", "print the first group only"),
        _Flag("print-moves", "print where instances go"),
        _Flag("force", "do not insist on a known master", "f"),
        _Real("minimal-resources", "resources that must stay free, in standard instances", 2.0),
        _Real("target-resources", "resources to keep free, in standard instances", 2.0),
        _Real("job-delay", "seconds that a repair waits before it begins, so that its tag can be written", 10.0),
        _Flag("dry-run", "submit nothing, print the repair jobs"),
        _Named("output-dir", "directory of the files", "PATH", "d", default=".", completion="dir"),
        _Flag("version", "print the version", "V"),
        _Flag("help", "print this text", "h"),
        _Flag("help-completion", "print the options for the completion of shells"),
    )
}  # fmt: skip

GENERIC: Final = ("version", "help", "help-completion")


# --- reading a command line ---------------------------------------------------------------------------------------------


@dataclass
class Values:
    """The values of all options of a program, and its arguments."""

    values: dict[str, Any]
    arguments: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def verbosity(self) -> int:
        return 1 + int(self.values.get("verbose", 0)) - int(self.values.get("quiet", 0))


class Parser:
    """Reads the command lines of one program."""

    def __init__(self, names: Sequence[str]):
        self._options = [OPTIONS[name] for name in (*names, *GENERIC)]
        self._long = {option.long: option for option in self._options}
        self._short = {option.short: option for option in self._options if option.short}

    def Parse(self, words: Sequence[str]) -> Values:
        """Return the values; raises UsageError, and ValueProblem for the first value that cannot be read.

        A request for help, version or completion is answered even if values are wrong.
        """
        given: list[tuple[Option, str | None]] = []
        arguments: list[str] = []
        left = list(words)
        while left:
            word = left.pop(0)
            if word == "--":
                arguments += left
                break
            if word.startswith("--"):
                given.append(self._LongOption(word[2:], left))
            elif word.startswith("-") and word != "-":
                given += self._ShortOptions(word[1:], left)
            else:
                arguments.append(word)
        asked = {option.long for option, _ in given}
        values = {option.dest: [] if option.repeat else option.default for option in self._options}
        if asked & set(GENERIC):
            return Values({**values, **{name.replace("-", "_"): name in asked for name in GENERIC}}, arguments)
        for option, text in given:
            self._Store(values, option, text)
        return Values(values, arguments)

    def _LongOption(self, text: str, left: list[str]) -> tuple[Option, str | None]:
        name, equals, value = text.partition("=")
        found = [self._long[name]] if name in self._long else [o for o in self._options if o.long.startswith(name)]
        if not found:
            raise UsageError(f"unrecognized option `--{text}'")
        if len(found) > 1:
            raise UsageError(
                f"option `--{name}' is ambiguous; it may be one of: {', '.join(o.spellings for o in found)}"
            )
        option = found[0]
        if equals and not option.argument:
            raise UsageError(f"option `--{name}' doesn't allow an argument")
        if equals:
            return option, value
        return option, self._Argument(option, f"--{name}", left)

    def _ShortOptions(self, text: str, left: list[str]) -> list[tuple[Option, str | None]]:
        found: list[tuple[Option, str | None]] = []
        while text:
            letter, text = text[0], text[1:]
            option = self._short.get(letter)
            if option is None:
                raise UsageError(f"unrecognized option `-{letter}'")
            if option.argument and text:
                return [*found, (option, text)]
            found.append((option, self._Argument(option, f"-{letter}", left)))
        return found

    def _Argument(self, option: Option, spelling: str, left: list[str]) -> str | None:
        """Return the argument that follows as a word of its own, if the option takes one there."""
        if not option.argument or option.optional:
            return None
        if not left:
            raise UsageError(f"option `{spelling}' requires an argument {option.argument}")
        return left.pop(0)

    def _Store(self, values: dict[str, Any], option: Option, text: str | None) -> None:
        if option.counts:
            values[option.dest] += option.counts
        elif text is None:
            values[option.dest] = option.bare
        elif option.repeat:
            values[option.dest].append(option.read(text))
        else:
            values[option.dest] = option.read(text)

    def Help(self, usage: str) -> str:
        """Return the text of ``--help``."""
        lines = [usage]
        for option in self._options:
            argument = option.argument and (f"[={option.argument}]" if option.optional else f"={option.argument}")
            lines.append(f"  {option.spellings}{argument}".ljust(46) + f" {option.doc}")
        return "\n".join(lines)

    def Completion(self) -> list[str]:
        return [f"{option.spellings} {option.completion}" for option in self._options]


def _Spelling(option: Option) -> str:
    """Return all spellings of an option with its argument, as manuals show them."""
    long = f"--{option.long}"
    if option.optional:
        short, long = f"-{option.short}[{option.argument}]", f"{long}[={option.argument}]"
    elif option.argument:
        short, long = f"-{option.short} {option.argument}", f"{long}={option.argument}"
    else:
        short = f"-{option.short}"
    return f"``{short}``, ``{long}``" if option.short else f"``{long}``"


def BashWords(program: str) -> str:
    """Return the long options of a program, for the completion of shells."""
    return " ".join(f"--{name}" for name in (*PROGRAM_OPTIONS[program], *GENERIC))


def OptionsRst(program: str) -> str:
    """Return the options of a program as a definition list for its manual page."""
    lines = []
    for name in (*PROGRAM_OPTIONS[program], *GENERIC):
        option = OPTIONS[name]
        shown = isinstance(option.default, (int, float, str)) and not isinstance(option.default, bool)
        default = f" (default: {option.default})" if shown and not option.counts else ""
        lines += [_Spelling(option), f"    {option.doc}{default}"]
    return "\n".join(lines)


PROGRAM_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "hail": ("print-nodes", "save", "text-data", "simulate", "verbose", "ignore-dynu", "ignore-soft-errors",
             "no-capacity-checks", "restrict-allocation-to", "mond", "mond-xen", "static-kvm-node-memory"),
    "harep": ("luxi", "job-delay", "reason", "dry-run"),
    "hbal": ("print-nodes", "print-instances", "print-commands", "text-data", "evac-mode", "restricted-migration",
             "master", "credentials", "cacert", "luxi", "ialloc-src", "exec", "first-job-group", "reason", "group",
             "max-length", "verbose", "quiet", "offline", "static-kvm-node-memory", "min-score", "max-cpu", "min-disk",
             "min-gain", "min-gain-limit", "move-cost", "no-disk-moves", "select-instances", "no-instance-moves",
             "ignore-soft-errors", "dynu-file", "ignore-dynu", "mond", "mond-data", "exit-on-missing-mond-data",
             "mond-xen", "exclusion-tags", "exclude-instances", "save", "priority"),
    "hcheck": ("text-data", "no-disk-moves", "dynu-file", "ignore-dynu", "evac-mode", "exclude-instances",
               "exclusion-tags", "ialloc-src", "no-instance-moves", "luxi", "machine-readable", "max-cpu",
               "max-length", "min-disk", "min-gain", "min-gain-limit", "min-score", "ignore-soft-errors",
               "no-simulation", "offline", "quiet", "master", "credentials", "cacert", "select-instances",
               "no-capacity-checks", "verbose"),
    "hinfo": ("print-nodes", "print-instances", "text-data", "master", "credentials", "cacert", "luxi", "ialloc-src",
              "verbose", "quiet", "offline", "ignore-dynu", "mond", "mond-data", "static-kvm-node-memory"),
    "hroller": ("luxi", "master", "credentials", "cacert", "text-data", "ialloc-src", "offline", "offline-maintenance",
                "verbose", "quiet", "no-headers", "node-tags", "save", "group", "print-moves", "full-evacuation",
                "skip-non-redundant", "ignore-non-redundant", "force", "one-step-only", "static-kvm-node-memory"),
    "hscan": ("print-nodes", "output-dir", "luxi", "credentials", "cacert", "verbose", "no-headers",
              "static-kvm-node-memory"),
    "hspace": ("print-nodes", "text-data", "disk-template", "spindle-use", "simulate", "master", "credentials",
               "cacert", "luxi", "ialloc-src", "verbose", "quiet", "independent-groups", "accept-existing-errors",
               "offline", "no-capacity-checks", "machine-readable", "max-cpu", "max-length", "min-disk",
               "standard-alloc", "tiered-alloc", "save", "static-kvm-node-memory", "minimum-memory"),
    "hsqueeze": ("luxi", "text-data", "exec", "minimal-resources", "target-resources", "save", "print-commands", "verbose",
                 "no-headers", "static-kvm-node-memory"),
}  # fmt: skip
