"""Which outputs give way to a pointer, in what order, and what the pointer says."""

import pytest

from tests.builders import assistant, call, task
from tests.compaction.views import draft, entries, output, run_of, split
from tests.generators import text
from tinyagent.compaction.elide import elide, stub_text, superseded
from tinyagent.compaction.plan import Draft
from tinyagent.core.types import Facts, Message, ToolMessage
from tinyagent.core.view import Entry

LONG = "word " * 200


def longs(number: int) -> list[str]:
    return [f"{n} {LONG}" for n in range(number)]


def elided(whole: Draft, window: int, *, target: int, gain: int = 1) -> Draft:
    done = elide(whole, split(whole, window).older, target=target, gain=gain, preview_lines=3)
    assert isinstance(done, Draft)
    return done


def test_the_oldest_outputs_go_first_and_only_as_many_as_needed():
    whole = draft(*run_of(*longs(8)))
    done = elided(whole, 800, target=whole.tokens - 400)
    assert done.elided == (3, 5, 7)
    assert done.tokens <= whole.tokens - 400


def test_protected_turns_keep_their_outputs_word_for_word():
    whole = draft(*run_of(*longs(6)))
    done = elided(whole, 1_000, target=0)
    assert done.entries[-4:] == whole.entries[-4:]


def test_assistant_messages_are_never_touched():
    whole = draft(*run_of(*longs(6), words="I think " * 300))
    done = elided(whole, 1_000, target=0)
    assert [e for e in done.entries if not isinstance(e.message, ToolMessage)] == [
        e for e in whole.entries if not isinstance(e.message, ToolMessage)
    ]


def test_nothing_is_elided_if_it_frees_too_little():
    """stella#4381: 137k tokens were billed again to save four to eight thousand a call."""
    whole = draft(*run_of(*longs(6)))
    freed = elide(whole, split(whole, 1_000).older, target=0, gain=5_000, preview_lines=3)
    assert isinstance(freed, int)
    assert freed < 5_000


def reads(*facts: Facts) -> list[Message]:
    messages: list[Message] = [task()]
    for n, fact in enumerate(facts):
        body = text("code", 600, n)
        messages += [assistant("", call(f"r{n}", "read")), ToolMessage(f"r{n}", "read", body, facts=fact)]
    return messages


@pytest.mark.parametrize(
    ("facts", "stale"),
    [
        ([Facts(path="a"), Facts(path="a")], {3}),
        ([Facts(path="a"), Facts(path="b")], set()),
        ([Facts(path="a", first_line=1, last_line=50), Facts(path="a", first_line=1, last_line=90)], {3}),
        ([Facts(path="a", first_line=1, last_line=50), Facts(path="a", first_line=20, last_line=90)], set()),
        ([Facts(path="a"), Facts(path="a", first_line=1, last_line=9)], set()),
        ([Facts(path="a"), Facts(path="a", changed=True)], {3}),
        ([Facts(path="a", changed=True), Facts(path="a", changed=True)], set()),
    ],
)
def test_a_newer_read_or_edit_of_the_same_lines_makes_an_older_read_stale(facts, stale):
    assert superseded([e for e in entries(*reads(*facts)) if isinstance(e.message, ToolMessage)]) == stale


def test_stale_reads_go_before_older_outputs():
    messages = reads(Facts(path="a"), Facts(path="b"), Facts(path="b"), Facts(path="c"), Facts(path="d"))
    whole = draft(*messages)
    assert elided(whole, 400, target=whole.tokens - 50).elided == (5,)


def test_the_same_text_again_makes_the_older_one_stale():
    same, other = "the same line\n" * 30, LONG
    outputs = [e for e in entries(*run_of(other, same, other + "!", same)) if isinstance(e.message, ToolMessage)]
    assert superseded(outputs) == {5}


def test_failing_outputs_go_last():
    messages = run_of(*longs(6))
    messages[2] = output("c1", "0 " + LONG, exit_code=1, command="make")
    whole = draft(*messages)
    assert elided(whole, 800, target=whole.tokens - 250).elided == (5, 7)


def test_a_pointer_names_size_id_exit_code_and_errors():
    body = "compiling\n" * 50 + "E   ValueError: no such key 'x'\n1 failed, 3 passed"
    entry = entries(ToolMessage("c1", "bash", body, output_id="o7", facts=Facts(exit_code=1, output_chars=90_000)))[0]
    assert stub_text(entry, preview_lines=3).split("\n") == [
        '[output elided: 90000 chars] read_output("o7") shows it again',
        "[exit code 1]",
        "E   ValueError: no such key 'x'",
        "1 failed, 3 passed",
    ]


def test_an_output_that_was_shown_whole_is_named_by_its_place():
    entry = Entry(14, ToolMessage("c1", "bash", LONG), 210)
    assert 'read_output("m14")' in stub_text(entry, preview_lines=0)


def test_an_output_is_elided_once():
    whole = draft(*run_of(*longs(6)))
    once = elided(whole, 1_000, target=0)
    assert isinstance(elide(once, split(once, 1_000).older, target=0, gain=1, preview_lines=3), int)


@pytest.mark.parametrize("lines", [0, 1, 3])
@pytest.mark.parametrize("kind", ["code", "log", "json", "emoji", "base64", "one word"])
@pytest.mark.parametrize("chars", [0, 10, 60, 150, 400, 3_000])
def test_a_pointer_is_never_larger_than_what_it_stands_for(kind, chars, lines):
    whole = draft(*run_of(*[text(kind, chars)] * 5))
    done = elide(whole, split(whole, 100).older, target=0, gain=0, preview_lines=lines)
    assert isinstance(done, Draft)
    assert all(new.tokens <= old.tokens for new, old in zip(done.entries, whole.entries, strict=True))
