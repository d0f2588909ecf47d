"""The composition root: settings become a session. With endpoint.py the only file that names concrete classes."""

import os
import random
import shutil
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from tinyagent import __version__
from tinyagent.agent import Agent, Observer
from tinyagent.config import Settings, folders
from tinyagent.config.schema import SandboxSettings
from tinyagent.core.errors import ConfigError, ModelError
from tinyagent.core.events import ChildEnded, Decision, Notice, RunEnded, RunResumed, RunStarted
from tinyagent.core.limits import Limits
from tinyagent.core.state import Run, RunState, fold
from tinyagent.core.types import Message, Model, Sandbox, Tool, ToolCall, ToolMessage, ToolOutput, Verdict
from tinyagent.endpoint import Connected, connect, key_names, stand_in
from tinyagent.models.wires import encode as encode_request
from tinyagent.models.wires import encoder as request_encoder
from tinyagent.prompt import PROMPTS, ContextFiles, load_context_files, system_prompt
from tinyagent.sandboxes.bubblewrap import BubblewrapSandbox
from tinyagent.sandboxes.container import ContainerSandbox
from tinyagent.sandboxes.leftovers import end_leftovers, is_within
from tinyagent.sandboxes.local import LocalSandbox
from tinyagent.security.environment import NON_INTERACTIVE, child_environment
from tinyagent.security.paths import Places
from tinyagent.security.policy import Ask, decide
from tinyagent.security.redact import Redactor
from tinyagent.security.rules import Permissions
from tinyagent.sending import Sender
from tinyagent.subagents import notices_only, report_back, unreported, what_is_left
from tinyagent.tools import BUILTIN
from tinyagent.tools.bash import bash_tool
from tinyagent.tools.dispatch import Dispatch
from tinyagent.tools.store import FileOutputStore
from tinyagent.trajectory.journal import JOURNAL, Journal, dead_mark
from tinyagent.trajectory.reading import read_journal
from tinyagent.trajectory.runs import new_run_id

__all__ = ["Session", "encode_request", "make_sandbox", "open_session", "request_encoder"]


@dataclass(frozen=True, slots=True)
class Session:
    """A run that is ready to work. `warnings` are on record too."""

    run_id: str
    folder: Path
    agent: Agent
    run: Run
    warnings: tuple[str, ...] = ()
    context_files: tuple[Path, ...] = ()

    @property
    def state(self) -> RunState:
        return self.run.state

    def execute(self, task: str | None) -> RunEnded:
        """Work until the run ends; `task` None goes on where it stopped."""
        return self.agent.execute(task)


@contextmanager
def open_session(
    settings: Settings,
    *,
    cwd: Path,
    environ: Mapping[str, str],
    observer: Observer,
    resume: Path | None = None,
    fork: bool = False,
    model: Model | None = None,
    unbroken: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Generator[Session]:
    """A session for a new run in `cwd`, or for the run in the folder `resume`, or for a copy of that one with `fork`.

    What a killed process has left running of the run is ended first. `model` stands in for the configured one, and
    costs nothing; `unbroken` is as `Run` takes it. Raises ConfigError, RecordError, SandboxLost.
    """
    with ExitStack() as stack:
        runs = folders(environ).runs
        ended = _end_leftovers_of(resume, environ) if resume and fork else ""
        journal = stack.enter_context(_open_journal(runs, resume, fork=fork))
        mark = "" if is_within(journal.mark, environ) else journal.mark
        if resume and not fork:
            ended = end_leftovers(mark)
        before = fold([record.event for record in journal.contents.records])
        workspace = _workspace(Path(before.cwd) if resume else cwd)
        keys = key_names(settings)
        redactor = Redactor(environ[name] for name in keys if environ.get(name))
        run = Run(
            sink=journal.append,
            clock=time.time,
            listeners=[observer.event],
            state=before,
            next_seq=journal.contents.next_seq,
            unbroken=unbroken,
        )
        sandbox = make_sandbox(settings.sandbox, workspace, environ, keys=keys, mark=mark)
        stack.enter_context(sandbox)
        shop = _Workshop(settings, environ, observer, redactor, sandbox, stack, model, unbroken)
        sender = Sender(run, settings.limits, on_text=observer.text, redact=redactor.text)
        connected = shop.connect(sender, cache_key=journal.path.parent.name, steps_done=before.spend.steps)
        context = ContextFiles() if resume else load_context_files(workspace, folders(environ).config)
        if resume:
            forked_from = resume.name if fork else ""
            run.emit(RunResumed(__version__, connected.setup, settings.public(), forked_from))
            known = {r.event.run_id for r in journal.contents.records if isinstance(r.event, ChildEnded)}
            for child in unreported(journal.path.parent, known):
                run.emit(child)
        else:
            system = redactor.text(system_prompt(workspace, system=os.uname().sysname, context=context))
            run.emit(shop.started(journal.path.parent.name, connected, system, shop.tools(), context=context))
        warnings = (*([ended] if ended else []), *journal.contents.notices, *context.notices)
        for text in warnings:
            run.emit(Notice(text))
        agent = shop.agent(run, sender, connected, settings.limits, journal.path.parent, may_spawn=True)
        yield Session(run.state.run_id, journal.path.parent, agent, run, warnings, context.files)


@dataclass(frozen=True, slots=True)
class _Workshop:
    """What the agents of one session share, and how an agent is put together from it."""

    settings: Settings
    environ: Mapping[str, str]
    observer: Observer
    redactor: Redactor
    sandbox: Sandbox
    stack: ExitStack
    stand_in: Model | None
    unbroken: Callable[[], AbstractContextManager[None]]

    def connect(self, sender: Sender, *, cache_key: str, steps_done: int = 0) -> Connected:
        """The model, with its retries booked by `sender`."""

        def waiting(error: ModelError, seconds: float, attempt: int) -> None:
            self.observer.waiting(f"{error}; try {attempt + 1} in {seconds:.0f} s")

        if self.stand_in is not None:
            return stand_in(self.stand_in, self.settings)
        connected = connect(
            self.settings,
            self.environ,
            cache=folders(self.environ).cache,
            on_wait=waiting,
            on_failed=sender.round_failed,
            is_passing=sender.is_passing,
            cache_key=cache_key,
            steps_done=steps_done,
        )
        self.stack.callback(connected.close)
        return connected

    def tools(self) -> list[Tool]:
        bash = bash_tool(default_timeout_s=int(self.settings.tools.command_timeout))
        known = BUILTIN | {bash.name: bash}
        return [tool for name, tool in known.items() if name in self.settings.tools.enabled]

    def started(
        self,
        run_id: str,
        connected: Connected,
        system: str,
        tools: Sequence[Tool],
        *,
        context: ContextFiles,
        parent: str = "",
    ) -> RunStarted:
        return RunStarted(
            run_id=run_id,
            version=__version__,
            cwd=str(self.sandbox.root),
            setup=connected.setup,
            system=system,
            tools=tuple(tool.spec for tool in tools),
            settings=self.settings.public(),
            context_files=tuple(str(path) for path in context.files),
            parent=parent,
        )

    def agent(
        self, run: Run, sender: Sender, connected: Connected, limits: Limits, folder: Path, *, may_spawn: bool
    ) -> Agent:
        """An agent for a run that was started; it gets the tools that the run's first event names."""
        named = {spec.name for spec in run.state.tools}
        dispatch = Dispatch(
            [tool for tool in self.tools() if tool.name in named],
            self.sandbox,
            FileOutputStore(folder / "outputs", logged=lambda position: _logged(run.state, position)),
            permit=self._permit(run),
            redact=self.redactor.text,
            redact_stream=self.redactor.stream,
            on_crash=lambda call, trace: run.emit(Notice(f"the tool {call.name} failed", detail=trace)),
            max_chars=self.settings.tools.output_chars,
            seen=_seen(run.state.messages),
            spawn=self._spawner(run, sender, limits, folder) if may_spawn else None,
        )
        return Agent(
            run,
            connected.model,
            dispatch,
            sender,
            limits=limits,
            policy=self.settings.context,
            summarizer=connected.summarizer,
            summarizer_window=lambda: connected.summarizer_window or run.state.window.tokens,
            summary_prompt=(PROMPTS / "summary.md").read_text(encoding="utf-8"),
            reserved_output=self.settings.max_output_tokens or None,
            strip_reasoning=connected.strip_reasoning,
            redact=self.redactor.text,
        )

    def _permit(self, run: Run) -> Callable[[ToolCall, Tool], Verdict]:
        wanted = self.settings.permissions
        rules = Permissions.parse(allow=wanted.allow, ask=wanted.ask, deny=wanted.deny)
        own = folders(self.environ)
        home = Path(self.environ.get("HOME") or "/")
        places = Places(self.sandbox.root, home, (own.config / "config.yaml", own.runs))

        def permit(call: ToolCall, tool: Tool) -> Verdict:
            verdict = decide(call, tool.effect, mode=self.settings.approval, rules=rules, places=places)
            asked = isinstance(verdict, Ask)
            if isinstance(verdict, Ask):
                verdict = self.observer.ask(call, verdict.reason) or verdict.denied()
            if asked or not verdict.allowed:
                run.emit(Decision(call.id, call.name, verdict.allowed, verdict.by))
            return verdict

        return permit

    def _spawner(self, parent: Run, sender: Sender, limits: Limits, folder: Path) -> Callable[[str], ToolOutput]:
        """How the `task` tool starts a sub-agent: a run of its own, with what is left of every limit."""

        def spawn(prompt: str) -> ToolOutput:
            left = what_is_left(limits, parent.state, sender.remaining_s())
            if left is None:
                return ToolOutput("No sub-agent was started: the run's limits leave nothing for one.", is_error=True)
            number = 1 + sum(1 for _ in (folder / "children").glob("*"))
            run_id = f"{parent.state.run_id}.{number}"
            with ExitStack() as stack, Journal.create(folder / "children" / str(number)) as journal:
                child = Run(
                    sink=journal.append,
                    clock=time.time,
                    listeners=[notices_only(self.observer.event)],
                    unbroken=self.unbroken,
                )
                shop = replace(self, stack=stack)
                own = Sender(child, left, on_text=_ignore, redact=self.redactor.text)
                connected = shop.connect(own, cache_key=run_id)
                tools = [tool for tool in shop.tools() if tool.effect != "spawn"]
                started = shop.started(
                    run_id, connected, parent.state.system, tools, context=ContextFiles(), parent=parent.state.run_id
                )
                child.emit(started)
                agent = shop.agent(child, own, connected, left, journal.path.parent, may_spawn=False)
                end = agent.execute(prompt)
            return report_back(parent, child.state, end)

        return spawn


def _ignore(_: str) -> None:
    return


@contextmanager
def _open_journal(runs: Path, resume: Path | None, *, fork: bool) -> Generator[Journal]:
    if resume is not None and not fork:
        with Journal.open(resume) as journal:
            yield journal
        return
    folder = runs / new_run_id(time.time(), random.Random())
    if resume is not None:
        _copy_run(resume, folder)
    with Journal.open(folder) if resume is not None else Journal.create(folder) as journal:
        yield journal


def _end_leftovers_of(source: Path, environ: Mapping[str, str]) -> str:
    """For a fork, which works in the same folder as its source. A source that is at work is left alone."""
    with dead_mark(source) as mark:
        return "" if is_within(mark, environ) else end_leftovers(mark)


def _copy_run(source: Path, target: Path) -> None:
    """The run under another id, so that both can go on from the same point."""
    contents = read_journal(source / JOURNAL)
    with Journal.create(target) as journal:
        for record in contents.records:
            event = record.event
            renamed = replace(event, run_id=target.name) if isinstance(event, RunStarted) else event
            journal.append(replace(record, event=renamed))
    if (source / "outputs").is_dir():
        shutil.copytree(source / "outputs", target / "outputs")


def _workspace(folder: Path) -> Path:
    if not folder.is_dir():
        raise ConfigError(f"the workspace {folder} does not exist or is not a directory")
    return folder.resolve()


def make_sandbox(
    wanted: SandboxSettings, workspace: Path, environ: Mapping[str, str], *, keys: Collection[str], mark: str = ""
) -> Sandbox:
    """The sandbox that the settings ask for; `keys` are variables that no command gets. Raises ConfigError.

    `mark` names its process tree, "" gives it a fresh one. Entering it raises SandboxLost where it cannot work.
    """
    env = child_environment(environ, key_names=keys, pass_names=wanted.pass_env)
    match wanted.kind:
        case "local":
            return LocalSandbox(workspace, env=env, mark=mark)
        case "bubblewrap" | "auto":
            return BubblewrapSandbox(workspace, env=env, share_net=wanted.network, mark=mark)
        case "docker" | "podman" as engine:
            if not wanted.image:
                raise ConfigError(f"--sandbox {engine} needs an image: set sandbox.image in the configuration")
            passed = {name: environ[name] for name in wanted.pass_env if name in environ}
            inside = {**NON_INTERACTIVE, **passed}
            return ContainerSandbox(
                workspace,
                env=env,
                image=wanted.image,
                engine=engine,
                variables=inside,
                share_net=wanted.network,
                mark=mark,
            )


def _logged(state: RunState, position: int) -> str | None:
    """The text of the tool result with this message id; None if there is none."""
    if not 1 <= position <= len(state.messages):
        return None
    message = state.messages[position - 1]
    return message.text if isinstance(message, ToolMessage) else None


def _seen(messages: Sequence[Message]) -> dict[str, str]:
    """Path to the digest of the bytes that the model last read or wrote, from the log."""
    facts = [m.facts for m in messages if isinstance(m, ToolMessage)]
    return {f["path"]: f["digest"] for f in facts if "path" in f and "digest" in f}
