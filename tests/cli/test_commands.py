"""`config`, `models`, `doctor` and `demo`."""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.cli.program import Program


def test_config_shows_each_setting_with_its_layer(program: Program) -> None:
    (program.home / "config.yaml").write_text("cost_limit: 2\nproviders: {a: {base_url: 'http://me:hunter2@h'}}\n")
    done = program.run("config", "--json", "-s", "time_limit=1m", replies=None, TINYAGENT_STEP_LIMIT="5")
    shown = json.loads(done.stdout)
    assert shown["cost_limit"] == {"value": 2.0, "origin": f"{program.home / 'config.yaml'}, line 1"}
    assert shown["time_limit"] == {"value": 60.0, "origin": "--set time_limit"}
    assert shown["step_limit"] == {"value": 5, "origin": "TINYAGENT_STEP_LIMIT"}
    assert shown["context.trigger_ratio"] == {"value": 0.8, "origin": "default"}
    assert "hunter2" not in done.stdout


def test_config_can_show_only_what_was_changed(program: Program) -> None:
    done = program.run("config", "--changed", "-s", "time_limit=1m", replies=None)
    assert re.fullmatch(r"time_limit +60\.0 +--set time_limit\n", done.stdout)


def test_a_wrong_config_file_is_one_sentence_for_every_command(program: Program) -> None:
    (program.home / "config.yaml").write_text("contxt: {}")
    for name in ("config", "models"):
        done = program.run(name, replies=None)
        assert (done.returncode, done.stdout) == (78, "")
        assert "did you mean context?" in done.stderr
    done = program.run("doctor", replies=None)
    assert done.returncode == 1
    assert "problem config" in done.stdout


def test_models_tells_each_figure_with_its_source(program: Program) -> None:
    done = program.run("models", "openai/gpt-4o", "mine/x", "--json", replies=None)
    known, unknown = json.loads(done.stdout)
    assert known["window"] == 128_000
    assert known["window_from"].startswith("catalogue of 2")
    assert known["input_usd_per_mtok"] > 0
    assert (unknown["window"], unknown["input_usd_per_mtok"]) == (None, None)
    assert "unknown provider" in unknown["note"]


def test_models_lists_the_providers_with_what_they_need(program: Program) -> None:
    done = program.run("models", "-s", "model=ollama/x", "-s", "context_window=8000", replies=None)
    first, *others = done.stdout.splitlines()[1:]
    assert re.match(r"ollama/x +8,000 +2,000 +0 +0 +0  window: configured; .*price: local \(in force\)", first)
    assert any("needs ANTHROPIC_API_KEY" in line for line in others)


def test_doctor_says_what_to_do_where_nothing_is_configured(program: Program) -> None:
    done = program.run("doctor", replies=None)
    assert done.returncode == 1
    assert "problem model      no model is named" in done.stdout
    assert "tinyagent demo" in done.stdout
    assert "ok      bash" in done.stdout
    assert "1 problem" in done.stdout


def test_doctor_passes_where_all_is_there(program: Program) -> None:
    done = program.run("doctor")
    assert done.returncode == 0
    assert "no problems" in done.stdout


def test_doctor_finds_a_server_that_does_not_answer_and_thresholds(program: Program) -> None:
    options = ("-s", "model=openai/x", "--base-url", "http://me:hunter2@127.0.0.1:9/v1", "-s", "context_window=100000")
    prices = ("-s", "prices.input_usd_per_mtok=1", "-s", "prices.output_usd_per_mtok=2")
    done = program.run("doctor", *options, *prices, replies=None, OPENAI_API_KEY="sk-secret-of-mine")
    assert done.returncode == 1
    assert "problem endpoint   127.0.0.1:9 does not answer (Connection refused)" in done.stdout
    assert "ok      key        from OPENAI_API_KEY" in done.stdout
    assert "ok      window     100,000 tokens, from: configured; replies up to" in done.stdout
    assert "compacted from 80,000 tokens on to about 50,000" in done.stdout
    assert "hunter2" not in done.stdout
    assert "sk-secret" not in done.stdout


def test_doctor_finds_a_folder_that_cannot_be_written_and_a_missing_program(program: Program) -> None:
    (program.root / "file").write_text("")
    done = program.run("doctor", TINYAGENT_HOME=str(program.root / "file" / "home"), PATH="/nonexistent")
    assert done.returncode == 1
    assert "problem bash" in done.stdout
    assert "problem data" in done.stdout


@pytest.mark.skipif(shutil.which("git") is None, reason="the demo makes a git repository")
def test_the_demo_fixes_a_real_bug_and_shows_a_pass(program: Program, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    done = program.run("demo", replies=None, TMPDIR=str(temporary))
    assert done.returncode == 0, done.stderr
    assert "exit 1, " in done.stderr
    assert "FAILED (failures=10, errors=2)" in done.stderr
    assert re.search(r"compacted context: ~[\d,]+ → ~[\d,]+ tokens \(elided \d tool outputs\)", done.stderr)
    assert "› read_output" in done.stderr
    assert "+    return shares" in done.stdout
    assert "The tests pass now. Only the model was scripted" in done.stdout
    assert "ANTHROPIC_API_KEY" in done.stdout
    assert list(temporary.iterdir()) == []


@pytest.mark.skipif(shutil.which("git") is None, reason="the demo makes a git repository")
def test_the_demo_keeps_out_of_the_users_settings(program: Program) -> None:
    """A user's git configuration may sign commits, or name another first branch."""
    (program.root / ".gitconfig").write_text("[commit]\n gpgsign = true\n[core]\n hooksPath = /nonexistent\n")
    (program.home / "config.yaml").write_text("step_limit: 1\ncontext: {enabled: false}\n")
    done = program.run("demo", "--keep", replies=None, TMPDIR=str(program.root))
    assert done.returncode == 0, done.stderr
    assert (next(program.root.glob("tinyagent-demo-*")) / "money.py").exists()
