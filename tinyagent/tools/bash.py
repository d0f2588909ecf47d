"""The tool that runs commands."""

from functools import partial

from tinyagent.core.types import Completed, Facts, Json, Tool, ToolContext, ToolOutput

_COMMAND_BYTES = 100_000  # Linux takes at most 128 KiB in one argument (MAX_ARG_STRLEN)
_BYTES_PER_CHAR = 8  # so that head and tail are whole in memory, also when each character takes four bytes


def bash_tool(*, default_timeout_s: int = 120, max_timeout_s: int = 3600) -> Tool:
    """The `bash` tool with its time limits in seconds."""
    return Tool(
        name="bash",
        description=(
            "Run a command in bash; returns output (stdout and stderr) and exit code. "
            "Each call is a fresh shell in the workspace, with no terminal and no stdin."
        ),
        parameters={
            "type": "object",
            "properties": {
                "command": {"type": "string"},
                "timeout_s": {
                    "type": "number",
                    "description": f"default {default_timeout_s}, at most {max_timeout_s}",
                    "minimum": 1,
                    "maximum": max_timeout_s,
                },
            },
            "required": ["command"],
            "additionalProperties": False,
        },
        effect="execute",
        run=partial(_bash, default_timeout_s=default_timeout_s, max_timeout_s=max_timeout_s),
    )


def _bash(arguments: Json, context: ToolContext, *, default_timeout_s: int, max_timeout_s: int) -> ToolOutput:
    """Run one command. Output larger than what can be shown is spooled to the store, the rest only returned."""
    command: str = arguments["command"]
    if problem := _unfit(command):
        return ToolOutput(problem, is_error=True)
    asked_s = float(arguments.get("timeout_s", default_timeout_s))
    timeout_s = asked_s if context.remaining_s is None else min(asked_s, context.remaining_s)
    spool_id, spool = context.store.new_path()
    max_bytes = context.max_chars * _BYTES_PER_CHAR
    try:
        done = context.sandbox.run(command, timeout_s=timeout_s, max_bytes=max_bytes, spool=spool)
    except BaseException:  # also Ctrl-C: an output that nobody will publish holds secrets in the clear
        spool.unlink(missing_ok=True)
        raise
    ending = _ending(done, timeout_s, max_timeout_s, cut_short=timeout_s < asked_s)
    if done.output_bytes > max_bytes:
        ending += f"\n[{done.output_bytes:,} bytes of output]"
    if done.output and not done.output.endswith("\n"):
        ending = "\n" + ending
    if done.output_bytes > max_bytes:
        with spool.open("ab") as file:
            file.write(ending.encode())
    else:
        spool_id = ""
    facts = Facts(command=command, exit_code=done.exit_code)
    return ToolOutput(done.output + ending, is_error=done.timed_out, facts=facts, spool_id=spool_id)


def _unfit(command: str) -> str:
    if "\0" in command:
        return "The command holds a NUL character; bash cannot take one."
    size = len(command.encode("utf-8", "surrogatepass"))
    if size > _COMMAND_BYTES:
        return f"The command is too long ({size:,} bytes, at most {_COMMAND_BYTES:,}): write it to a file and run that."
    if any("\ud800" <= char <= "\udfff" for char in command):
        return "The command holds half of a surrogate pair, which is no character."
    return ""


def _ending(done: Completed, timeout_s: float, max_timeout_s: int, *, cut_short: bool) -> str:
    if done.timed_out and cut_short:
        return f"[stopped after {timeout_s:.3g} s: the run's time limit is reached]"
    if done.timed_out:
        return (
            f"[stopped after {timeout_s:.4g} s, its time limit; give a larger timeout_s (at most {max_timeout_s}), "
            "or run it in the background: COMMAND > log.txt 2>&1 &]"
        )
    signal = f" ({done.signal})" if done.signal else ""
    return f"[exit code {done.exit_code}{signal}, {done.duration_s:.1f} s]"
