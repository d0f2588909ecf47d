"""A provider in trouble is asked less, and more again when it answers."""

from tinyagent.batch.throttle import LONGEST_PAUSE_S, PATIENCE_S, Throttle


def test_trouble_pauses_the_pool_and_halves_it() -> None:
    throttle = Throttle.of(8).trouble(100.0, running=8)
    assert not throttle.may_start(0, 101.0)
    assert throttle.may_start(3, 102.0)
    assert not throttle.may_start(4, 102.0)


def test_eight_refusals_at_once_are_one_trouble() -> None:
    """A rate limit is not a storm: eight runs that are refused together say one thing."""
    throttle = Throttle.of(8)
    for _ in range(8):
        throttle = throttle.trouble(100.0, running=8)
    assert throttle == Throttle.of(8).trouble(100.0, running=8)


def test_one_task_is_always_tried_after_the_pause() -> None:
    throttle, now = Throttle.of(32), 0.0
    for _ in range(20):
        throttle = throttle.trouble(now, running=throttle.allowed)
        now = throttle.paused_until
    assert throttle.may_start(0, now)
    assert throttle.paused_until - LONGEST_PAUSE_S <= now


def test_good_answers_bring_the_pool_back_to_its_size() -> None:
    throttle = Throttle.of(8).trouble(0.0, running=8)
    for n in range(8):
        throttle = throttle.good_answers(10.0 + n, 4)
    assert throttle == Throttle(8, 8, paused_until=throttle.paused_until)


def test_an_answer_during_the_pause_ends_the_trouble_but_not_the_pause() -> None:
    throttle = Throttle.of(8).trouble(0.0, running=8).good_answers(1.0, 1)
    assert throttle.since is None
    assert not throttle.may_start(0, 1.5)


def test_trouble_without_an_answer_is_waited_for_only_so_long() -> None:
    throttle = Throttle.of(8).trouble(0.0, running=8)
    assert not throttle.is_hopeless(PATIENCE_S)
    assert throttle.is_hopeless(PATIENCE_S + 1)
    assert not throttle.good_answers(5.0, 1).is_hopeless(PATIENCE_S + 1)
