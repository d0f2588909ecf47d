"""The tools as the model is told of them, and the two small ones."""

import json

import splintr

from tinyagent.core.types import ToolOutput
from tinyagent.tools import BUILTIN


def test_the_tools_come_in_a_fixed_order_with_their_effects():
    assert {name: tool.effect for name, tool in BUILTIN.items()} == {
        "bash": "execute",
        "read": "read",
        "write": "write",
        "edit": "write",
        "read_output": "read",
        "plan": "read",
        "task": "spawn",
    }
    assert list(BUILTIN) == ["bash", "read", "write", "edit", "read_output", "plan", "task"]
    assert all(name == tool.name for name, tool in BUILTIN.items())


def test_all_schemas_together_are_small():
    tools = [
        {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.parameters}}
        for t in BUILTIN.values()
    ]
    assert len(splintr.Tokenizer.from_pretrained("o200k_base").encode(json.dumps(tools))) < 900


def test_every_schema_names_its_arguments_and_takes_no_others():
    for tool in BUILTIN.values():
        assert tool.parameters["additionalProperties"] is False
        assert set(tool.parameters["required"]) <= set(tool.parameters["properties"])


def test_the_plan_is_a_fact(room):
    items = [{"text": "look", "status": "done"}, {"text": "fix", "status": "doing"}]
    message = room.call("plan", items=items)
    assert message.text == "plan kept: 1 of 2 done"
    assert message.facts.get("plan") == items


def test_a_plan_with_an_unknown_status_is_told_which_exist(room):
    message = room.call("plan", items=[{"text": "look", "status": "later"}])
    assert "`items[0].status` must be one of open, doing, done" in message.text


def test_a_task_goes_to_the_sub_agent_and_only_its_answer_comes_back(room):
    output = BUILTIN["task"].run({"prompt": "count"}, room.context(spawn=lambda prompt: ToolOutput(f"{prompt}: 3")))
    assert output == ToolOutput("count: 3")


def test_without_sub_agents_a_task_says_so(room):
    assert room.call("task", prompt="count").text == "A sub-agent is not available here: do the job yourself."
