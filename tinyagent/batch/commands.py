"""Setup and check: commands of the task's file, run where the model's commands run."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tinyagent.batch.attempt import LOG
from tinyagent.batch.order import Order
from tinyagent.core.types import Completed, Sandbox
from tinyagent.sandboxes.tree import marked_environment

COMMAND_LIMIT_S = 600.0  # unless the task itself may take longer
_MAX_BYTES = 100_000


def run_command(what: str, command: str, order: Order, root: Path, *, environ: Mapping[str, str]) -> Completed:
    """Run it in the task's sandbox, within a time limit, with its output in the task's log. Raises SandboxLost."""
    limit = max(COMMAND_LIMIT_S, order.time_s or 0.0)
    with _sandbox(order, root, marked_environment(environ, order.mark)) as sandbox:
        done = sandbox.run(command, timeout_s=limit, max_bytes=_MAX_BYTES)
    note(order, f"$ {command}\n{done.output.rstrip()}\n[{what}: {ending(done)}, {done.duration_s:.1f} s]")
    return done


def note(order: Order, text: str) -> None:
    """Add to the task's log."""
    order.folder.mkdir(parents=True, exist_ok=True)
    with (order.folder / LOG).open("a", encoding="utf-8", errors="backslashreplace") as log:
        log.write(f"\n{text}\n")


def ending(done: Completed) -> str:
    """How a command ended, in words."""
    return "stopped at its time limit" if done.timed_out else f"exit code {done.exit_code}"


def _sandbox(order: Order, root: Path, environ: Mapping[str, str]) -> Sandbox:
    from tinyagent.build import make_sandbox

    task, wanted = order.task, order.sandbox
    own = replace(
        wanted,
        kind=task.sandbox or wanted.kind,
        image=task.image or wanted.image,
        pass_env=(*wanted.pass_env, *task.env),
    )
    return make_sandbox(own, root, {**environ, **task.env}, keys=order.key_names)
