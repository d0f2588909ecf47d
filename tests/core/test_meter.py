"""What a run learns from reported usage, and what it does not believe."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyagent.core.meter import Meter, silent_cut
from tinyagent.core.types import Usage

RAW = st.integers(1, 200_000)


def after(*reports: tuple[int, int], meter: Meter | None = None) -> Meter:
    """A meter that has seen these (raw total, reported) requests, with replies of no size."""
    meter = meter or Meter()
    for raw, reported in reports:
        meter = meter.observed(reported_input=reported, context_tokens=reported, raw_total=raw)
    return meter


def test_an_anchor_makes_the_size_of_the_view_exact():
    meter = after((1_000, 1_200))
    assert meter.estimate(1_000) == 1_200


def test_only_what_was_added_since_is_estimated():
    meter = after((1_000, 1_200)).added(100)
    assert 1_200 < meter.estimate(1_100) <= 1_200 + 160


@pytest.mark.parametrize("ratio", [0.75, 1.0, 1.3, 1.9])
def test_the_ratio_of_the_server_is_learned_within_two_requests(ratio):
    """cherry-studio#18351, hermes#62605: the estimate stayed 20 to 30 % or four times under the server's count."""
    meter = after((2_000, round(2_000 * ratio)), (4_000, round(4_000 * ratio))).added(2_000)
    truth = 6_000 * ratio
    assert truth * 0.995 <= meter.estimate(6_000) <= truth * 1.09


def test_estimates_stay_a_little_above_the_truth():
    meter = after(*((n * 1_000, n * 1_000) for n in range(1, 20))).added(1_000)
    assert 20_000 <= meter.estimate(20_000) <= 20_100


@pytest.mark.parametrize("reported", [0, -5, 10**9])
@given(raw=RAW)
@settings(max_examples=20)
def test_nothing_zero_and_nonsense_are_not_believed(reported, raw):
    """oc#37871: a server that reported 0 led to 104 compactions."""
    assert not Meter().believes(reported, raw_total=raw)


@given(RAW, st.floats(0.0, 0.99), RAW)
@settings(max_examples=60)
def test_usage_that_shrank_without_a_pass_is_not_believed(raw, share, added):
    meter = after((raw, raw))
    assert not meter.added(added).believes(int(share * raw), raw_total=raw + added)


@given(RAW, RAW, st.floats(0.5, 1.9))
@settings(max_examples=60)
def test_usage_that_grew_with_the_text_is_believed(raw, added, ratio):
    meter = after((raw, round(raw * ratio))).added(added)
    assert meter.believes(round((raw + added) * ratio), raw_total=raw + added)


@given(RAW, RAW)
def test_a_request_without_usage_leaves_the_estimate_as_it_is(raw, added):
    meter = after((raw, raw)).added(added)
    assert meter.sent(meter.estimate(raw + added)).estimate(raw + added) == meter.estimate(raw + added)


def test_a_report_that_counts_only_new_tokens_never_lowers_the_estimate():
    meter = after((10_000, 11_000)).added(500)
    assert not meter.believes(300, raw_total=10_500)


def test_reasoning_that_is_not_sent_back_may_leave_the_prompt_but_teaches_nothing_of_texts():
    meter = after((5_000, 5_000))
    fat = Meter.observed(meter, reported_input=6_000, context_tokens=12_000, raw_total=6_000)
    assert fat.believes(6_300, raw_total=6_300)
    assert after((6_300, 6_300), meter=fat).factor >= 0.95


def test_a_pass_voids_the_anchor_and_keeps_the_ratio():
    """pi#1860, codex#31834, infinity#64, Codewhale#6047: usage from before the pass triggered the next one at once."""
    meter = after((10_000, 12_000)).voided(10_000)
    assert meter.anchor is None
    assert 4_700 <= meter.estimate(4_000) <= 4_900


def test_a_view_of_cheap_text_does_not_make_what_is_left_of_it_look_cheaper_still():
    meter = after((10_000, 5_000)).voided(10_000)
    assert meter.estimate(1_000) >= 850


def test_the_count_in_a_refusal_replaces_the_estimate():
    meter = Meter().counted(9_000, raw_total=6_000)
    assert meter.estimate(6_000) == meter.cautious(6_000) == 9_000
    assert meter.voided(6_000).estimate(3_000) == 4_500


def test_growth_follows_the_steps_and_ignores_a_shrunken_view():
    meter = after((1_000, 1_000), (2_000, 2_000), (3_000, 3_000))
    assert 900 < meter.growth < 1_100
    assert meter.voided(3_000).sent(500).growth == meter.growth


@given(RAW, RAW)
def test_the_bound_for_money_and_the_cautious_figure_are_never_under_the_estimate(raw, added):
    for meter in (Meter(), after((raw, raw)).added(added)):
        assert meter.estimate(raw + added) <= meter.cautious(raw + added)
        assert meter.estimate(raw + added) <= meter.upper_bound(raw + added)


@pytest.mark.parametrize("served", [2_048, 4_096, 8_192, 32_768])
def test_half_the_served_window_on_the_first_request_shows_a_cut(served):
    """ollama#3839: a prompt over the window is cut to half of it and two tokens, with status 200."""
    cut = silent_cut(Meter(), Usage(served // 2 + 2, 10), raw_total=round(served * 1.4), window=None)
    assert (cut and cut.window) == served


@pytest.mark.parametrize("served", [6_000, 10_000, 15_750])
def test_a_later_report_of_half_teaches_a_window_of_any_size(served):
    """PuPu#129: 15,750 tokens became 2,051, and the model said it had no tools."""
    meter = after((round(served * 0.93), round(served * 0.95))).added(served // 10)
    cut = silent_cut(meter, Usage(served // 2 + 2, 10), raw_total=round(served * 1.03), window=None)
    assert cut is not None
    assert abs((cut.window or 0) - served) <= 2


def test_the_configured_window_is_recognised_at_half_of_it():
    cut = silent_cut(Meter(), Usage(5_002, 10), raw_total=8_000, window=10_000)
    assert (cut and cut.window) == 10_000


def test_a_prompt_that_stays_the_same_although_much_was_added_fills_a_window():
    meter = after((4_000, 4_096)).added(3_000)
    cut = silent_cut(meter, Usage(4_096, 10), raw_total=7_000, window=None)
    assert (cut and cut.window) == 4_096


def test_prompt_and_reply_that_end_exactly_at_the_window_show_a_cut():
    cut = silent_cut(Meter(), Usage(8_000, 192), raw_total=8_000, window=8_192)
    assert (cut and cut.window) == 8_192


def test_old_messages_that_were_dropped_show_a_cut_but_no_window():
    meter = after((7_500, 8_000)).added(2_000)
    cut = silent_cut(meter, Usage(6_900, 10), raw_total=9_500, window=None)
    assert cut is not None
    assert cut.window is None


@pytest.mark.parametrize(
    ("reported", "raw", "before"),
    [
        (4_000, 8_000, None),  # half is reported, always
        (250, 9_000, (8_500, 8_500)),  # only what is new is counted
        (5_200, 9_800, None),  # a hex dump costs half of its estimate
        (900, 1_800, None),  # too small to say
        (0, 9_000, None),
        (8_100, 9_000, (8_000, 8_000)),
    ],
)
def test_other_ways_to_count_are_no_cut(reported, raw, before):
    meter = Meter() if before is None else after(before).added(raw - before[0])
    assert silent_cut(meter, Usage(reported, 10), raw_total=raw, window=None) is None


@given(RAW, st.floats(0.48, 2.0), RAW, st.floats(0.48, 2.0))
@settings(max_examples=200)
def test_a_truthful_server_is_never_accused(raw, ratio, added, ratio_of_added):
    """Texts of all kinds lie between these ratios; half a window by chance is excluded by asking for no window."""
    first, second = round(raw * ratio), round(raw * ratio) + round(added * ratio_of_added)
    meter = after((raw, first)).added(added)
    assert silent_cut(meter, Usage(second, 10), raw_total=raw + added, window=None) is None


def test_a_report_far_above_the_text_is_possible_within_the_window_only():
    """A gateway may put a prompt of its own before ours; nobody can be sent more than a window."""
    meter = Meter()
    assert meter.is_possible(90_000, raw_total=1_000, window=100_000)
    assert meter.is_possible(2_000, raw_total=1_000, window=1_900)
    assert not meter.is_possible(110_000, raw_total=1_000, window=100_000)
    assert not meter.is_possible(10**9, raw_total=1_000, window=None)


def test_a_report_far_above_the_text_scales_the_view_after_a_pass():
    """The figure that started the pass is the one by which its outcome is measured."""
    meter = after((1_000, 90_000))
    assert meter.voided(1_000).estimate(1_000) == pytest.approx(meter.estimate(1_000), rel=0.01)


def test_a_figure_that_only_the_server_vouches_for_is_not_certain():
    meter = after((1_000, 90_000))
    assert meter.certain(1_000) == 3_000
    assert after((1_000, 1_500)).certain(1_000) == 1_500
