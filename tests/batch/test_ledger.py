"""The total is never exceeded, whoever asks and whatever dies."""

import multiprocessing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyagent.batch.ledger import Ledger
from tinyagent.core.errors import RecordError


def test_the_worst_case_is_set_aside_and_what_was_not_spent_is_released(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l", total_usd=0.60) as ledger:
        assert ledger.reserve("a", 1, wanted_usd=0.50, least_usd=0.05)
        assert ledger.reserve("b", 1, wanted_usd=0.50, least_usd=0.05) is None
        ledger.settle("a", 1, 0.02)
        second = ledger.reserve("b", 1, wanted_usd=0.50, least_usd=0.05)
        assert second is not None
        assert second.usd == 0.50
        assert ledger.balance().settled_usd == 0.02


def test_less_than_the_wish_is_granted_only_when_nothing_more_can_be_released(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l", total_usd=0.60) as ledger:
        assert ledger.reserve("a", 1, wanted_usd=0.50, least_usd=0.05)
        assert ledger.reserve("b", 1, wanted_usd=0.50, least_usd=0.05) is None
        ledger.settle("a", 1, 0.50)
        rest = ledger.reserve("b", 1, wanted_usd=0.50, least_usd=0.05)
        assert rest is not None
        assert rest.usd == 0.1


def test_a_rest_too_small_to_be_useful_is_not_granted(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l", total_usd=0.60) as ledger:
        ledger.reserve("a", 1, wanted_usd=0.58, least_usd=0.05)
        ledger.settle("a", 1, 0.58)
        assert ledger.reserve("b", 1, wanted_usd=0.50, least_usd=0.05) is None


def test_without_a_total_everything_is_granted_and_booked(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l", total_usd=None) as ledger:
        free = ledger.reserve("a", 1, wanted_usd=None, least_usd=0)
        assert free is not None
        assert free.usd is None
        assert free.limit_usd is None
        ledger.settle("a", 1, 7.5)
        assert ledger.balance().settled_usd == 7.5


def test_a_reservation_outlives_its_driver(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l", total_usd=1.0) as ledger:
        ledger.reserve("a", 1, wanted_usd=0.8, least_usd=0, before_usd=0.3)
    with Ledger(tmp_path / "l", total_usd=1.0) as ledger:
        (left,) = ledger.open()
        assert (left.job, left.number, left.usd, left.limit_usd) == ("a", 1, 0.8, pytest.approx(1.1))
        assert ledger.reserve("b", 1, wanted_usd=0.5, least_usd=0) is None
        assert ledger.tries("a") == 1


def test_settling_again_changes_nothing(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l", total_usd=1.0) as ledger:
        ledger.reserve("a", 1, wanted_usd=0.5, least_usd=0)
        ledger.settle("a", 1, 0.1)
        ledger.settle("a", 1, 0.4)
        assert ledger.balance().settled_usd == 0.1


def test_the_same_try_cannot_be_reserved_twice(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l", total_usd=1.0) as ledger:
        ledger.reserve("a", 1, wanted_usd=0.1, least_usd=0)
        with pytest.raises(RecordError, match="ledger"):
            ledger.reserve("a", 1, wanted_usd=0.1, least_usd=0)


def test_a_file_that_is_no_ledger_is_named(tmp_path: Path) -> None:
    (tmp_path / "l").write_bytes(b"not a database, whatever its name says" * 10)
    with pytest.raises(RecordError, match="cannot be used as the ledger"):
        Ledger(tmp_path / "l", total_usd=None)


cents = st.integers(0, 200).map(lambda n: n / 100)


@settings(deadline=None, max_examples=40)  # each example waits for the disk
@given(total=cents, steps=st.lists(st.tuples(cents, st.floats(0, 1), st.booleans()), max_size=15))
def test_open_and_settled_never_pass_the_total(
    tmp_path_factory: pytest.TempPathFactory, total: float, steps: list[tuple[float, float, bool]]
) -> None:
    """R65, ml-commons#4820: a limit of 0.60 that spent 2.50."""
    open_: dict[int, float] = {}
    with Ledger(tmp_path_factory.mktemp("ledger") / "l", total_usd=total) as ledger:
        for number, (wish, share, settles) in enumerate(steps):
            granted = ledger.reserve("job", number, wanted_usd=wish, least_usd=wish / 10)
            if granted is not None:
                assert granted.usd is not None
                assert granted.usd <= wish + 1e-9
                open_[number] = granted.usd
            if settles and open_:
                first, usd = next(iter(open_.items()))
                ledger.settle("job", first, usd * share)
                del open_[first]
            balance = ledger.balance()
            assert balance.settled_usd + balance.open_usd <= total + 1e-8
            assert balance.open_count == len(open_)


def _spend(path: Path, name: str) -> None:
    with Ledger(path, total_usd=1.0) as ledger:
        for number in range(40):
            if ledger.reserve(name, number, wanted_usd=0.05, least_usd=0.05):
                ledger.settle(name, number, 0.03)


def test_several_processes_share_one_total(tmp_path: Path) -> None:
    path = tmp_path / "l"
    Ledger(path, total_usd=1.0).close()
    processes = [multiprocessing.get_context("fork").Process(target=_spend, args=(path, name)) for name in "abcd"]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    with Ledger(path, total_usd=1.0) as ledger:
        balance = ledger.balance()
    assert [process.exitcode for process in processes] == [0] * 4
    assert balance.open_count == 0
    assert 0.95 - 0.03 < balance.settled_usd <= 1.0
