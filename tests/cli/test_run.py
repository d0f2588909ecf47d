"""`tinyagent TASK` as users and scripts meet it: output, exit codes, files, sessions."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import DONE, TWO_STEPS, Program, Script
from tinyagent.cli.app import command_line


def test_the_answer_is_all_of_stdout_and_the_story_is_on_stderr(program: Program) -> None:
    done = program.run("fix it", "-y", replies=TWO_STEPS)
    assert (done.returncode, done.stdout) == (0, "All done.\n")
    assert "› bash  echo here\n  exit 0: here\n" in done.stderr
    (folder,) = program.runs
    last = done.stderr.splitlines()[-1]
    assert last.startswith("finished: 2 steps, $0.00, ")
    assert last.endswith(f"; run {folder.name} in ~/home/runs/{folder.name}")


def test_quiet_leaves_the_answer_and_the_end(program: Program) -> None:
    done = program.run("fix it", "-q", replies=TWO_STEPS)
    assert done.stdout == "All done.\n"
    assert len(done.stderr.splitlines()) == 1


def result_of(stdout: str) -> dict[str, Any]:
    return json.loads(stdout.splitlines()[-1])


def test_json_is_one_object_with_the_fields_of_the_contract(program: Program) -> None:
    done = program.run("fix it", "--output-format", "json", replies=TWO_STEPS)
    assert len(done.stdout.splitlines()) == 1
    result = result_of(done.stdout)
    assert set(result) >= {
        *("type", "subtype", "is_error", "result", "session_id", "num_turns", "duration_ms", "total_cost_usd", "usage"),
        *("model", "exit_status", "reason", "exit_code", "trajectory_path", "compactions"),
    }
    assert (result["type"], result["subtype"], result["is_error"]) == ("result", "success", False)
    assert (result["exit_status"], result["reason"], result["exit_code"]) == ("Submitted", "submitted", 0)
    assert (result["result"], result["num_turns"], result["compactions"]) == ("All done.", 2, 0)
    assert set(result["usage"]) == {
        *("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    }
    assert Path(result["trajectory_path"]).exists()


def test_stream_json_begins_with_init_and_always_ends_with_the_result(program: Program) -> None:
    (program.workspace / "AGENTS.md").write_text("be brief")
    (program.workspace / "CLAUDE.md").write_text("be brief")
    done = program.run(
        "fix it", "-y", "--output-format", "stream-json", replies=TWO_STEPS, TINYAGENT_CONTEXT_WINDOW="9000"
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["type"] for line in lines] == ["system", "user", "assistant", "user", "assistant", "result"]
    init = lines[0]
    assert (init["subtype"], init["cwd"], init["window"]) == (
        "init",
        str(program.workspace),
        {"tokens": 9000, "source": "configured"},
    )
    assert "bash" in init["tools"]
    assert init["context_files"] == [str(program.workspace / "AGENTS.md")]
    assert lines[2]["message"]["content"][1] == {
        "type": "tool_use",
        "id": "call_1_1",
        "name": "bash",
        "input": {"command": "echo here"},
    }
    assert lines[3]["message"]["content"][0]["content"].startswith("here\n")


def test_a_pass_is_a_line_of_the_stream_and_counted_in_the_result(program: Program) -> None:
    calls: Script = [{"tool": "bash", "arguments": {"command": f"seq {n} {n + 900}"}} for n in range(6)]
    done = program.run(
        "count", "-y", "--output-format", "stream-json", "--context-window", "6000", replies=[*calls, *DONE]
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    passes = [line for line in lines if line.get("subtype") == "compact"]
    assert passes
    assert passes[0]["tokens_after"] < passes[0]["tokens_before"]
    assert lines[-1]["compactions"] == len(passes)
    assert "compacted context: ~" in done.stderr


@pytest.mark.parametrize("form", ["json", "stream-json"])
def test_a_run_that_cannot_start_has_a_result_too(program: Program, form: str) -> None:
    (program.home / "config.yaml").write_text("contxt: 1")
    done = program.run("fix it", "--output-format", form)
    result = result_of(done.stdout)
    assert (result["is_error"], result["reason"], result["exit_code"]) == (True, "config", 78)
    assert "did you mean context?" in result["error"]
    assert done.returncode == 78
    assert done.stderr.startswith("tinyagent: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("replies", "arguments", "code", "reason", "words"),
    [
        (TWO_STEPS, ("--step-limit", "1"), 3, "step_limit", "stopped at the step limit"),
        ([], (), 1, "provider_error", "the provider refused the request"),
        ([{"tool": "bash", "arguments": {"command": "echo x"}}] * 20, ("-y",), 1, "loop_detected", "repeats itself"),
    ],
)
def test_each_end_has_its_code_its_words_and_its_record(
    program: Program, replies: Script, arguments: tuple[str, ...], code: int, reason: str, words: str, tmp_path: Path
) -> None:
    out = tmp_path / "out.json"
    done = program.run("fix it", "--output-format", "json", "-o", str(out), *arguments, replies=replies)
    result = result_of(done.stdout)
    assert (done.returncode, result["exit_code"], result["reason"]) == (code, code, reason)
    assert result["trajectory_path"] == str(out)
    assert json.loads(out.read_text())["info"]["reason"] == reason
    assert words in done.stderr.splitlines()[-1]


def test_the_trajectory_can_go_to_stdout_instead_of_the_answer(program: Program) -> None:
    document = json.loads(program.run("fix it", "-o", "-").stdout)
    assert document["trajectory_format"] == "tinyagent-1"
    assert document["info"]["submission"] == "All done."


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fix it", "--cost-limit", "-1"), "--cost-limit: -1 is negative"),
        (("fix it", "--time-limit", "soon"), "--time-limit: a duration such as 90, 30s, 5m or 1h is needed, not soon"),
        (("fix it", "--step-limit", "1.5"), "--step-limit: a whole number is needed, not 1.5"),
        (("fix it", "--api", "grpc"), "--api: one of anthropic, openai, responses, ollama is needed, not grpc"),
        (("fix it", "--sandbox", "jail"), "--sandbox: one of auto, local, bubblewrap, docker, podman is needed"),
        (("fix it", "--approval", "yes"), "--approval: one of ask, auto, deny is needed, not yes"),
        (("fix it", "--output-format", "xml"), "--output-format: one of text, json, stream-json is needed, not xml"),
        (("fix it", "-o", "-", "--output-format", "json"), "both want stdout"),
        (("fix it", "-o", "../script.json/out.json"), "--output: nothing can be written in /"),
        (("fix it", "-o", "."), "is a directory"),
        (("fix it", "-s", "contxt=1"), "--set contxt: there is no such setting; did you mean context?"),
        (("fix it", "--config", "none.yaml"), "--config: none.yaml does not exist"),
        (("fix it", "-C", "nowhere"), "--cwd: nowhere does not exist"),
        (("fix it", "--fork"), "--fork needs a run to copy"),
        ((" \n",), "the task is empty"),
        (("-f", "none.md"), "--file: none.md cannot be read: No such file"),
        (("-f", "."), "--file: . is neither a file nor a pipe"),
        (("fix it", "-f", "none.md"), "not both"),
        ((), 'give a task, such as: tinyagent "fix the failing test"'),
    ],
)
def test_a_usage_error_is_one_sentence_and_exits_2_with_nothing_spent(
    program: Program,
    arguments: tuple[str, ...],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    program.script(DONE)
    program.enter(monkeypatch)
    assert command_line(arguments) == 2
    out, err = capfd.readouterr()
    assert words in err
    assert err.startswith("tinyagent: ")
    assert len(err.splitlines()) == 1
    assert out == ""
    assert program.runs == []


def test_a_corrupt_journal_is_one_sentence(program: Program) -> None:
    program.run("fix it")
    (folder,) = program.runs
    (folder / "journal.jsonl").write_bytes(b"\x00\xff not a journal\n")
    done = program.run("-r", folder.name, "go on")
    assert done.returncode == 78
    assert done.stderr.startswith("tinyagent: ")
    assert str(folder) in done.stderr
    assert "Traceback" not in done.stderr


def task_of(program: Program) -> str:
    document = json.loads((program.root / "out.json").read_text())
    return document["messages"][1]["content"]


@pytest.mark.parametrize("source", ["argument", "file", "dash", "pipe", "redirect", "file with a mark"])
def test_the_task_comes_from_argument_file_or_stdin(program: Program, source: str, tmp_path: Path) -> None:
    text = "fix the naïve test\n"
    path = tmp_path / "task.md"
    path.write_bytes((b"\xef\xbb\xbf" if source == "file with a mark" else b"") + text.encode())
    out = ("-o", str(tmp_path / "out.json"))
    match source:
        case "argument":
            done = program.run(text, *out)
        case "dash":
            done = program.run("-", *out, stdin=text)
        case "pipe":
            done = program.run(*out, stdin=text)
        case "redirect":
            with path.open("rb") as file:
                done = program.run(*out, stdin=file)
        case _:
            done = program.run("-f", str(path), *out)
    assert done.returncode == 0
    assert task_of(program) == text


@pytest.mark.parametrize("stdin", ["", " \n", None])
def test_no_task_at_all_is_a_usage_error_at_once(program: Program, stdin: str | None) -> None:
    """R2 gajae-code#2507: empty stdin, no prompt, no terminal."""
    done = program.run(stdin=stdin)
    assert done.returncode == 2
    assert "give a task" in done.stderr


def test_a_task_that_is_not_utf8_is_said_so_with_its_line(program: Program, tmp_path: Path) -> None:
    path = tmp_path / "task.md"
    path.write_bytes(b"fix\ncaf\xe9\n")
    for arguments in (("-f", str(path)), ("-",)):
        done = program.run(*arguments, stdin=path.read_bytes())
        assert done.returncode == 2
        assert "line 2: the task is not UTF-8 (byte 7)" in done.stderr


def test_an_open_pipe_does_not_hold_up_a_run_that_has_a_task(program: Program) -> None:
    """R1 pi#5571, codex#27019, codex#20919, cline#9073: `(sleep 60) | tinyagent -p hi`."""
    read_end, write_end = os.pipe()
    try:
        with os.fdopen(read_end, "rb") as stdin:
            done = program.run("-p", "hi", stdin=stdin)
    finally:
        os.close(write_end)
    assert (done.returncode, done.stdout) == (0, "All done.\n")


def test_a_reader_that_goes_away_is_no_error(program: Program, tmp_path: Path) -> None:
    """R28 blz#150: `tinyagent ... | head -1`."""
    out = tmp_path / "out.json"
    lines = "\\n".join(["line"] * 20_000)
    model = program.script([{"final": lines.replace("\\n", "\n")}])
    command = f"{sys.executable} -m tinyagent -m {model} hi -q -o {out} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=program.workspace, env=program.environ, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "line\n0\n"
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
    assert out.exists()


def test_closed_standard_streams_do_not_break_a_run(program: Program) -> None:
    model = program.script(DONE)
    command = f"{sys.executable} -m tinyagent -m {model} hi <&- >&- 2>&-; echo $?"
    done = subprocess.run(
        ["bash", "-c", command], cwd=program.workspace, env=program.environ, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "0\n"
    assert len(program.runs) == 1


def test_continue_takes_the_last_run_of_this_folder_and_resume_any(program: Program) -> None:
    """S25 Claude Code 2.1.224: two projects never share a session."""
    program.run("first", replies=[{"final": "one"}])
    (first,) = program.runs
    other = program.root / "elsewhere"
    other.mkdir()
    assert program.run("other", "-C", str(other)).returncode == 0
    replies: Script = [{"final": "one"}, {"final": "two"}]
    done = program.run("-c", "go on", replies=replies, TINYAGENT_MODEL=program.script(replies))
    assert (done.returncode, done.stdout) == (0, "two\n")
    (second,) = set(program.runs) - {first}
    assert first.name in done.stderr.splitlines()[-1]
    assert second.name in program.run("-r", second.name).stderr.splitlines()[-1]


def test_fork_leaves_the_run_as_it_is(program: Program) -> None:
    program.run("first", replies=[{"final": "one"}])
    (first,) = program.runs
    before = (first / "journal.jsonl").read_bytes()
    done = program.run("-r", "latest", "--fork", "go on", replies=[{"final": "one"}, {"final": "two"}])
    assert done.stdout == "two\n"
    assert (first / "journal.jsonl").read_bytes() == before
    assert len(program.runs) == 2


@pytest.mark.parametrize("name", ["../../etc", "/etc", "nope", "."])
def test_a_run_that_does_not_exist_is_said_so(program: Program, name: str) -> None:
    """S26: `--resume ../../x` never leads out of the run folder."""
    done = program.run("-r", name, "go on")
    assert done.returncode == 78
    assert "there is no run" in done.stderr


def test_a_resumed_run_keeps_its_model(program: Program) -> None:
    model = program.script([{"final": "one"}, {"final": "two"}], name="other")
    program.run("first", "-m", model, replies=None)
    done = program.run("-c", "go on", "--output-format", "json", replies=None)
    assert (result_of(done.stdout)["model"], result_of(done.stdout)["result"]) == (model, "two")


def test_a_home_that_cannot_be_written_is_a_warning(program: Program) -> None:
    """R31 claude-code 2.1.162: home or config folder read-only."""
    (program.root / "file").write_text("")
    done = program.run("fix it", TINYAGENT_HOME=str(program.root / "file" / "home"), TMPDIR=str(program.root))
    assert (done.returncode, done.stdout) == (0, "All done.\n")
    assert done.stderr.startswith("warning: runs cannot be kept in ")
    assert len(list(program.root.glob("tinyagent-runs-*/*/journal.jsonl"))) == 1


def test_notices_of_the_project_file_are_shown_and_the_run_goes_on(program: Program) -> None:
    (program.workspace / ".tinyagent").mkdir()
    (program.workspace / ".tinyagent" / "config.yaml").write_text("approval: auto\n")
    done = program.run("fix it")
    assert done.returncode == 0
    assert "config.yaml, line 1: approval is ignored" in done.stderr
