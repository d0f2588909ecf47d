"""Which command is meant, and how slips are answered."""

import subprocess
import sys

import pytest

from tests.cli.program import Program
from tinyagent import __version__
from tinyagent.cli.app import split
from tinyagent.config import UsageError


@pytest.mark.parametrize(
    ("arguments", "name", "rest"),
    [
        (["fix the failing test"], "run", ["fix the failing test"]),
        (["run", "config"], "run", ["config"]),
        (["run", "run"], "run", ["run"]),
        (["config", "--json"], "config", ["--json"]),
        (["-m", "a/b", "config the linter"], "run", ["-m", "a/b", "config the linter"]),
        (["-m", "config", "fix it"], "run", ["-m", "config", "fix it"]),
        (["-C", "dir", "config"], "config", ["-C", "dir"]),
        (["--model=x", "config"], "config", ["--model=x"]),
        (["fix it", "-o", "config"], "run", ["fix it", "-o", "config"]),
        (["--", "config"], "run", ["--", "config"]),
        (["-c"], "run", ["-c"]),
        (["-"], "run", ["-"]),
        (["help"], "run", ["--help"]),
        ([], "run", []),
        (["test"], "run", ["test"]),
    ],
)
def test_the_first_bare_word_may_name_a_command(arguments: list[str], name: str, rest: list[str]) -> None:
    assert split(arguments) == (name, rest)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["doctro"], "there is no command doctro; did you mean doctor? (As a task: tinyagent run doctro)"),
        (["confg"], "there is no command confg; did you mean config?"),
        (["fix", "the", "test"], 'the task is one argument, so put it in quotes: tinyagent "fix the test"'),
    ],
)
def test_a_slip_is_answered_before_it_costs_money(arguments: list[str], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        split(arguments)
    assert str(caught.value).startswith(words)


def test_the_version_is_one_line_and_imports_nothing_else() -> None:
    """R73: `--version` parsable."""
    code = "import sys; sys.argv[1:] = ['--version']; from tinyagent.__main__ import main; main(); print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    version, modules = out.splitlines()
    assert version == f"tinyagent {__version__}"
    assert {name for name in modules.split() if name.startswith("tinyagent")} == {"tinyagent", "tinyagent.__main__"}
    assert "typer" not in modules.split()


def test_the_help_loads_no_settings_no_http_and_no_rich() -> None:
    code = (
        "import sys\nfrom tinyagent.cli.app import command_line\nassert command_line(['--help']) == 0\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert not loaded & {"rich", "httpx", "yaml", "anthropic", "openai", "tinyagent.config", "tinyagent.agent"}
    groups = [line for line in done.stdout.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert groups == [
        f"{g}:" for g in ["Task", "Model", "Limits", "Output", "Safety", "Session", "Config", "Options", "Commands"]
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--modle", "a/b", "fix it"], "--model"),
        (["--cost-limit"], "--cost-limit"),
        (["fix it", "again"], "unexpected extra argument"),
    ],
)
def test_a_wrong_option_exits_2_with_a_suggestion(program: Program, arguments: list[str], words: str) -> None:
    """R73: a wrapper passes a flag that this version lacks."""
    done = program.run(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert program.runs == []


def test_completion_knows_commands_and_options(program: Program) -> None:
    def completed(line: str) -> str:
        position = str(len(line.split()) - 1)
        return program.run(_TINYAGENT_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=position).stdout

    assert "config" in completed("tinyagent conf").split()
    assert "--model" in completed("tinyagent --mo").split()
