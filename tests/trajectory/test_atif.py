"""ATIF v1.7: valid for Harbor's own models, true in what those do not check, and readable again."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings

from tests.trajectory.atif_faults import problems
from tests.trajectory.generators import build_run, runs
from tests.trajectory.peers import ask_peer
from tests.trajectory.viewer_data import realistic_run
from tinyagent.core.errors import RecordError
from tinyagent.core.events import (
    ChildEnded,
    Compacted,
    MessageAdded,
    ModelCalled,
    ModelSetup,
    Record,
    RunEnded,
    RunStarted,
)
from tinyagent.core.state import fold
from tinyagent.core.types import AssistantMessage, Json, ToolCall, ToolMessage, Usage, UserMessage, Window
from tinyagent.trajectory.atif import to_atif
from tinyagent.trajectory.atif_reading import from_atif, is_atif

HARBOR = """
import json, sys
from harbor.utils.trajectory_validator import TrajectoryValidator
found = []
for number, document in enumerate(json.load(open(sys.argv[1], encoding="utf-8"))):
    validator = TrajectoryValidator()
    if not validator.validate(document):
        found.append([number, validator.errors])
print(json.dumps(found))
"""


def recorded(*events: Any) -> list[Record]:
    started = RunStarted("run-1", "0.1.0", "/work", ModelSetup("openai/gpt-x", {}, Window(8192)), "Be brief.", ())
    return [Record(n, 1000.0 + n, event) for n, event in enumerate((started, *events), 1)]


def said(message: Any) -> MessageAdded:
    return MessageAdded(message, 10, 1)


def called(cost_usd: float | None = 0.5, *, error: str = "", purpose: Any = "step") -> ModelCalled:
    return ModelCalled(purpose, 1, "00ff", 100, usage=Usage(100, 10, 40), cost_usd=cost_usd, error=error)


def agent_step(document: Json) -> Json:
    return next(step for step in document["steps"] if step["source"] == "agent")


def folded(records: list[Record]) -> Any:
    return fold([record.event for record in records])


def test_harbors_own_models_take_the_documents(tmp_path: Path) -> None:
    child = recorded(said(UserMessage("Look.", "task")), called(), said(AssistantMessage("Seen.")))
    documents = [
        to_atif(realistic_run()),
        to_atif(realistic_run(), children={"20261130-054312-c0de": child}),
        to_atif(recorded()),
        *(to_atif(build_run(Random(seed), steps=7)) for seed in range(60)),
    ]
    assert ask_peer("harbor", "TINYAGENT_TEST_HARBOR", HARBOR, documents, tmp_path) == []


@given(runs())
@settings(max_examples=60, deadline=None)
def test_a_document_has_no_fault_that_the_models_would_let_pass(records: list[Record]) -> None:
    assert problems(to_atif(records)) == []


@given(runs())
@settings(max_examples=60, deadline=None)
def test_what_is_read_again_has_the_same_view_texts_and_totals(records: list[Record]) -> None:
    before, after = folded(records), folded(from_atif(json.loads(json.dumps(to_atif(records)))))
    assert [(e.id, e.message.text) for e in after.view.entries] == [(e.id, e.message.text) for e in before.view.entries]
    assert (after.ended and after.ended.reason) == (before.ended and before.ended.reason)
    # Calls of sub-agents are booked with their results there: another order of the same sum.
    assert after.spend.cost_usd == (before.spend.cost_usd and pytest.approx(before.spend.cost_usd))
    assert replace(after.spend, cost_usd=0.0) == replace(before.spend, cost_usd=0.0)


def test_a_pass_is_a_system_step_that_says_what_the_model_sees_from_there_on() -> None:
    records = realistic_run()
    first = next(record.event for record in records if isinstance(record.event, Compacted))
    elided, summarized = (s for s in to_atif(records)["steps"] if "context_management" in s.get("extra", {}))
    number = len(first.elided)
    assert elided["source"] == "system"
    assert elided["message"] == (
        f"compacted context: ~{first.tokens_before:,} → ~{first.tokens_after:,} tokens (elided {number} tool outputs)"
    )
    assert len(elided["observation"]["results"]) == number
    management = elided["extra"]["context_management"]
    assert (management["type"], management["boundary"], management["stages"]) == ("pruning", "truncate", ["elide"])
    management = summarized["extra"]["context_management"]
    assert (management["type"], management["boundary"], management["view"][1]) == ("compaction", "replace", -1)
    assert "## Next steps" in summarized["observation"]["results"][0]["content"]
    assert management["summary_cost_usd"] == summarized["extra"]["model_calls"][0]["cost_usd"] > 0


def test_the_totals_hold_summaries_failed_calls_and_sub_agents() -> None:
    records = realistic_run()
    final, spend = to_atif(records)["final_metrics"], folded(records).spend
    assert final["total_cost_usd"] == pytest.approx(spend.cost_usd)
    assert (final["total_prompt_tokens"], final["total_completion_tokens"]) == (
        spend.usage.input_tokens,
        spend.usage.output_tokens,
    )
    assert final["extra"]["api_calls"] == spend.requests
    assert final["extra"]["subagents"]["requests"] == 6
    assert final["extra"]["model_calls"]["requests"] >= 2


def test_a_failed_request_stands_with_the_step_that_follows_it() -> None:
    reply = said(AssistantMessage("Hello."))
    step = agent_step(to_atif(recorded(called(0.0, error="overloaded: later"), called(), reply)))
    assert [(c["error"], c["purpose"]) for c in step["extra"]["model_calls"]] == [("overloaded: later", "step")]
    assert step["metrics"]["cost_usd"] == 0.5


def test_a_request_after_the_last_step_is_not_lost() -> None:
    document = to_atif(recorded(called(), RunEnded("refused", "the model refused to answer")))
    assert document["extra"]["model_calls"][0]["prompt_tokens"] == 100
    assert document["extra"]["end"]["reason"] == "refused"


def test_arguments_that_were_no_json_stand_as_they_came() -> None:
    call = ToolCall("c1", "bash", None, "not valid JSON", '{"command": "ls')
    answer = said(ToolMessage("c1", "bash", "The arguments cannot be read.", True))
    step = agent_step(to_atif(recorded(called(), said(AssistantMessage("", (call,))), answer)))
    assert step["tool_calls"][0]["arguments"] == {}
    assert step["tool_calls"][0]["extra"] == {"problem": "not valid JSON", "raw_arguments": '{"command": "ls'}
    assert step["observation"]["results"][0]["extra"]["is_error"] is True


def test_a_sub_agent_that_is_given_is_embedded_and_one_that_is_not_is_told_of_by_its_figures() -> None:
    call = ToolCall("c1", "task", {"prompt": "look"})
    ended = ChildEnded("c1", "child-1", "submitted", Usage(500, 20), 0.25, 3)
    records = recorded(called(), said(AssistantMessage("", (call,))), ended, said(ToolMessage("c1", "task", "seen")))
    alone = agent_step(to_atif(records))["observation"]["results"][0]
    assert alone["extra"]["subagents"][0]["cost_usd"] == 0.25
    assert "subagent_trajectory_ref" not in alone
    whole = to_atif(records, children={"child-1": recorded(called(), said(AssistantMessage("seen")))})
    ref = agent_step(whole)["observation"]["results"][0]["subagent_trajectory_ref"][0]
    assert ref["trajectory_id"] == whole["subagent_trajectories"][0]["trajectory_id"] == "child-1"
    assert problems(whole) == []


def test_the_figures_of_a_sub_agent_whose_call_has_no_result_are_kept() -> None:
    """As after a kill between the two records."""
    ended = ChildEnded("c1", "child-1", "submitted", Usage(500, 20), 0.25, 3)
    records = recorded(called(), said(AssistantMessage("", (ToolCall("c1", "task", {}),))), ended)
    document = to_atif(records)
    assert document["extra"]["subagents"][0]["run_id"] == "child-1"
    assert folded(from_atif(document)).spend == folded(records).spend


def test_call_ids_that_a_server_used_twice_become_unique() -> None:
    turn = (said(AssistantMessage("", (ToolCall("c1", "bash", {}),))), said(ToolMessage("c1", "bash", "ok")))
    document = to_atif(recorded(*turn, *turn))
    assert [s["tool_calls"][0]["tool_call_id"] for s in document["steps"] if "tool_calls" in s] == ["c1", "c1_2"]
    assert problems(document) == []


def test_no_number_and_no_character_is_written_that_json_does_not_have() -> None:
    records = recorded(called(math.nan), said(AssistantMessage("lone \ud800", (ToolCall("c", "x", {"a": math.inf}),))))
    document = to_atif(records)
    assert problems(document) == []
    assert json.loads(json.dumps(document, allow_nan=False).encode("utf-8")) == document


def test_an_unknown_price_is_no_total() -> None:
    document = to_atif(recorded(called(None), said(AssistantMessage("Hello."))))
    assert document["final_metrics"]["total_cost_usd"] is None
    assert "cost_usd" not in agent_step(document)["metrics"]


FAULTS: list[tuple[str, Callable[[Json], Any], str]] = [
    ("NaN", lambda d: d["final_metrics"].update(total_cost_usd=math.nan), "is no JSON number"),
    ("surrogate", lambda d: d["steps"][0].update(message="\udfff"), "a lone surrogate"),
    ("surrogate key", lambda d: d["extra"].update({"\udfff": 1}), "a lone surrogate"),
    ("tokens", lambda d: d["final_metrics"].update(total_prompt_tokens=1), "total_prompt_tokens: 1, but"),
    ("cost", lambda d: d["final_metrics"].update(total_cost_usd=0.51), "total_cost_usd: 0.51, but"),
    ("steps", lambda d: d["final_metrics"].update(total_steps=9), "total_steps: 9, but"),
    ("step id", lambda d: d["steps"][0].update(step_id=4), "step_id: 4, not 1"),
    ("call id", lambda d: agent_step(d)["tool_calls"].append(agent_step(d)["tool_calls"][0]), "occurs 2 times"),
    (
        "result",
        lambda d: agent_step(d)["observation"]["results"].append(agent_step(d)["observation"]["results"][0]),
        "has 2 results",
    ),
    (
        "ref",
        lambda d: agent_step(d)["observation"]["results"][0].update(subagent_trajectory_ref=[{"trajectory_id": "x"}]),
        "there is no sub-agent 'x'",
    ),
]


@pytest.mark.parametrize(("break_it", "words"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS])
def test_a_fault_that_the_models_let_pass_is_named(break_it: Callable[[Json], Any], words: str) -> None:
    call = ToolCall("c1", "bash", {})
    document = to_atif(recorded(called(), said(AssistantMessage("", (call,))), said(ToolMessage("c1", "bash", "ok"))))
    break_it(document)
    assert any(words in problem for problem in problems(document)), problems(document)


def test_a_document_of_another_program_is_read_as_far_as_it_goes() -> None:
    document: Json = {
        "schema_version": "ATIF-v1.4",
        "session_id": "s",
        "agent": {"name": "terminus-2", "version": "2", "model_name": "gpt-x"},
        "steps": [
            {"step_id": 1, "source": "user", "message": [{"type": "text", "text": "Do it."}, {"type": "image"}]},
            {"step_id": 2, "source": "agent", "message": "ls", "observation": {"results": [{"content": "a.txt"}]}},
            {
                "step_id": 3,
                "source": "system",
                "message": "Handed off.",
                "extra": {"context_management": {"type": "x"}},
            },
            {
                "step_id": 4,
                "source": "agent",
                "message": "",
                "tool_calls": [{"tool_call_id": "c", "function_name": "bash", "arguments": {"command": "ls"}}],
                "observation": {"results": [{"content": "b.txt"}]},
                "metrics": {"prompt_tokens": 7, "completion_tokens": 2, "cost_usd": 0.1},
            },
        ],
    }
    assert is_atif(document)
    state = folded(from_atif(document))
    assert [message.text for message in state.messages] == ["Do it.\n[image]", "ls", "a.txt", "", "b.txt"]
    assert (state.spend.steps, state.spend.usage.input_tokens) == (2, 7)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"steps": []}, "steps: there are none"),
        ({"steps": {}}, "steps: a list is needed, not dict"),
        ({"steps": [1]}, r"steps\[0\]: an object is needed, not int"),
        ({"steps": [{"source": "robot"}]}, r"steps\[0\].source: 'robot' is not known"),
        ({"steps": [{"source": "agent", "tool_calls": 3}]}, r"steps\[0\].tool_calls: a list is needed, not int"),
        ({"agent": "me", "steps": [{"source": "user"}]}, "agent: an object is needed, not str"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(document: Json, words: str) -> None:
    with pytest.raises(RecordError, match=words):
        from_atif(document)


def test_records_without_a_start_are_refused() -> None:
    with pytest.raises(RecordError, match="not the start of a run"):
        to_atif(recorded()[1:])
