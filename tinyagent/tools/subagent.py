"""The tool that hands a job to a sub-agent."""

from tinyagent.core.types import Json, Tool, ToolContext, ToolOutput


def task(arguments: Json, context: ToolContext) -> ToolOutput:
    if context.spawn is None:
        return ToolOutput("A sub-agent is not available here: do the job yourself.", is_error=True)
    return context.spawn(arguments["prompt"])


TASK = Tool(
    name="task",
    description=(
        "Give a self-contained job to a sub-agent with a context of its own, for example to read much and answer "
        "one question. It knows only the prompt; you get only its answer."
    ),
    parameters={
        "type": "object",
        "properties": {"prompt": {"type": "string", "minLength": 1}},
        "required": ["prompt"],
        "additionalProperties": False,
    },
    effect="spawn",
    run=task,
)
