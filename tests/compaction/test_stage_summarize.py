"""A pass that summarises: one request, its bill, and the view that it leaves."""

import pytest

from tests.compaction.scripts import BATCH, talking
from tests.harness import SYSTEM, Call, ToyModel, Turn, World, notes, say
from tinyagent.compaction.plan import ContextPolicy
from tinyagent.core.events import SUMMARY_ID
from tinyagent.core.limits import Limits
from tinyagent.core.pricing import Prices, cost
from tinyagent.core.types import AssistantMessage, Facts, Request, Usage, UserMessage

PRICES = Prices(3.0, 15.0)
TASK = UserMessage("Fix the failing test.", "task")


@pytest.fixture(scope="module")
def world() -> World:
    script = [*talking(15), BATCH, *talking(2), say("Fixed.")]
    model = ToyModel(script, window=16_000, summaries=[notes("We are half through.")])
    world = World(model=model, prices=PRICES)
    assert world.execute().reason == "submitted"
    return world


def test_exactly_one_request_without_tools_asks_for_it(world):
    (sent,) = world.summaries
    assert sent.request.tools == ()
    assert [type(m) for m in sent.request.messages] == [UserMessage]


def test_then_come_task_marked_summary_and_recent_turns(world):
    """oc#24963: the summary stood after the tail; coder PR#22819: it was a system message and nothing else was left."""
    after = next(sent for sent in world.steps if "[summary of earlier work]" in sent.texts)
    task, summary, first, *_ = after.request.messages
    assert task == TASK
    assert isinstance(summary, UserMessage)
    assert summary.kind == "summary"
    assert "We are half through." in summary.text
    assert isinstance(first, AssistantMessage)


def test_a_parallel_batch_of_three_is_kept_whole(world):
    last = world.steps[-1].request.messages
    place = next(i for i, m in enumerate(last) if isinstance(m, AssistantMessage) and m.text == "Three at once.")
    assert [m.text for m in last[place + 1 : place + 4]] == [call.output for call in BATCH.calls]


def test_totals_have_its_tokens_and_cost_and_steps_do_not(world):
    """openai-agents#4434, codex#47003: 1,800 tokens were reported and 192,000 used."""
    assert world.state.spend.steps == len(world.steps)
    assert world.state.spend.requests == len(world.steps) + 1
    booked = [event.usage for event in world.called if event.purpose == "summary"]
    assert [usage.input_tokens for usage in booked if usage] == [sent.prompt for sent in world.summaries]
    total = sum(cost(event.usage, PRICES) or 0.0 for event in world.called if event.usage)
    assert world.state.spend.cost_usd == pytest.approx(total)


def test_the_record_names_the_messages_that_it_stands_for(world):
    (done,) = world.passes
    assert done.view[:2] == (1, SUMMARY_ID)
    assert sorted((*done.summarized, *done.view[2:])) == list(range(2, max(done.view) + 1))


def test_a_summary_that_trips_the_cost_limit_stops_the_run_right_there():
    """hermes PR#60758, cc#95837: the limit ignored what a summary cost."""
    model = ToyModel([*talking(18), say()], window=16_000)
    model.report_summary = lambda prompt, output: Usage(3 * prompt, output)
    before = World([*talking(18), say()], window=16_000, prices=PRICES)
    before.execute()
    spent = sum(e.cost_usd or 0.0 for e in before.called[: before.model.sent.index(before.summaries[0]) + 1])
    world = World(model=model, prices=PRICES, limits=Limits(cost_usd=spent + 0.03))
    end = world.execute()
    assert end.reason == "cost_limit"
    assert world.model.sent[-1].is_summary


def test_a_summary_that_could_pass_the_cost_limit_is_not_asked_for():
    model = ToyModel([*talking(30), say()], window=16_000)
    world = World(model=model, prices=PRICES, limits=Limits(cost_usd=0.45))
    end = world.execute()
    assert end.reason == "cost_limit"
    assert (world.state.spend.cost_usd or 0.0) <= 0.45


def test_the_next_summary_updates_the_one_before():
    """jazz PR#596, claw PR#127997: 44 % of the compactions forgot what was summarised before."""
    asked: list[str] = []

    def update(request: Request) -> AssistantMessage:
        asked.append(request.messages[-1].text)
        return notes(f"Pass {len(asked)}.")

    world = World(model=ToyModel([*talking(50), say()], window=16_000, summaries=[update] * 9))
    world.execute()
    assert len(asked) >= 3
    assert "<earlier_notes>" not in asked[0]
    assert "Pass 1." in asked[1]
    last = world.steps[-1].texts
    assert f"Pass {len(asked)}." in last
    assert "Pass 1." not in last


def test_every_message_is_in_the_view_or_was_summarised_exactly_once():
    """pi PR#1585, oh-my-pi PR#11515: what pass one had kept was skipped by pass two."""
    world = World([*talking(50), say()], window=16_000)
    world.execute()
    gone = [i for done in world.passes for i in (*done.summarized, *done.pruned)]
    here = [entry.id for entry in world.state.view.entries if entry.id != SUMMARY_ID]
    assert sorted(gone + here) == list(range(1, len(world.state.messages) + 1))


def test_five_passes_do_not_make_the_summary_grow():
    """opencrabs#1649: 14 kB became 122 kB, as each summary repeated the one before."""

    def echo(request: Request) -> AssistantMessage:
        earlier = request.messages[-1].text.partition("<earlier_notes>")[2].partition("</earlier_notes>")[0]
        return notes(f"{earlier} and more words of this pass. " * 2)

    world = World(model=ToyModel([*talking(120), say()], window=16_000, summaries=[echo] * 50))
    world.execute()
    assert len(world.passes) >= 5
    assert max(len(done.summary or "") for done in world.passes) < 16_000


def test_the_prefix_form_sends_the_live_request_and_one_instruction():
    policy = ContextPolicy(summary_form="prefix")
    world = World([*talking(150), say()], window=100_000, policy=policy)
    world.execute()
    sent = world.summaries[0]
    assert (sent.request.system, sent.request.tools) == (SYSTEM, world.state.tools)
    before = [s for s in world.model.sent[: world.model.sent.index(sent)] if not s.is_summary][-1]
    assert sent.request.messages[: len(before.request.messages)] == before.request.messages


def test_a_prefix_that_does_not_fit_beside_its_answer_becomes_a_transcript():
    world = World([*talking(20), say()], window=16_000, policy=ContextPolicy(summary_form="prefix"))
    world.execute()
    assert world.refused == []
    assert [sent.request.tools for sent in world.summaries] == [()]


def test_a_summariser_with_a_small_window_of_its_own_is_not_asked_for_more():
    """letta#3279: the history fitted the main model's window, and not that of the summariser."""
    small = ToyModel(window=16_000, name="toy/small")
    world = World([*talking(170), say()], window=100_000, summarizer=small)
    world.execute()
    assert world.summaries
    assert world.refused == []


def test_the_plan_stands_in_the_summary_with_its_state():
    items = [{"text": "find the bug", "status": "done"}, {"text": "write the fix", "status": "doing"}]
    planned = Turn((Call("Noted.", "plan", {"items": items}, Facts(plan=items)),))
    world = World([planned, *talking(20), say()], window=16_000)
    world.execute()
    assert "- [doing] write the fix" in world.steps[-1].texts


def test_a_later_message_of_the_user_is_quoted_when_its_turns_are_gone():
    """crush#3867: the follow-up was taken for the original request."""
    world = World([*talking(4), say("Done with A."), *talking(30), say("Done with B.")], window=16_000)
    world.execute("Task A")
    world.execute("Now task B")
    last = world.steps[-1]
    assert last.request.messages[0] == UserMessage("Task A", "task")
    assert UserMessage("Now task B") not in last.request.messages
    assert "Now task B" in last.texts
