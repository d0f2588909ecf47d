"""Cutting texts to size and sharing a step's budget."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagent.core.clip import clip
from tinyagent.tools.shares import shares

TEXTS = st.text(st.sampled_from("ab\n \0\r漢字😀\ud83d\ude00"), max_size=600) | st.text(max_size=300)


@given(TEXTS, st.integers(0, 400))
def test_a_result_is_never_longer_than_its_limit(text, limit):
    assert len(clip(text, limit, again='read_output("o1") has all')) <= limit


@given(TEXTS, st.integers(0, 900))
def test_a_text_that_fits_stays_as_it_is(text, spare):
    assert clip(text, len(text) + spare) == text


@given(TEXTS, st.integers(60, 400))
def test_head_and_tail_are_kept_and_the_count_of_the_rest_is_true(text, limit):
    cut = clip(text, limit)
    assert cut == text or any(
        len(head) + missing + len(tail) == len(text) and text.startswith(head) and text.endswith(tail)
        for head, missing, tail in _readings(cut)
    )


@given(st.integers(0, 300), st.integers(60, 200))
def test_no_surrogate_pair_is_split(shift, limit):
    """R14 claude-code: cut in the middle of an emoji."""
    cut = clip("x" * shift + "\ud83d\ude00" * 300, limit)
    assert "\ud83d" not in cut.replace("\ud83d\ude00", "")
    assert "\ude00" not in cut.replace("\ud83d\ude00", "")


def test_cuts_fall_on_line_ends_where_that_costs_little():
    cut = clip("".join(f"line {n}\n" for n in range(1000)), 400)
    assert all(re.fullmatch(r"line \d+|\[\.\.\. [\d,]+ characters left out \.\.\.\]", row) for row in cut.splitlines())


@pytest.mark.parametrize("char", ["x", "漢", "\0", "😀"])
def test_one_line_of_two_million_characters_is_cut(char):
    cut = clip(char * 2_000_000, 1_000, again='read_output("o7") has all')
    assert 950 <= len(cut) <= 1_000
    assert 'read_output("o7") has all' in cut


def test_a_text_with_a_hole_tells_what_is_missing_of_the_whole():
    cut = clip("a" * 500 + "[hole]" + "b" * 500, 300, total=1_000_000)
    assert any(len(head) + missing + len(tail) == 1_000_000 for head, missing, tail in _readings(cut))
    assert "hole" not in cut


@given(st.lists(st.integers(0, 20_000), min_size=1, max_size=20), st.integers(2_000, 60_000))
def test_shares_keep_to_the_budget_and_to_the_sizes(sizes, budget):
    limits = shares(sizes, budget)
    assert sum(limits) <= budget
    assert all(0 <= limit <= size for limit, size in zip(limits, sizes, strict=True))


@given(st.lists(st.integers(100, 20_000), min_size=1, max_size=20), st.integers(0, 60_000))
def test_the_newest_result_is_never_blanked(sizes, budget):
    assert shares(sizes, budget)[-1] >= min(sizes[-1], max(80, budget // 4))


def test_small_results_stay_whole_and_large_ones_divide_the_rest():
    assert shares([100, 9_000, 9_000, 50], 10_150) == [100, 5_000, 5_000, 50]


def _readings(cut: str) -> list[tuple[str, int, str]]:
    """Head, count and tail, with and without the line breaks that the note may have brought along."""
    found = re.search(r"\[\.\.\. ([\d,]+) characters left out \.\.\.\]", cut)
    assert found
    head, missing, tail = cut[: found.start()], int(found[1].replace(",", "")), cut[found.end() :]
    return [(h, missing, t) for h in (head, head[:-1]) for t in (tail, tail[1:])]
