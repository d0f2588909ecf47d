"""Limits against the worst case, and what requests cost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagent.core.limits import USEFUL_OUTPUT_TOKENS, Limits, Spend, allow_request, remaining_s
from tinyagent.core.pricing import FREE, Prices, affordable_output, cost, worst_case
from tinyagent.core.types import Usage

PRICES = Prices(3.0, 15.0, cache_read_usd_per_mtok=0.3, cache_write_usd_per_mtok=3.75)
TOKENS = st.integers(0, 300_000)


def allow(limits: Limits, spend: Spend | None = None, prices: Prices | None = PRICES, **more):
    return allow_request(limits, spend or Spend(), prices, input_tokens=10_000, max_output_tokens=4_000, **more)


def test_without_limits_everything_is_allowed():
    assert allow(Limits(), prices=None).max_output_tokens == 4_000


def test_the_last_step_is_the_limit():
    assert allow(Limits(steps=2), Spend(steps=1)).stop is None
    assert allow(Limits(steps=2), Spend(steps=2)).stop == "step_limit"


def test_a_summary_is_no_step():
    assert allow(Limits(steps=2), Spend(steps=2), is_step=False).stop is None


def test_an_unknown_price_cannot_keep_a_cost_limit():
    assert allow(Limits(cost_usd=1.0), prices=None).stop == "cost_limit"
    assert allow(Limits(cost_usd=1.0), Spend(cost_usd=None)).stop == "cost_limit"


def test_the_output_is_lowered_to_what_the_money_pays_for():
    allowed = allow(Limits(cost_usd=0.0675))
    assert allowed.stop is None
    assert allowed.max_output_tokens == 2_000


def test_a_request_that_could_pass_the_limit_is_not_sent_and_the_reason_has_both_figures():
    allowed = allow(Limits(cost_usd=1.0), Spend(cost_usd=0.99))
    assert allowed.stop == "cost_limit"
    assert "$0.9900 spent" in allowed.why
    assert "$0.0413" in allowed.why


def test_a_free_model_is_never_stopped_by_its_cost():
    assert allow(Limits(cost_usd=0.5), Spend(cost_usd=0.5), prices=FREE).stop is None


@given(TOKENS, st.integers(1, 64_000), st.floats(0, 5), st.floats(0, 5))
def test_no_allowed_request_can_pass_the_limit(input_tokens, output, spent, limit):
    allowed = allow_request(
        Limits(cost_usd=limit), Spend(cost_usd=spent), PRICES, input_tokens=input_tokens, max_output_tokens=output
    )
    if allowed.stop is None:
        assert allowed.max_output_tokens is not None
        assert spent + worst_case(input_tokens, allowed.max_output_tokens, PRICES) <= limit + 1e-9
        assert allowed.max_output_tokens >= min(USEFUL_OUTPUT_TOKENS, output)


@given(TOKENS, TOKENS, TOKENS, TOKENS)
def test_no_usage_costs_more_than_the_worst_case(input_tokens, output, read, write):
    usage = Usage(input_tokens, output, read, write)
    assert (cost(usage, PRICES) or 0.0) <= worst_case(input_tokens, output, PRICES) + 1e-9


@pytest.mark.parametrize(
    ("usage", "usd"),
    [
        (Usage(1_000_000, 0), 3.0),
        (Usage(0, 1_000_000), 15.0),
        (Usage(1_000_000, 0, cache_read_tokens=1_000_000), 0.3),
        (Usage(1_000_000, 0, cache_write_tokens=1_000_000), 3.75),
        (Usage(1_000_000, 0, cache_read_tokens=500_000, cache_write_tokens=250_000), 0.75 + 0.15 + 0.9375),
        (Usage(100, 0, cache_read_tokens=900), 0.00003),
    ],
)
def test_input_contains_both_cache_counts(usage, usd):
    assert cost(usage, PRICES) == pytest.approx(usd)


def test_an_unknown_price_is_none_and_never_zero():
    assert cost(Usage(10, 10), None) is None


def test_a_long_context_is_billed_at_its_own_rate_as_a_whole():
    prices = Prices(3.0, 15.0, None, None, 200_000, 2.0, 1.5)
    assert cost(Usage(200_000, 0), prices) == pytest.approx(0.6)
    assert cost(Usage(200_001, 1_000_000), prices) == pytest.approx(1.200006 + 22.5)
    assert affordable_output(1.0, 300_000, prices) == 0


def test_time_never_gets_below_zero():
    assert remaining_s(Limits(time_s=5.0), 7.0) == 0.0
    assert remaining_s(Limits(), 7.0) is None
