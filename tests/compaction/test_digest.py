"""What is said of older messages without a model."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import assistant, call, task, user
from tests.compaction.views import output
from tests.generators import KINDS, text
from tinyagent.compaction.digest import INTRODUCTION, SMALL, DigestSize, compose, digest
from tinyagent.core.tokens import estimate_text
from tinyagent.core.types import Json, Message

FULL = DigestSize()


def sections(messages: Sequence[Message]) -> dict[str, str]:
    found = digest(messages, FULL).split("## ")[1:]
    return {title: body.strip() for title, _, body in (part.partition("\n") for part in found)}


def test_files_changed_and_files_only_read_are_told_apart():
    messages = [output("a", "", path="a.py"), output("b", "", path="b.py"), output("c", "", path="a.py", changed=True)]
    found = sections(messages)
    assert found["Files changed"] == "- a.py"
    assert found["Files read"] == "- b.py"


def test_commands_stand_with_their_outcome_oldest_first():
    """codex#28874, agentao PR#89: the last command was run again after the pass."""
    messages = [
        output("a", "", command="make\nall", exit_code=0),
        output("b", "", command="rm -r build", exit_code=None),
        output("c", "", command="git push", exit_code=1),
    ]
    found = sections(messages)["Commands that were run, oldest first, all of them done"]
    assert found.split("\n") == [
        "- `make all`: exit code 0",
        "- `rm -r build`: stopped at its time limit",
        "- `git push`: exit code 1",
    ]


@pytest.mark.parametrize(
    "command", ["pytest -q", "python -m unittest", "cargo test", "npm run test", "make check", "go test ./..."]
)
def test_the_last_test_result_is_recorded_mechanically(command):
    """cc#11483: the summary said that the work was complete, and the tests were failing."""
    messages = [
        output("a", "5 passed", command=command, exit_code=0),
        output("b", "E   assert 3 == 4\n1 failed, 4 passed", command=command, exit_code=1),
        output("c", "on branch main", command="git status", exit_code=0),
    ]
    found = sections(messages)["Last test result"]
    assert f"`{command}`: exit code 1" in found
    assert "1 failed, 4 passed" in found


def test_the_user_is_quoted_in_order_and_the_newest_is_called_open():
    """crush#3867, codex#42611: a follow-up was taken for the task, and answered requests were done again."""
    found = digest([task("Task A"), user("Now B"), assistant("Done with B."), user("And C")], FULL)
    assert "the last one is open unless it was answered" in found
    assert found.index("Now B") < found.index("And C")
    assert "Task A" not in found


def test_our_own_notices_are_not_words_of_the_user():
    assert digest([user("You repeat yourself.", "notice"), user("old summary", "summary")], FULL) == ""


def test_verbatim_words_of_the_user_are_bounded_newest_first():
    """codex#45296: 192 old messages, 1.95 million characters, were kept word for word."""
    messages: list[Message] = [user(f"{n} " + "x" * 10_000) for n in range(200)]
    found = digest(messages, FULL)
    assert len(found) < FULL.user_chars + 500
    assert "199 xxx" in found
    assert "(earlier ones left out)" in found


def test_identifiers_stand_as_they_were():
    """claw PR#25553: hashes, ids and URLs were rebuilt wrongly."""
    sha = "3f786850e387550fdab836ed7e6dc881de23001b"
    assert sha in digest([user(f"Revert {sha}, see https://example.org/x?id=7#a")], FULL)


def test_the_plan_stands_with_its_state():
    plan: list[Json] = [{"text": "find the bug", "status": "done"}, {"text": "fix it", "status": "doing"}]
    assert "## Plan\n- [done] find the bug\n- [doing] fix it\n" in compose(
        [task()], plan, "", most=1_000, plan_most=500
    )


def items(*texts: str, status: str = "open") -> list[Json]:
    return [{"text": each, "status": status} for each in texts]


@pytest.mark.parametrize("kind", ["prose", "cjk", "emoji"])
def test_the_plan_stays_whole_where_everything_else_gives_way(kind):
    plan = items(*(f"{n} {text(kind, 400, n)}".strip() for n in range(12)))
    narrative = "## Progress\n" + "words " * 900
    composed = compose(busy_log("log"), plan, narrative, most=400, plan_most=20_000)
    assert all(f"- [open] {item['text']}\n" in composed for item in plan)


def test_what_is_done_gives_way_before_what_is_open():
    done, still_open = items(*["x" * 300] * 10, status="done"), items(*(f"step {n} " + "y" * 200 for n in range(10)))
    composed = compose([task()], [*done, *still_open], "", most=200, plan_most=600)
    assert all(f"- [open] {item['text']}\n" in composed for item in still_open)
    assert "x" * 41 not in composed


def test_of_a_very_long_plan_the_open_items_stay_and_the_others_are_counted():
    plan = [*items(*["step"] * 30, status="done"), *items(*(f"step {n}" for n in range(30, 40)))]
    composed = compose([task()], plan, "", most=200, plan_most=120)
    assert "- (30 more are done)\n" in composed
    assert all(f"- [open] step {n}\n" in composed for n in range(30, 40))


@pytest.mark.parametrize("kind", ["prose", "cjk"])
def test_the_newest_words_of_the_user_outlive_the_lists(kind):
    """It may be what is to be done now."""
    log = [*busy_log("log"), user(text(kind, 2_000) + "and then delete the old parser")]
    composed = compose(log, [], "## Progress\n" + "words " * 900, most=0, plan_most=0)
    assert "and then delete the old parser\n\n[end of summary]" in composed
    assert estimate_text(composed) <= 170


def test_lists_keep_the_newest_and_say_how_many_are_missing():
    messages: list[Message] = [output(str(n), "", path=f"f{n}.py") for n in range(100)]
    found = sections(messages)["Files read"].split("\n")
    assert found[0] == "- (and 60 earlier ones)"
    assert found[-1] == "- f99.py"


def test_nothing_to_say_is_an_empty_text():
    assert digest([task()], FULL) == ""


def test_the_summary_is_marked_at_both_ends_and_says_that_it_asks_for_nothing():
    """claw#120663, wisp-science PR#632: an internal text was executed as a request."""
    composed = compose([task()], [], "## Task\nFix it.", most=1_000, plan_most=0)
    assert composed.startswith(f"[summary of earlier work]\n{INTRODUCTION}")
    assert composed.endswith("[end of summary]")


def busy_log(kind: str) -> list[Message]:
    words = text(kind, 3_000)
    log: list[Message] = [task(), user(words)]
    for n in range(60):
        log += [
            assistant("", call(f"c{n}")),
            output(f"c{n}", words, command=words, exit_code=1, path=f"{words[:60]}{n}"),
        ]
    return log


def test_without_room_and_without_anything_to_say_the_frame_stays():
    composed = compose([task()], [], "", most=0, plan_most=0)
    assert composed == f"[summary of earlier work]\n{INTRODUCTION}\n\n[end of summary]"


@given(st.sampled_from(sorted(KINDS)), st.sampled_from(sorted(KINDS)), st.integers(150, 6_000))
@settings(max_examples=40)
def test_the_whole_is_bounded_whatever_it_is_made_of(kind, narrated, most):
    """opencrabs#1649: a summary grew from 14 to 122 kB in five passes."""
    plan = items(*[text(kind, 500)] * 50)
    composed = compose(busy_log(kind), plan, text(narrated, 20_000), most=most, plan_most=most // 2)
    assert estimate_text(composed) <= 1.2 * most + most // 2 + 60


def test_the_narrative_is_kept_before_the_lists_are():
    narrative = "## Key decisions\n" + "We keep the old parser. " * 20
    composed = compose(busy_log("prose"), [], narrative, most=estimate_text(narrative) + 500, plan_most=0)
    assert narrative in composed


def test_the_small_form_is_smaller():
    assert len(digest(busy_log("prose"), SMALL)) < len(digest(busy_log("prose"), FULL)) / 2
