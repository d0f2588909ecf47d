"""What one run of a batch is told to wait, all of them wait."""

from pathlib import Path

import pytest

from tests.builders import raises_model_error, request
from tinyagent.core.errors import ModelError
from tinyagent.models.pause import LONGEST_S, MirroredPause, PausingModel, SharedPause
from tinyagent.models.scripted import ScriptedModel, ScriptedReply, ScriptItem


class Time:
    """A clock that sleeping moves."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def model(path: Path, clock: Time, *replies: ScriptItem) -> PausingModel:
    pause = SharedPause(path, clock=clock)
    return PausingModel(ScriptedModel("scripted/x", replies), pause, sleep=clock.sleep, chance=lambda: 0.5)


def refusal(kind: str = "rate", retry_after_s: float | None = 30.0) -> ModelError:
    return ModelError("too many requests", kind=kind, retry_after_s=retry_after_s)  # pyright: ignore[reportArgumentType]


def test_a_wait_that_one_run_was_told_is_kept_by_the_others_before_they_ask(tmp_path: Path) -> None:
    clock = Time()
    first = model(tmp_path / "pause", clock, refusal())
    second = model(tmp_path / "pause", clock, ScriptedReply("hello"))
    with raises_model_error("rate"):
        first.complete(request())
    assert second.complete(request()).message.text == "hello"
    assert clock.slept == [pytest.approx(30.5)]


@pytest.mark.parametrize(
    ("error", "left"),
    [
        (refusal("overloaded", 7.0), 7.0),
        (refusal("rate", None), 1.0),
        (refusal("rate", 3600.0), LONGEST_S),
        (refusal("network"), 0.0),
        (refusal("bad_request"), 0.0),
    ],
)
def test_only_a_provider_that_is_asked_too_much_makes_a_pause(tmp_path: Path, error: ModelError, left: float) -> None:
    clock = Time()
    with pytest.raises(ModelError):
        model(tmp_path / "pause", clock, error).complete(request())
    assert SharedPause(tmp_path / "pause", clock=clock).left_s() == pytest.approx(left, abs=1e-3)


def test_a_shorter_wait_does_not_end_a_longer_pause(tmp_path: Path) -> None:
    clock = Time()
    pause = SharedPause(tmp_path / "pause", clock=clock)
    pause.extend(30)
    pause.extend(5)
    assert pause.left_s() == pytest.approx(30, abs=1e-3)


def test_a_pause_longer_than_there_is_time_is_an_error_at_once(tmp_path: Path) -> None:
    clock = Time()
    SharedPause(tmp_path / "pause", clock=clock).extend(60)
    with raises_model_error("rate"):
        model(tmp_path / "pause", clock, ScriptedReply("x")).complete(request(), timeout_s=10)
    assert clock.slept == []


def test_a_pause_that_cannot_be_kept_costs_nothing_else(tmp_path: Path) -> None:
    clock = Time()
    gone = model(tmp_path / "gone" / "pause", clock, refusal(), ScriptedReply("x"))
    with raises_model_error("rate"):
        gone.complete(request())
    assert gone.complete(request()).message.text == "x"


def test_a_pause_that_began_here_is_told_until_it_was_heard_back(tmp_path: Path) -> None:
    clock = Time()
    here = SharedPause(tmp_path / "pause", clock=clock)
    mirror = MirroredPause(here, clock=clock)
    assert mirror.news_s() == 0
    here.extend(30)
    assert mirror.news_s() == pytest.approx(30, abs=1e-3)
    mirror.hear(0)  # an answer from before it was told, or from one who has forgotten
    assert mirror.news_s() == pytest.approx(30, abs=1e-3)
    mirror.hear(30.5)
    assert mirror.news_s() == 0


def test_a_pause_that_was_heard_holds_here_and_does_not_grow_by_being_passed_on(tmp_path: Path) -> None:
    clock = Time()
    here = SharedPause(tmp_path / "pause", clock=clock)
    mirror = MirroredPause(here, clock=clock)
    until = clock.now + 30
    for _ in range(10):
        clock.sleep(1)  # as long as each answer travels
        assert mirror.news_s() == 0
        mirror.hear(until - clock.now + 1)
    assert here.left_s() == pytest.approx(21, abs=1e-3)
