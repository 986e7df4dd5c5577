"""The queue's own thread under all orders of its neighbours."""

from __future__ import annotations

from simulated import World

from ganeti import runtime
from ganeti.jqueue.ticker import Ticker


def test_a_timer_cancelled_in_its_last_moment_does_not_end_the_ticker() -> None:
    for seed in range(60):
        with World(seed, switch=0.5) as world:

            def story() -> tuple[bool, list[int]]:
                ticker = Ticker("ticker")
                ticker.Start()
                done: list[int] = []
                last = runtime.Event()
                for number in range(20):
                    timer = ticker.Soon(lambda: done.append(0))
                    runtime.Monotonic()  # steps in which the ticker looks at it
                    runtime.Monotonic()
                    timer.Cancel()
                    ticker.Soon(lambda number=number: done.append(number))  # type: ignore[misc]
                ticker.After(0.1, last.set)
                return last.wait(5.0), done

            came, done = world.AddMachine("node1").Call(story)
            assert came, f"seed {seed}: the ticker has ended"
            assert set(range(20)) <= set(done)


def test_what_fails_does_not_keep_the_next_from_being_done() -> None:
    with World(1) as world:

        def story() -> bool:
            ticker = Ticker("ticker")
            ticker.Start()
            last = runtime.Event()
            ticker.Soon(lambda: 1 // 0)
            ticker.After(0.1, last.set)
            return last.wait(5.0)

        assert world.AddMachine("node1").Call(story)


def test_a_stopped_ticker_does_nothing_more() -> None:
    with World(1) as world:

        def story() -> list[str]:
            ticker = Ticker("ticker")
            ticker.Start()
            done: list[str] = []
            ticker.After(0.5, lambda: done.append("late"))
            ticker.Stop()
            ticker.Soon(lambda: done.append("after"))
            runtime.Sleep(2.0)
            return done

        assert world.AddMachine("node1").Call(story) == []
