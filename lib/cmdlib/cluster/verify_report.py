"""How findings of a verification are told (doc/reference/drivers.md c.3; doc/reference/cli.md 9.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ganeti.opcodes.types import VERIFY_CODES

About = tuple[str, str, str | None]

CLUSTER, GROUP, NODE, INSTANCE = "cluster", "group", "node", "instance"


class Line(NamedTuple):
    """One line of a report.

    ``about``: the code, kind and item of a finding; ``bad``: it is an error; ``lasting``: no job causes it, whatever its code.
    """

    text: str
    about: About | None = None
    bad: bool = False
    lasting: bool = False


class Look(NamedTuple):
    """What a look found; ``silent``: the uuids of the nodes that gave no answer."""

    lines: list[Line]
    silent: frozenset[str]


class Report:
    """Collects findings of one verification; ``bad`` once an error was among them.

    ``codes``: lines carry the code, for scripts.  A code in ``ignored`` makes a warning of an error.  ``simulate``: every
    check that is asked fails.
    """

    def __init__(
        self,
        feedback: Callable[[str], None],
        codes: bool = False,
        ignored: Iterable[str] = (),
        simulate: bool = False,
        verbose: bool = False,
    ):
        self._feedback = feedback
        self._codes = codes
        self._ignored = frozenset(ignored)
        self._simulate = simulate
        self._verbose = verbose
        self.bad = False

    def Draft(self) -> Draft:
        """Return a report that judges as this one does and keeps its lines."""
        return Draft(self._codes, self._ignored, self._simulate, self._verbose)

    def Tell(self, line: Line) -> None:
        self.bad = self.bad or line.bad
        self._feedback(line.text)

    def Heading(self, text: str) -> None:
        self.Tell(Line(f"* {text}"))

    def Verbose(self, text: str) -> None:
        if self._verbose:
            self.Tell(Line(f"* {text}"))

    def Notice(self, text: str) -> None:
        self.Tell(Line(f"  - NOTICE: {text}"))

    def Error(self, code: str, kind: str, item: str | None, text: str, lasting: bool = False) -> None:
        self._Line("WARNING" if code in self._ignored else "ERROR", code, kind, item, text, lasting)

    def Warning(self, code: str, kind: str, item: str | None, text: str) -> None:
        self._Line("WARNING", code, kind, item, text)

    def ErrorIf(self, failed: object, code: str, kind: str, item: str | None, text: str) -> bool:
        """Report an error if the check failed; return whether it did."""
        found = bool(failed) or self._simulate
        if found:
            self.Error(code, kind, item, text)
        return found

    def WarnIf(self, failed: object, code: str, kind: str, item: str | None, text: str) -> None:
        if failed or self._simulate:
            self.Warning(code, kind, item, text)

    def _Line(self, level: str, code: str, kind: str, item: str | None, text: str, lasting: bool = False) -> None:
        assert code in VERIFY_CODES, code
        head = f"{level}:{code}:{kind}:{item}:" if self._codes else f"{level}: {kind} {item or ''}: "
        self.Tell(Line(f"  - {head}{text}", (code, kind, item), level == "ERROR", lasting))

    def Raw(self, text: str) -> None:
        self.Tell(Line(text))


class Draft(Report):
    """A report that is not told yet."""

    def __init__(self, codes: bool, ignored: Iterable[str], simulate: bool, verbose: bool):
        super().__init__(lambda text: None, codes, ignored, simulate, verbose)
        self.lines: list[Line] = []

    def Tell(self, line: Line) -> None:
        super().Tell(line)
        self.lines.append(line)
