"""How findings of a verification are told (doc/reference/drivers.md c.3; doc/reference/cli.md 9.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ganeti.opcodes.types import VERIFY_CODES

CLUSTER, GROUP, NODE, INSTANCE = "cluster", "group", "node", "instance"


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

    def Heading(self, text: str) -> None:
        self._feedback(f"* {text}")

    def Verbose(self, text: str) -> None:
        if self._verbose:
            self._feedback(f"* {text}")

    def Notice(self, text: str) -> None:
        self._feedback(f"  - NOTICE: {text}")

    def Error(self, code: str, kind: str, item: str | None, text: str) -> None:
        if code in self._ignored:
            self._Line("WARNING", code, kind, item, text)
            return
        self.bad = True
        self._Line("ERROR", code, kind, item, text)

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

    def _Line(self, level: str, code: str, kind: str, item: str | None, text: str) -> None:
        assert code in VERIFY_CODES, code
        if self._codes:
            self._feedback(f"  - {level}:{code}:{kind}:{item}:{text}")
        else:
            self._feedback(f"  - {level}: {kind} {item or ''}: {text}")

    def Raw(self, text: str) -> None:
        self._feedback(text)
