"""Questions to the user, over /dev/tty only, so that pipes neither answer nor interfere."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ganeti.cli import output

Choice = tuple[str, object, str]  # what is typed, what it means, its explanation

YES_NO: tuple[Choice, ...] = (("y", True, "Perform the operation"), ("n", False, "Do not perform the operation"))

_TERMINAL = "/dev/tty"
_WIDTH = 70
_LINE_LIMIT = 4096


def AskUser(text: str, choices: Sequence[Choice] = YES_NO, option: str = "") -> object:
    """Ask until one of the choices is typed, and return its meaning; without a terminal assume the last one.

    ``?`` explains the choices.  An answer must be the choice itself: ``yes`` is not ``y``.  ``option`` is the one with
    which a script is not asked.
    """
    try:
        terminal = os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)  # noqa: TID251 - nobody writes a file here
    except OSError:
        output.ToStderr(_Wrap(text))
        advice = f" With {option} nothing is asked." if option else ""
        output.ToStderr(f"No terminal to ask on; assuming '{choices[-1][0]}'.{advice}")
        return choices[-1][1]
    try:
        return _Converse(terminal, text, choices)
    finally:
        os.close(terminal)


def Confirmed(text: str, option: str = "") -> bool:
    """Ask for yes or no."""
    return AskUser(text, YES_NO, option) is True


def _Converse(terminal: int, text: str, choices: Sequence[Choice]) -> object:
    keys = [key for key, _, _ in choices]
    question = "/".join([*keys[:-1], f"[{keys[-1]}]", "?"]) + ": "
    meanings = {key: meaning for key, meaning, _ in choices}
    while True:
        _Say(terminal, f"{_Wrap(text)}\n{question}")
        answer = _ReadLine(terminal)
        if answer is None:
            return choices[-1][1]
        # Two characters are enough to identify a choice, and to notice a longer word.
        answer = answer[:2].strip().lower()
        if answer in meanings:
            return meanings[answer]
        if answer == "?":
            _Say(terminal, "".join(f" {key} - {help_text}\n" for key, _, help_text in choices) + "\n")


def _Wrap(text: str) -> str:
    from textwrap import fill

    return "\n".join(fill(line, _WIDTH, replace_whitespace=False, break_on_hyphens=False) for line in text.splitlines())


def _Say(terminal: int, text: str) -> None:
    data = text.encode("utf-8", "backslashreplace")
    while data:
        data = data[os.write(terminal, data) :]


def _ReadLine(terminal: int) -> str | None:
    """Return one line; None when the terminal is gone."""
    data = b""
    while b"\n" not in data and len(data) < _LINE_LIMIT:
        part = os.read(terminal, 256)
        if not part:
            return None
        data += part
    return data.partition(b"\n")[0].decode("utf-8", "replace")


def ConfirmOperation(names: Sequence[str], noun: str, verb: str, option: str, extra: str = "") -> bool:
    """Ask whether an operation may be run on these objects; list more than 20 of them on demand only."""
    count = len(names)
    kind = noun if count == 1 else f"{noun}s"
    text = f"The {verb} will operate on {count} {kind}.\n{extra}Do you want to continue?"
    affected = f"\nAffected {kind}:\n" + "\n".join(f"  {name}" for name in names)
    if count <= 20:
        return AskUser(text + affected, YES_NO, option) is True
    choices = (YES_NO[0], ("v", None, f"View the list of affected {kind}"), YES_NO[1])
    answer = AskUser(text, choices, option)
    if answer is None:
        answer = AskUser(text + affected)
    return answer is True
