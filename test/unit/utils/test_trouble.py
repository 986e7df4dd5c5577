"""A trouble that lasts does not fill the log that it may be about."""

from __future__ import annotations

import pytest
from simulated import World

from ganeti import runtime
from ganeti.utils.trouble import EVERY, Trouble


def test_it_is_logged_when_it_begins_now_and_then_and_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    def story() -> None:
        trouble = Trouble("The disk takes nothing")
        trouble.Over()
        for number in range(1000):
            # As with names of temporary files: each reason is another text.
            trouble.Log(f"no room for {number}")
            runtime.Sleep(0.5)
        trouble.Over()
        trouble.Over()
        trouble.Log("again")

    with World(1) as world:
        world.AddMachine("node1").Call(story)
    texts = [record.getMessage() for record in caplog.records]
    assert texts[0] == "The disk takes nothing: no room for 0"
    assert texts[1].endswith("(121 times so far)")
    assert len(texts) == 1 + int(500 / EVERY) + 2
    assert texts[-2:] == ["The disk takes nothing: that is over", "The disk takes nothing: again"]
