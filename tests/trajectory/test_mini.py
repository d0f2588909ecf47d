"""The form `mini-swe-agent-1.1`: opened by that project's own inspector, and readable again."""

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings

from tests.trajectory.generators import build_run, runs
from tests.trajectory.peers import ask_peer
from tests.trajectory.viewer_data import realistic_run
from tinyagent.core.errors import RecordError
from tinyagent.core.events import ModelCalled, Record
from tinyagent.core.state import RunState, fold
from tinyagent.core.types import AssistantMessage, Json, ToolMessage, Usage
from tinyagent.trajectory.mini import to_mini
from tinyagent.trajectory.mini_reading import from_mini, is_mini

# The project's own page turner, driven through every page of every file in a terminal of its making.
INSPECTOR = """
import asyncio, json, sys, tempfile
from pathlib import Path
from minisweagent.run.utilities.inspector import TrajectoryInspector

async def walk(file):
    app, shown = TrajectoryInspector([file]), []
    async with app.run_test() as pilot:
        for number in range(app.n_steps):
            app.i_step = number
            await pilot.pause()
            shown.append([str(widget.content) for widget in app.query(".message-content")])
    return shown

found = []
for document in json.load(open(sys.argv[1], encoding="utf-8")):
    file = Path(tempfile.mkdtemp()) / "run.traj.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    found.append(asyncio.run(walk(file)))
print(json.dumps(found))
"""

# That project's own agent with its own scripted models, one for each way it writes a turn.
AGENT = """
import json
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models import test_models as models

DONE = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo all done"
actions = [{"command": command, "tool_call_id": f"c{n}"} for n, command in enumerate(("echo first", DONE))]
bash = lambda command: {"name": "bash", "arguments": json.dumps({"command": command})}
call = lambda a: {"id": a["tool_call_id"], "function": bash(a["command"])}
outputs = [
    (models.DeterministicModel, lambda a: models.make_output("Thinking.", [a])),
    (models.DeterministicToolcallModel, lambda a: models.make_toolcall_output("Thinking.", [call(a)], [a])),
    (models.DeterministicResponseAPIToolcallModel, lambda a: models.make_response_api_output("Thinking.", [a])),
]
found = []
for model, output in outputs:
    agent = DefaultAgent(
        model(outputs=[output(action) for action in actions]), LocalEnvironment(),
        system_template="Be brief.", instance_template="Do it.", cost_limit=10,
    )
    agent.run("")
    found.append(agent.serialize())
print(json.dumps(found))
"""


def folded(records: list[Record]) -> RunState:
    return fold([record.event for record in records])


def test_that_projects_inspector_opens_a_run_and_shows_every_page(tmp_path: Path) -> None:
    documents = [to_mini(realistic_run(steps=12)), *(to_mini(build_run(Random(seed), steps=3)) for seed in range(6))]
    shown = ask_peer("minisweagent", "TINYAGENT_TEST_MINI", INSPECTOR, documents, tmp_path)
    for document, pages in zip(documents, shown, strict=True):
        assert sum(len(page) for page in pages) == len(document["messages"])
    assert "Log lines are lost" in shown[0][0][1]
    assert "ls -la" in shown[0][1][0]


def test_what_that_projects_own_agent_writes_can_be_read(tmp_path: Path) -> None:
    for document in ask_peer("minisweagent", "TINYAGENT_TEST_MINI", AGENT, {}, tmp_path):
        assert is_mini(document)
        state = folded(from_mini(document))
        task, reply, result, *_ = state.messages
        assert (state.system, task.text) == ("Be brief.", "Do it.")
        assert isinstance(reply, AssistantMessage)
        assert (reply.text, reply.tool_calls[0].arguments) == ("Thinking.", {"command": "echo first"})
        assert isinstance(result, ToolMessage)
        assert (result.facts.get("exit_code"), "first" in result.text) == (0, True)
        assert state.ended is not None
        assert (state.ended.reason, state.ended.submission.strip()) == ("submitted", "all done")
        assert (state.spend.steps, state.spend.cost_usd) == (2, 2.0)


@given(runs())
@settings(max_examples=60, deadline=None)
def test_every_message_has_what_that_inspector_takes_for_granted(records: list[Record]) -> None:
    document = to_mini(records)
    assert is_mini(document)
    assert json.loads(json.dumps(document, allow_nan=False).encode("utf-8")) == document
    for message in document["messages"]:
        assert message["role"] in ("system", "user", "assistant", "tool", "exit")
        assert isinstance(message["content"], str)
        assert isinstance(message["extra"].get("actions", []), list)
        for call in message.get("tool_calls", []):
            assert isinstance(call["function"]["arguments"], str)


@given(runs())
@settings(max_examples=60, deadline=None)
def test_the_messages_and_the_end_are_read_as_they_were(records: list[Record]) -> None:
    before, after = folded(records), folded(from_mini(json.loads(json.dumps(to_mini(records)))))
    assert [(type(m), m.text) for m in after.messages] == [(type(m), m.text) for m in before.messages]
    assert after.system == before.system
    assert (after.ended and after.ended.reason) == (before.ended and before.ended.reason)


def test_calls_costs_and_exit_codes_are_where_scripts_for_that_form_look() -> None:
    records = realistic_run()
    document, calls = to_mini(records), [record.event for record in records if isinstance(record.event, ModelCalled)]
    first = calls[0].usage or Usage()
    replies = [m for m in document["messages"] if m["role"] == "assistant"]
    assert replies[0]["extra"]["actions"][1] == {"command": "ls -la", "tool_call_id": "toolu_002"}
    assert replies[0]["extra"]["response"]["usage"]["prompt_tokens"] == first.input_tokens
    assert replies[0]["extra"]["cost"] == calls[0].cost_usd
    tests = [m for m in document["messages"] if m["role"] == "tool" and "1 failed" in m["content"]]
    assert {m["extra"]["returncode"] for m in tests} == {1}
    info = document["info"]
    assert (info["exit_status"], len(info["compactions"])) == ("Submitted", 2)
    assert info["model_stats"]["api_calls"] == folded(records).spend.requests
    assert document["messages"][-1]["extra"]["submission"] == info["submission"]


def test_a_reply_of_version_1_is_one_command_and_the_answer_its_output() -> None:
    document: Json = {
        "trajectory_format": "mini-swe-agent-1",
        "info": {"exit_status": "LimitsExceeded", "mini_version": "1.9"},
        "messages": [
            {"role": "system", "content": "You are helpful."},
            {"role": "user", "content": "Fix it."},
            {
                "role": "assistant",
                "content": "```bash\nls\n```",
                "extra": {"actions": [{"command": "ls"}], "cost": 0.1},
            },
            {"role": "user", "content": "<output>a.txt</output>", "extra": {"returncode": 0}},
        ],
    }
    state = folded(from_mini(document))
    assert isinstance(state.messages[2], ToolMessage)
    assert state.messages[2].facts == {"exit_code": 0}
    assert state.ended is not None
    assert (state.ended.reason, state.ended.error) == ("cost_limit", "LimitsExceeded")


def test_a_turn_of_the_responses_api_is_read() -> None:
    document: Json = {
        "trajectory_format": "mini-swe-agent-1.1",
        "messages": [
            {"role": "user", "content": "Fix it."},
            {
                "object": "response",
                "model": "gpt-5",
                "output": [
                    {"type": "reasoning", "summary": []},
                    {"type": "message", "content": [{"type": "output_text", "text": "I look."}]},
                    {"type": "function_call", "call_id": "c", "name": "bash", "arguments": '{"command": "ls"}'},
                ],
                "usage": {"input_tokens": 9, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 4}},
                "extra": {"cost": 0.2},
            },
            {"type": "function_call_output", "call_id": "c", "output": "a.txt", "extra": {"returncode": 0}},
        ],
    }
    state = folded(from_mini(document))
    reply, result = state.messages[1:]
    assert isinstance(reply, AssistantMessage)
    assert (reply.text, reply.tool_calls[0].arguments, result.text) == ("I look.", {"command": "ls"}, "a.txt")
    assert (state.spend.usage.input_tokens, state.spend.usage.cache_read_tokens, state.spend.cost_usd) == (9, 4, 0.2)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({}, "messages: there are none"),
        ({"messages": "x"}, "messages: a list is needed, not str"),
        ({"messages": [{"role": "robot"}]}, r"messages\[0\].role: 'robot' is not known"),
        ({"messages": [{"role": "assistant", "tool_calls": [7]}]}, r"tool_calls\[0\]: an object is needed, not int"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(document: Json, words: str) -> None:
    with pytest.raises(RecordError, match=words):
        from_mini(document)
