"""The tools that the model gets, and what runs them."""

from tinyagent.core.types import Tool
from tinyagent.tools.bash import bash_tool
from tinyagent.tools.files import EDIT, READ, WRITE
from tinyagent.tools.outputs import READ_OUTPUT
from tinyagent.tools.plan import PLAN
from tinyagent.tools.subagent import TASK

__all__ = ["BUILTIN"]

# The order is that of the prompt, which stays the same for a whole run.
BUILTIN: dict[str, Tool] = {tool.name: tool for tool in (bash_tool(), READ, WRITE, EDIT, READ_OUTPUT, PLAN, TASK)}
