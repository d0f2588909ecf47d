from collections.abc import Sequence

import pytest

from tests.builders import Clock, raises_model_error, request
from tinyagent.core.errors import RECOVERY, ErrorKind, ModelError
from tinyagent.models.retry import WAITS_S, RetryingModel
from tinyagent.models.scripted import ScriptedModel, ScriptedReply, ScriptItem


def failure(kind: ErrorKind = "overloaded", **fields: object) -> ModelError:
    return ModelError("busy", kind=kind, **fields)  # pyright: ignore[reportArgumentType]


class Retrying:
    """A retrying model over a script, with a clock that only waits move."""

    def __init__(self, script: Sequence[ScriptItem], *, chance: float = 0.5) -> None:
        self.clock = Clock()
        self.failed: list[ModelError] = []
        self.seen: list[tuple[str, float, int]] = []
        self.model = RetryingModel(
            ScriptedModel("test/m", [*script, ScriptedReply("Done.")]),
            on_wait=lambda error, seconds, attempt: self.seen.append((error.kind, seconds, attempt)),
            on_failed=self.failed.append,
            clock=self.clock,
            sleep=self.clock.sleep,
            chance=lambda: chance,
        )


def test_passing_trouble_is_waited_out_and_counted() -> None:
    retrying = Retrying([failure("rate"), failure("network"), failure("stream_cut")])
    response = retrying.model.complete(request())
    assert (response.message.text, response.attempts) == ("Done.", 4)
    assert retrying.clock.waits == [1.0, 2.0, 4.0]
    assert retrying.seen == [("rate", 1.0, 1), ("network", 2.0, 2), ("stream_cut", 4.0, 3)]


def test_six_tries_are_made_and_the_last_error_is_raised_with_their_number() -> None:
    errors = [failure() for _ in range(6)]
    retrying = Retrying(errors)
    with raises_model_error("overloaded") as caught:
        retrying.model.complete(request())
    assert (caught.value, caught.value.attempts) == (errors[5], 6)
    assert retrying.clock.waits == list(WAITS_S[:5])
    assert retrying.failed == errors[:5]


@pytest.mark.parametrize("kind", [kind for kind, recovery in RECOVERY.items() if recovery != "retry"])
def test_what_waiting_does_not_heal_is_raised_at_once(kind: ErrorKind) -> None:
    """R40 claude-code 2.1.239, R43 2.1.218: quota and overflow were repeated."""
    retrying = Retrying([failure(kind)])
    with raises_model_error(kind):
        retrying.model.complete(request())
    assert retrying.clock.waits == []


def test_an_answer_that_is_none_is_tried_twice_only() -> None:
    retrying = Retrying([failure("malformed"), failure("overloaded"), failure("malformed")])
    with raises_model_error("malformed"):
        retrying.model.complete(request())
    assert len(retrying.clock.waits) == 2


@pytest.mark.parametrize("chance", [0.0, 1.0])
@pytest.mark.parametrize("asked", [0.2, 7.0, 120.0])
def test_the_servers_own_wait_is_never_shortened(asked: float, chance: float) -> None:
    retrying = Retrying([failure("rate", retry_after_s=asked)], chance=chance)
    retrying.model.complete(request())
    assert asked <= retrying.clock.waits[0] <= 1.1 * asked


def test_a_wait_of_hours_is_given_up_at_once_and_the_message_says_how_long() -> None:
    retrying = Retrying([failure("rate", retry_after_s=3600.0)], chance=0.0)
    with raises_model_error("rate") as caught:
        retrying.model.complete(request())
    assert "3,600 s" in str(caught.value)
    assert retrying.clock.waits == []


def test_the_time_limit_is_never_passed_by_waiting() -> None:
    retrying = Retrying([failure() for _ in range(9)])
    started = retrying.clock.now
    with raises_model_error("overloaded") as caught:
        retrying.model.complete(request(), timeout_s=5.0)
    assert "no time is left" in str(caught.value)
    assert retrying.clock.now - started < 5.0


def test_ctrl_c_ends_a_wait() -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    model = RetryingModel(ScriptedModel("test/m", [failure()]), sleep=interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.complete(request())


def test_waits_are_spread_so_that_workers_do_not_march() -> None:
    short, long = Retrying([failure()], chance=0.0), Retrying([failure()], chance=1.0)
    short.model.complete(request())
    long.model.complete(request())
    assert (short.clock.waits, long.clock.waits) == ([0.75], [1.25])
