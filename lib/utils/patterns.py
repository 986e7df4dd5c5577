"""Regular expressions that an outsider wrote: searched with a time limit, so that none can stop the daemon.

The standard library's engine has no limit and holds the interpreter lock while it backtracks; the ``regex`` package
(same syntax) gives up in time.
"""

from __future__ import annotations

from typing import Any

from ganeti import errors

MAX_PATTERN = 4096
# Seconds for one search in one text.
TIME_LIMIT = 0.05


class Pattern:
    """A compiled regular expression; raises ParameterError when it is not valid or takes too long."""

    def __init__(self, text: str):
        import regex

        if len(text) > MAX_PATTERN:
            raise errors.ParameterError(
                f"Regular expression of {len(text)} characters is over the limit of {MAX_PATTERN}"
            )
        self.text = text
        try:
            self._compiled: Any = regex.compile(text, regex.VERSION0)
        except (regex.error, RecursionError, OverflowError) as err:
            raise errors.ParameterError(f"Invalid regular expression '{text}': {err}") from err

    def Search(self, value: str) -> bool:
        """Return whether the expression is found anywhere in ``value``."""
        try:
            return self._compiled.search(value, timeout=TIME_LIMIT) is not None
        except TimeoutError as err:
            raise errors.ParameterError(
                f"Regular expression '{self.text}' takes too long on '{value[:60]}'; write it without nested repetitions"
            ) from err
