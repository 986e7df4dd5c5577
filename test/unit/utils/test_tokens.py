"""The form of tokens, and what is kept of them."""

from __future__ import annotations

import hashlib
import os

import pytest

from ganeti import errors
from ganeti.utils import tokens


def test_a_token_has_its_name_and_256_random_bits() -> None:
    made = {tokens.Make("backup", os.urandom(32)) for _ in range(50)}
    assert len(made) == 50
    with pytest.raises(errors.ProgrammerError):
        tokens.Make("backup", b"too short")
    for token in made:
        assert tokens.NameOf(token) == "backup"
        assert len(token) == len("backup.") + 43
    token = made.pop()
    assert tokens.Digest(token) == hashlib.sha256(token.encode()).hexdigest()
    assert tokens.Fits(token, tokens.Digest(token)) and not tokens.Fits(token[:-1] + "!", tokens.Digest(token))
    assert tokens.TDigest(tokens.Digest(token))


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "backup",
        "backup.",
        "." + "a" * 43,
        "a b." + "a" * 43,
        "a." + "a" * 42,
        "a." + "a" * 44,
        "\u00e4." + "a" * 43,
    ],
)
def test_what_is_no_token_has_no_name(text: str) -> None:
    assert tokens.NameOf(text) is None


@pytest.mark.parametrize(
    ("name", "good"), [("a", True), ("Web-1_x", True), ("-a", False), ("a.b", False), ("a" * 65, False), (5, False)]
)
def test_names(name: object, good: bool) -> None:
    assert tokens.TName(name) is good
