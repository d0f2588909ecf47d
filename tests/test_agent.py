"""The loop: from a task to the end of its run, whatever the model, the tools and the user do."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.harness import Call, ToyModel, Turn, World, say, turn
from tinyagent.agent import CUT, EMPTY, NOT_RUN, Terminated
from tinyagent.core.errors import EndReason, ErrorKind, ModelError, RecordError, SandboxLost
from tinyagent.core.events import MessageAdded, ModelCalled, Notice, Record, RunEnded
from tinyagent.core.limits import Limits
from tinyagent.core.loops import STOP_AT, WARN_AT
from tinyagent.core.pricing import Prices
from tinyagent.core.types import AssistantMessage, ToolCall, ToolMessage, UserMessage

PRICES = Prices(3.0, 15.0)


def messages(world: World, kind: type) -> list[str]:
    return [m.text for m in world.state.messages if isinstance(m, kind)]


def test_an_answer_without_a_call_ends_the_run_with_it():
    world = World([turn("a.py b.py"), say("There are two files.")])
    assert world.execute("Which files?") == RunEnded("submitted", submission="There are two files.")


def test_every_call_of_a_reply_is_answered_in_order_before_the_next_request():
    world = World([turn("one", "two", "three"), say()])
    world.execute()
    assert [m.text for m in world.steps[1].request.messages[2:]] == ["one", "two", "three"]


def test_the_events_of_a_step_stand_in_the_order_in_which_they_happened():
    world = World([turn("one"), say()])
    world.execute()
    kinds = [type(event).__name__ for event in world.events]
    step = ["ModelCalled", "MessageAdded", "MessageAdded"]
    assert kinds == ["RunStarted", "MessageAdded", *step, "ModelCalled", "MessageAdded", "RunEnded"]


@pytest.mark.parametrize("empty", [say(""), say(" \n\t"), say("", reasoning="Let me think.")])
def test_an_empty_reply_is_no_message_and_the_model_is_told(empty):
    world = World([turn("ok"), empty, say("Done.")])
    assert world.execute().submission == "Done."
    assert messages(world, AssistantMessage) == ["", "Done."]
    assert messages(world, UserMessage)[-1] == EMPTY


def test_nothing_but_empty_replies_ends_the_run():
    world = World([say("")] * 9)
    assert world.execute().reason == "empty_response"
    assert len(world.steps) == 3


def test_a_reply_between_resets_the_count_of_empty_ones():
    script = [say(""), say(""), turn("ok"), say(""), say(""), turn("ok"), say("Done.")]
    assert World(script).execute().reason == "submitted"


def test_an_answer_that_was_cut_off_is_gone_on_with():
    world = World([say("First half", stop="length"), say("and the rest.")])
    assert world.execute().submission == "and the rest."
    assert messages(world, UserMessage)[-1] == CUT


def test_answers_that_are_cut_off_each_time_end_the_run():
    world = World([say("half", stop="length")] * 9)
    end = world.execute()
    assert (end.reason, len(world.steps)) == ("empty_response", 3)
    assert "output limit" in end.error


def test_a_refusal_ends_the_run_with_the_models_words():
    end = World([say("I will not do that.", stop="refusal")]).execute()
    assert (end.reason, "I will not do that." in end.error) == ("refused", True)


def unreadable(number: int) -> AssistantMessage:
    broken = ToolCall(f"x{number}", "bash", None, "no JSON: line 1", '{"command": "ls')
    return AssistantMessage("", (broken,), "tool_calls")


def test_calls_that_cannot_be_read_are_answered_and_end_the_run_at_the_third_time():
    world = World([unreadable(n) for n in range(9)])
    end = world.execute()
    assert (end.reason, len(world.steps)) == ("bad_tool_calls", 3)
    assert "no JSON: line 1" in end.error


def test_one_readable_call_among_broken_ones_is_progress():
    script = [unreadable(1), unreadable(2), turn("ok"), unreadable(3), unreadable(4), say("Done.")]
    assert World(script).execute().reason == "submitted"


def test_repeated_calls_are_warned_of_once_and_then_end_the_run():
    world = World([Turn((Call("same", "bash", {"command": "make"}),))] * 20)
    end = world.execute()
    assert end.reason == "loop_detected"
    assert len(world.steps) == STOP_AT
    notices = messages(world, UserMessage)[1:]
    assert len(notices) == 1
    assert f"{WARN_AT} times" in notices[0]


def test_ids_of_calls_are_unique_in_a_run_whatever_the_server_says():
    world = World([Turn((Call("one"), Call("two")), ids=("call_0", "call_0"))] * 3 + [say()])
    assert world.execute().reason == "submitted"
    ids = [c.id for m in world.state.messages if isinstance(m, AssistantMessage) for c in m.tool_calls]
    assert len(set(ids)) == len(ids) == 6


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("auth", "auth"),
        ("quota", "provider_error"),
        ("not_found", "provider_error"),
        ("bad_request", "provider_error"),
        ("parameter", "provider_error"),
        ("rate", "transient_provider_error"),
        ("overloaded", "transient_provider_error"),
        ("network", "transient_provider_error"),
        ("stream_cut", "transient_provider_error"),
        ("malformed", "transient_provider_error"),
    ],
)
def test_what_a_provider_refuses_ends_the_run_with_its_own_reason(kind: ErrorKind, reason: EndReason):
    end = World([ModelError("the provider's words", kind=kind)]).execute()
    assert (end.reason, end.error) == (reason, "the provider's words")


def test_a_parameter_that_the_server_does_not_know_is_left_out_and_the_step_goes_on():
    class Adjusting(ToyModel):
        def adjust(self, parameter: str) -> bool:
            return parameter == "temperature"

    refused = ModelError("no such parameter", kind="parameter", parameter="temperature")
    assert World(model=Adjusting([refused, say("Done.")])).execute().reason == "submitted"


def test_the_step_limit_counts_answers_and_not_failed_requests():
    world = World([turn("a"), turn("b"), turn("c"), say()], limits=Limits(steps=2))
    assert world.execute().reason == "step_limit"
    assert len(world.steps) == 2
    assert messages(world, ToolMessage) == ["a", "b"]


def test_a_request_whose_worst_case_passes_the_cost_limit_is_not_sent():
    world = World([turn("a")] * 50, prices=PRICES, limits=Limits(cost_usd=0.02), max_output_tokens=1_000)
    assert world.execute().reason == "cost_limit"
    assert 0 < (world.state.spend.cost_usd or 0.0) <= 0.02


def test_a_failed_request_that_may_have_been_billed_is_booked():
    world = World([ModelError("the stream ended early", kind="stream_cut", billed=True)], prices=PRICES)
    world.execute()
    (booked,) = [event for event in world.events if isinstance(event, ModelCalled)]
    assert booked.estimated
    assert booked.usage is not None
    assert (booked.cost_usd or 0.0) > 0


def test_a_request_that_never_got_there_costs_nothing():
    world = World([ModelError("connection refused", kind="network")], prices=PRICES)
    world.execute()
    assert world.state.spend.cost_usd == 0.0


def test_the_time_limit_stops_before_the_next_request():
    model = ToyModel([turn("a"), turn("b"), say()])

    def slow(call_: ToolCall) -> None:
        model.clock.sleep(40)

    world = World(model=model, limits=Limits(time_s=60))
    world.tools.before_call = slow
    end = world.execute()
    assert (end.reason, len(world.steps)) == ("time_limit", 2)
    assert messages(world, ToolMessage) == ["a", "b"]


def test_results_of_the_step_before_are_never_added_again():
    model = ToyModel([turn("a"), turn("b"), say()])
    world = World(model=model, limits=Limits(time_s=60))
    world.tools.before_call = lambda call_: model.clock.sleep(0 if call_.id == "c1" else 100)
    model.on_complete = lambda: model.clock.sleep(30)
    world.execute()
    assert len(set(messages(world, ToolMessage))) == len(messages(world, ToolMessage))


@pytest.mark.parametrize(
    ("raised", "reason"),
    [(KeyboardInterrupt, "interrupted"), (Terminated, "terminated")],
)
def test_a_signal_during_a_request_ends_the_run_and_books_it(raised: type[BaseException], reason: EndReason):
    world = World([turn("a"), raised], prices=PRICES)
    assert world.execute().reason == reason
    assert isinstance(world.events[-1], RunEnded)
    assert world.refused[0].error == "network: interrupted"
    assert world.refused[0].estimated


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (KeyboardInterrupt(), "interrupted"),
        (Terminated("SIGTERM"), "terminated"),
        (SandboxLost("gone"), "sandbox_lost"),
    ],
)
def test_what_stops_a_batch_of_calls_leaves_exactly_one_result_for_each(raised, reason):
    world = World([turn("one", "two", "three")])

    def stop(call_: ToolCall) -> None:
        if call_.id == "c2":
            raise raised

    world.tools.before_call = stop
    assert world.execute().reason == reason
    assert messages(world, ToolMessage) == ["one", NOT_RUN, NOT_RUN]


def test_a_run_that_was_stopped_goes_on_with_the_users_next_words():
    first = World([turn("one"), KeyboardInterrupt])
    first.execute("Do A.")
    second = World([say("Done with B.")], records=first.records)
    assert second.execute("Do B instead.").submission == "Done with B."
    assert [m.kind for m in second.steps[0].request.messages if isinstance(m, UserMessage)] == ["task", "user"]


def test_a_run_that_was_stopped_goes_on_without_words_where_it_stopped():
    first = World([turn("one"), KeyboardInterrupt])
    first.execute("Do A.")
    second = World([say("Done.")], records=first.records)
    assert second.execute(None).submission == "Done."
    assert second.steps[0].request.messages == first.steps[-1].request.messages


def test_a_finished_run_that_is_taken_up_without_words_says_the_same_again():
    first = World([say("Done.")])
    first.execute()
    second = World([], records=first.records)
    assert second.execute(None).submission == "Done."
    assert second.model.sent == []


def test_our_own_failure_ends_the_run_with_its_trace_on_record():
    world = World([turn("a"), say()])

    def fail(call_: ToolCall) -> None:
        raise ZeroDivisionError("our own fault")

    world.tools.before_call = fail
    end = world.agent.execute("Go.")
    assert (end.reason, end.error) == ("crashed", "ZeroDivisionError: our own fault")
    (notice,) = [event for event in world.events if isinstance(event, Notice)]
    assert "Traceback" in notice.detail
    assert messages(world, ToolMessage) == [NOT_RUN]


def test_a_full_disk_ends_the_run_and_hides_no_other_reason():
    written: list[Record] = []

    def sink(record: Record) -> None:
        written.append(record)
        if isinstance(record.event, MessageAdded) and isinstance(record.event.message, ToolMessage):
            raise RecordError("no space left on device")

    end = World([turn("a"), say()], sink=sink).agent.execute("Go.")
    assert (end.reason, "no space left" in end.error) == ("crashed", True)


def test_text_of_the_user_is_cleaned_of_secrets_before_it_is_recorded():
    world = World([say()], redact=lambda text: text.replace("hunter2", "[secret]"))
    world.execute("The password is hunter2.")
    assert "hunter2" not in world.steps[0].texts


def test_a_request_is_the_view_with_system_text_and_tools():
    world = World([say()])
    world.execute("Go.")
    request = world.steps[0].request
    assert (request.system, request.tools) == (world.state.system, world.state.tools)
    assert request.messages == (UserMessage("Go.", "task"),)


def test_a_run_is_the_list_of_its_events():
    world = World([turn("a", "b"), say("", stop="end"), turn("c"), say("Done.")])
    world.execute()
    assert world.refolded() == world.state
    assert [record.seq for record in world.records] == list(range(1, len(world.records) + 1))


def test_the_payload_of_a_reply_is_kept_as_it_came():
    wired = replace(turn("a"), wire={"content": [{"type": "thinking", "signature": "x"}]})
    world = World([wired, say()])
    world.execute()
    replies: Sequence[AssistantMessage] = [
        m for m in world.steps[1].request.messages if isinstance(m, AssistantMessage)
    ]
    assert replies[0].wire == {"content": [{"type": "thinking", "signature": "x"}]}
