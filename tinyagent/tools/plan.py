"""The tool that keeps the model's plan, which is pinned: it is sent again from state and never summarised."""

from tinyagent.core.types import Facts, Json, Tool, ToolContext, ToolOutput


def plan(arguments: Json, context: ToolContext) -> ToolOutput:
    items: list[Json] = [{"text": item["text"], "status": item["status"]} for item in arguments["items"]]
    done = sum(item["status"] == "done" for item in items)
    return ToolOutput(f"plan kept: {done} of {len(items)} done", facts=Facts(plan=items))


PLAN = Tool(
    name="plan",
    description="Keep the plan of a longer job. Send all items each time; the last plan is never forgotten.",
    parameters={
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "text": {"type": "string", "maxLength": 500},
                        "status": {"type": "string", "enum": ["open", "doing", "done"]},
                    },
                    "required": ["text", "status"],
                    "additionalProperties": False,
                },
                "maxItems": 50,
            }
        },
        "required": ["items"],
        "additionalProperties": False,
    },
    effect="read",
    run=plan,
)
