"""How workers that share no disk and the driver hear of each other; needs no Ray."""

from concurrent.futures import Future
from typing import Any

from tests.builders import Clock, usage
from tinyagent.batch.exchange import Exchange, Line
from tinyagent.batch.progress import Progress
from tinyagent.core.limits import Spend

BEGUN = Progress("run", "openai/x")
STEP = Progress("run", "openai/x", spend=Spend(usage(1000, 100), 0.02, 1, 1), answers=1)


def test_reports_reach_the_driver_and_are_kept_only_of_tries_that_run() -> None:
    exchange = Exchange()
    exchange.tell("a", BEGUN, 0)
    exchange.tell("a", STEP, 0)
    exchange.tell("b", BEGUN, 0)
    assert exchange.report(frozenset({"a", "c"})).progress == {"a": STEP}
    assert exchange.report(frozenset({"a", "b"})).progress == {"a": STEP}


def test_the_longest_pause_that_a_worker_tells_is_everybody_s() -> None:
    clock = Clock()
    exchange = Exchange(clock)
    assert exchange.tell("a", BEGUN, 30) == 30
    assert exchange.tell("b", BEGUN, 5) == 30
    clock.sleep(10)
    assert exchange.tell("c", BEGUN, 0) == exchange.report(frozenset()).pause_s == 20


class Calls:
    """A method of an actor, whose answers the test gives."""

    def __init__(self) -> None:
        self.made: list[tuple[object, ...]] = []
        self.answers: list[Future[Any]] = []

    def remote(self, *arguments: object) -> "Calls":
        self.made.append(arguments)
        self.answers.append(Future())
        return self

    def future(self) -> "Future[Any]":
        return self.answers[-1]


def test_an_actor_that_does_not_answer_is_not_called_again_meanwhile() -> None:
    calls, heard = Calls(), list[int]()
    line = Line(calls, heard.append)
    line.call(1)
    line.call(2)
    calls.answers[0].set_result(10)
    line.call(3)
    assert (calls.made, heard) == ([(1,), (3,)], [10])


def test_a_lost_call_is_only_silence() -> None:
    calls, heard = Calls(), list[int]()
    line = Line(calls, heard.append)
    line.call(1)
    calls.answers[0].set_exception(OSError("the actor died"))
    line.call(2)
    calls.answers[1].set_result(20)
    assert heard == [20]
