"""How a run ends, as scripts see it: exit code, JSON, trajectory and the last line say the same.

Signals are in test_signals.py, limits in depth in test_limits.py.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.e2e.program import KEY, TASK, WIRES, Done, Json, Tinyagent, own_process, proven
from tests.e2e.scripts import bash
from tests.fake_provider import FakeProvider, Scripted
from tests.fake_wires import Call, Say
from tests.faults import Fault, rate_limited
from tinyagent.cli.session import Invocation, run_session
from tinyagent.config import Given
from tinyagent.core.types import Request, Response
from tinyagent.models.scripted import ScriptedModel

RESULT_KEYS = {
    "type",
    "subtype",
    "is_error",
    "result",
    "session_id",
    "num_turns",
    "duration_ms",
    "total_cost_usd",
    "usage",
    "model",
    "exit_status",
    "reason",
    "retryable",
    "exit_code",
    "trajectory_path",
    "compactions",
}
USAGE_KEYS = {"input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"}
LOOK = bash("echo here")


@dataclass(frozen=True)
class Ending:
    """One way to end: what the table of the interface says, and how it comes about."""

    status: str
    code: int
    retryable: bool
    replies: list[Scripted]
    faults: dict[int | str, Fault | str] = field(default_factory=dict[int | str, Fault | str])
    options: tuple[str, ...] = ()
    subtype: str = "error_during_execution"


GARBAGE = Say("", (Call("bash", '{"command": "ls'),))
ENDINGS: dict[str, Ending] = {
    "submitted": Ending("Submitted", 0, False, [LOOK, "All done."], subtype="success"),
    "provider_error": Ending("Error", 1, False, [LOOK, "x"], {2: "no_such_model"}),
    "refused": Ending("Error", 1, False, [LOOK, "x"], {2: "refusal"}),
    "empty_response": Ending("Error", 1, True, [LOOK, ""]),
    "bad_tool_calls": Ending("Error", 1, False, [LOOK, GARBAGE]),
    "loop_detected": Ending("Error", 1, False, [LOOK], subtype="loop"),
    "sandbox_lost": Ending("Error", 1, True, [bash('rm -rf "$PWD"'), bash("echo again")]),
    "cost_limit": Ending("LimitsExceeded", 3, False, [LOOK], {}, ("--cost-limit", "0.01"), "error_max_budget_usd"),
    "step_limit": Ending("LimitsExceeded", 3, False, [LOOK], {}, ("--step-limit", "2"), "error_max_turns"),
    "time_limit": Ending("LimitsExceeded", 3, False, [bash("sleep 9")], {}, ("--time-limit", "0.5"), "error_max_time"),
    "context_truncated": Ending("Error", 4, False, [LOOK], {}, ("--context-window", "700")),
    "transient_provider_error": Ending("Error", 75, True, [LOOK], {2: rate_limited(retry_after="3600")}),
    "auth": Ending("Error", 77, False, [LOOK], {2: "bad_key"}),
    "config": Ending("Error", 78, False, [LOOK], {}, ("-s", "api_key_env=NO_SUCH_KEY")),
}
RESUMABLE = {"empty_response", "sandbox_lost", "step_limit", "time_limit", "transient_provider_error", "auth"}


def run(tinyagent: Tinyagent, reason: str, api: str, form: str) -> tuple[Done, FakeProvider]:
    ending = ENDINGS[reason]
    with FakeProvider(ending.replies, faults=ending.faults) as server:
        done = tinyagent.run(server, *ending.options, "--output-format", form, api=api)
    return done, server


@pytest.mark.parametrize("api", WIRES)
@pytest.mark.parametrize("reason", ENDINGS)
def test_exit_code_json_trajectory_and_last_line_agree(tinyagent: Tinyagent, reason: str, api: str) -> None:
    """OpenHarness#191, claude-code: a wrapper has to tell a wrong answer from a server that was down."""
    ending = ENDINGS[reason]
    done, server = run(tinyagent, reason, api, "json")
    result: Json = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert (done.code, result["exit_code"]) == (ending.code, ending.code)
    assert (result["exit_status"], result["reason"], result["retryable"]) == (ending.status, reason, ending.retryable)
    assert (result["type"], result["subtype"], result["is_error"]) == ("result", ending.subtype, ending.code != 0)
    assert set(result) - {"error"} == RESULT_KEYS
    assert set(result["usage"]) == USAGE_KEYS
    assert ("error" in result) == (reason != "submitted")
    assert "Traceback" not in done.stderr
    if reason == "config":
        assert not done.path.exists()
        assert "NO_SUCH_KEY" in done.stderr
        return
    info = done.info
    assert (info["exit_status"], info["reason"], info["retryable"]) == (ending.status, reason, ending.retryable)
    assert result["trajectory_path"] == str(done.path)
    assert result["session_id"] == info["run_id"]
    totals = info["model_stats"]
    assert (result["num_turns"], result["total_cost_usd"]) == (totals["steps"], totals["instance_cost"])
    assert totals["api_calls"] == len(server.requests)
    assert f"run {info['run_id']} in ~/home/runs/" in done.stderr.splitlines()[-1]
    proven(done, server)


@pytest.mark.parametrize("reason", ENDINGS)
def test_stream_json_is_one_object_a_line_and_ends_with_the_result(tinyagent: Tinyagent, reason: str) -> None:
    done, _ = run(tinyagent, reason, WIRES[len(reason) % 2], "stream-json")
    kinds = [line["type"] for line in done.lines]
    assert kinds.count("result") == 1
    assert (done.result["type"], done.result["reason"]) == ("result", reason)
    if reason == "config":
        assert kinds == ["result"]
        return
    init = done.lines[0]
    assert (init["type"], init["subtype"], init["cwd"]) == ("system", "init", str(tinyagent.workspace))
    assert init.keys() >= {"session_id", "model", "tools", "version", "window", "context_files", "warnings"}
    assert {line["session_id"] for line in done.lines if "session_id" in line} == {done.result["session_id"]}


def test_a_bug_of_ours_is_a_crash_on_record_and_no_traceback(
    tinyagent: Tinyagent, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken(ScriptedModel):
        def options(self) -> Json:
            return {"api": "scripted"}

        def complete(
            self, request: Request, *, on_text: Callable[[str], None] | None = None, timeout_s: float | None = None
        ) -> Response:
            raise ZeroDivisionError("a bug")

    path = tinyagent.root / "out.json"
    invocation = Invocation(
        task=TASK,
        cwd=tinyagent.workspace,
        options=(Given("approval", "auto", "--approval"),),
        output=str(path),
        output_format="json",
    )
    with own_process(tinyagent.environ):
        code = run_session(invocation, tinyagent.environ, model=Broken("scripted/x", []))
    out = capsys.readouterr()
    info = json.loads(path.read_bytes())["info"]
    assert (code, json.loads(out.out)["reason"], info["reason"], info["retryable"]) == (1, "crashed", "crashed", False)
    assert "ZeroDivisionError: a bug" in info["error"]
    assert "Traceback" not in out.err
    assert "Traceback" in path.read_text("utf-8")


USAGE_ERRORS: dict[str, tuple[str, ...]] = {
    "unknown option": ("--frobnicate", "x"),
    "negative cost": ("--cost-limit=-1", "x"),
    "no number": ("--cost-limit", "much", "x"),
    "negative steps": ("--step-limit=-3", "x"),
    "no time": ("--time-limit", "soon", "x"),
    "negative window": ("--context-window=-5", "x"),
    "unknown form": ("--output-format", "xml", "x"),
    "blank task": (" ",),
    "no such folder": ("-C", "/nowhere", "x"),
    "a fork of nothing": ("--fork", "x"),
    "task and file": ("-f", "t.md", "x"),
    "a slip": ("doctro",),
    "an unknown setting": ("-s", "contxt.enabled=true", "x"),
    "a wrong type": ("-s", "context.protect_turns=many", "x"),
    "a ratio out of place": ("-s", "context.trigger_ratio=0.2", "x"),
    "half a price": ("-s", "prices.input_usd_per_mtok=1", "x"),
    "no config file": ("--config", "/nowhere.yaml", "x"),
}


@pytest.mark.parametrize("name", USAGE_ERRORS)
def test_a_wrong_command_line_is_exit_2_in_one_sentence_and_nothing_is_sent(tinyagent: Tinyagent, name: str) -> None:
    with FakeProvider() as server:
        own = ("-m", "openai/fake", "--base-url", server.base_url("openai"), "--cost-limit", "0")
        code, stdout, stderr = tinyagent.command(*(own if name != "a slip" else ()), *USAGE_ERRORS[name])
        assert server.requests == []
    assert (code, stdout) == (2, "")
    assert "Traceback" not in stderr
    assert len(stderr.strip().splitlines()) <= 5
    assert tinyagent.folders == []


CONFIG_ERRORS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "an unknown key": ((), "contxt: {enabled: true}", "context"),
    "a wrong type": ((), "context: {protect_turns: many}", "protect_turns"),
    "a ratio out of place": ((), "context: {trigger_ratio: 0.2}", "trigger_ratio"),
    "broken YAML": ((), "context: [", "config.yaml"),
    "code in YAML": ((), "model: !!python/object/apply:os.system [touch MARK]", "config.yaml"),
    "an unknown model": (("-m", "nobody/fake"), "", "nobody"),
    "no price": (("--cost-limit", "1"), "", "prices.input_usd_per_mtok"),
    "an empty key": (("-s", "api_key_env=NO_SUCH_KEY"), "", "NO_SUCH_KEY"),
}


@pytest.mark.parametrize("name", CONFIG_ERRORS)
def test_a_wrong_setting_is_exit_78_with_a_result_and_nothing_is_sent(tinyagent: Tinyagent, name: str) -> None:
    """R64 SWE-agent, mini, inspect: a price that is not known is never 0. S38 pyyaml."""
    options, settings, word = CONFIG_ERRORS[name]
    (tinyagent.home / "config.yaml").write_text(settings)
    with FakeProvider() as server:
        model = () if name == "an unknown model" else ("-m", "openai/fake")
        own = ("-C", str(tinyagent.workspace), *model, "--base-url", server.base_url("openai"))
        code, stdout, stderr = tinyagent.command(*own, "--output-format", "json", *options, TASK)
        assert server.requests == []
    result = json.loads(stdout)
    assert (code, result["exit_code"], result["reason"], result["exit_status"]) == (78, 78, "config", "Error")
    assert word in stderr
    assert word in result["error"]
    assert "Traceback" not in stderr
    assert not Path("MARK").exists()


def test_without_a_model_all_the_ways_to_name_one_are_told(tinyagent: Tinyagent) -> None:
    code, stdout, stderr = tinyagent.command(TASK, environ={"ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": ""})
    assert (code, stdout) == (78, "")
    for way in ("-m PROVIDER/NAME", "TINYAGENT_MODEL", "ANTHROPIC_API_KEY", "tinyagent demo"):
        assert way in stderr


def test_stdout_has_the_answer_alone(tinyagent: Tinyagent) -> None:
    with FakeProvider([Say("I look first.", LOOK.calls), "The answer.\nIn two lines."]) as server:
        done = tinyagent.run(server)
    assert done.stdout == "The answer.\nIn two lines.\n"
    assert "I look first." in done.stderr


def test_the_trajectory_can_go_to_stdout_in_place_of_the_answer(tinyagent: Tinyagent) -> None:
    with FakeProvider([LOOK, "The answer."]) as server:
        done = tinyagent.run(server, "-o", "-")
    assert json.loads(done.stdout)["info"]["submission"] == "The answer."


def test_a_trajectory_that_cannot_be_written_is_an_error_and_the_run_is_kept(tinyagent: Tinyagent) -> None:
    (tinyagent.workspace / "out").mkdir()
    with FakeProvider([bash("rm -r out; touch out"), "The answer."]) as server:
        path = str(tinyagent.workspace / "out" / "run.json")
        done = tinyagent.run(server, "-o", path, "--output-format", "json")
    assert (done.code, done.result["exit_code"], done.result["result"]) == (1, 1, "The answer.")
    assert "out/run.json" in done.stderr
    assert done.journal.records != []


def test_a_rate_limit_is_waited_for_and_told(tinyagent: Tinyagent) -> None:
    busy = rate_limited(retry_after_ms="100")
    with FakeProvider([LOOK, "Done."], faults={1: busy, 2: busy, 4: busy}) as server:
        done = tinyagent.run(server)
        proven(done, server)
    assert (done.code, len(server.requests)) == (0, 5)
    assert done.stderr.count("; try ") == 3
    assert [call["error"].split(":")[0] for call in done.trajectory["requests"] if "error" in call] == ["rate"] * 3


def test_the_key_is_sent_and_nowhere_else(tinyagent: Tinyagent) -> None:
    with FakeProvider([LOOK, "Done."]) as server:
        done = tinyagent.run(server, api="anthropic")
    assert server.requests[0].headers["x-api-key"] == KEY
    assert KEY not in done.path.read_text("utf-8") + done.stdout + done.stderr


@pytest.mark.parametrize("reason", sorted(RESUMABLE))
def test_a_run_that_ended_too_early_can_be_taken_up_again(tinyagent: Tinyagent, reason: str, tmp_path: Path) -> None:
    done, server = run(tinyagent, reason, "openai", "text")
    assert done.reason == reason
    tinyagent.workspace.mkdir(exist_ok=True)
    with FakeProvider(["Done after all."]) as again:
        own = tinyagent.arguments(again, "-r", "latest", "--step-limit", "9", task=None, path=tmp_path / "again.json")
        code, stdout, _ = tinyagent.command(*own)
    assert (code, stdout) == (0, "Done after all.\n")
    assert [m["role"] for m in again.bodies[0]["messages"]][:2] == ["system", "user"]
    before = [body["messages"] for body in server.bodies]
    assert all(len(again.bodies[0]["messages"]) > len(messages) for messages in before[:1])
