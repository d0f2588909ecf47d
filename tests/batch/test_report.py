"""Figures of batches, against values that can be looked up or counted by hand."""

import pytest

from tinyagent.batch.report import differences, figures, html_page, pass_all, pass_at, rows, wilson
from tinyagent.batch.status import Check, State, Status


def status(task: str, *, solved: bool = True, attempt: int = 1, state: State | None = None) -> Status:
    check = Check(solved, 0 if solved else 1, 0.1) if state is None else None
    return Status(task, attempt, 1, state or ("passed" if solved else "failed"), check=check, cost_usd=0.5, steps=3)


@pytest.mark.parametrize(
    ("resolved", "judged", "low", "high"),
    # R, binom::binom.wilson
    [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0), (263, 500, 0.4822, 0.5694)],
)
def test_the_interval_is_wilson_s(resolved: int, judged: int, low: float, high: float) -> None:
    interval = wilson(resolved, judged)
    assert interval is not None
    assert (interval.low, interval.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_nothing_judged_has_no_rate() -> None:
    assert wilson(0, 0) is None
    assert figures([status("a", state="infrastructure")]).rate is None


def test_pass_at_k_and_pass_all_k_count_combinations() -> None:
    counts = [(4, 1), (4, 3), (1, 1)]
    assert pass_at(2, counts) == pytest.approx((3 / 6 + 6 / 6) / 2)
    assert pass_all(2, counts) == pytest.approx((0 + 3 / 6) / 2)
    assert pass_at(5, counts) is None


def test_infrastructure_says_nothing_about_the_model() -> None:
    found = figures([status("a"), status("b", solved=False), status("c", state="infrastructure")])
    assert (found.resolved, found.judged, found.attempts) == (1, 2, 3)
    assert found.cost_usd == 1.5


def test_an_unknown_cost_makes_the_sum_unknown() -> None:
    unknown = Status("a", 1, 1, "submitted", cost_usd=None)
    assert figures([unknown, status("b")]).cost_usd is None


def test_the_check_decides_also_about_a_run_that_was_ended_at_a_limit() -> None:
    limited = Status("a", 1, 1, "limit", check=Check(True, 0, 0.1))
    assert figures([limited]).resolved == 1


def test_several_attempts_show_pass_at_k() -> None:
    table = rows([figures([status("a", attempt=k, solved=k == 1) for k in (1, 2, 3)], name="x")])
    assert ("pass@3", "100.0%") in table
    assert ("pass^3", "0.0%") in table


def test_two_batches_are_compared_on_the_tasks_that_both_judged() -> None:
    first = [status("a"), status("b", solved=False), status("c")]
    second = [status("a", solved=False), status("b"), status("d")]
    assert differences(first, second) == (["a"], ["b"])


def test_a_page_holds_the_table_and_no_markup_of_the_data() -> None:
    page = html_page([("", "<b>x</b>"), ("solved", "3")], ["solved only in a: <i>"])
    assert "<b>" not in page
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    assert "<td>3</td>" in page
