"""Who may do what: the whole decision."""

from pathlib import Path

import pytest

from tinyagent.core.errors import ConfigError
from tinyagent.core.types import Effect, ToolCall, Verdict
from tinyagent.security.paths import Places
from tinyagent.security.policy import Ask, Mode, decide
from tinyagent.security.rules import Permissions, Rule, parse_rule

EFFECTS: dict[str, Effect] = {"bash": "execute", "read": "read", "write": "write", "edit": "write", "plan": "read"}


@pytest.fixture
def places(tmp_path: Path) -> Places:
    root = tmp_path / "home" / "work"
    (root / "src").mkdir(parents=True)
    (root / ".git").mkdir()
    (tmp_path / "home" / ".ssh").mkdir()
    return Places(root, home=tmp_path / "home", own=(tmp_path / "home/.config/tinyagent/config.yaml",))


def judged(places: Places, name: str, text: str, mode: Mode = "ask", **rules: list[str]) -> str:
    """ "allow", "deny" or "ask"."""
    call = ToolCall("c1", name, {"command" if name == "bash" else "path": text})
    decision = decide(call, EFFECTS[name], mode=mode, rules=Permissions.parse(**rules), places=places)
    if isinstance(decision, Ask):
        return "ask"
    assert decision.allowed or decision.reason
    return "allow" if decision.allowed else "deny"


@pytest.mark.parametrize(
    ("name", "text", "ask", "auto", "deny"),
    [
        ("bash", "git status", "allow", "allow", "allow"),
        ("bash", "make test", "ask", "allow", "deny"),
        ("bash", "cat /etc/hosts", "ask", "allow", "deny"),
        ("bash", "head ../x", "ask", "allow", "deny"),
        ("bash", "cd src && cat ../../x", "ask", "allow", "deny"),
        ("bash", "cat ~/.ssh/id_rsa", "ask", "deny", "deny"),
        ("bash", "cat $HOME/.ssh/id_rsa | head", "ask", "deny", "deny"),
        ("bash", "strings /proc/$PPID/environ", "ask", "deny", "deny"),
        ("bash", "cat /proc/1/environ", "ask", "deny", "deny"),
        ("bash", "echo x > .git/hooks/pre-commit", "ask", "ask", "deny"),
        ("bash", "echo x >> ~/.bashrc", "ask", "ask", "deny"),
        ("bash", "source ~/.bashrc && make", "ask", "allow", "deny"),
        ("read", "a.py", "allow", "allow", "allow"),
        ("read", "/etc/hosts", "ask", "allow", "deny"),
        ("read", "../.ssh/id_rsa", "ask", "deny", "deny"),
        ("write", "src/new.py", "ask", "allow", "deny"),
        ("write", "../x", "deny", "deny", "deny"),
        ("write", "/tmp/x", "deny", "deny", "deny"),
        ("edit", ".git/config", "ask", "ask", "deny"),
        ("write", ".tinyagent/config.yaml", "ask", "ask", "deny"),
        ("write", ".vscode/tasks.json", "ask", "ask", "deny"),
        ("write", "a\0b", "deny", "deny", "deny"),
    ],
)
def test_the_mode_decides_what_no_rule_does(places: Places, name: str, text: str, ask: str, auto: str, deny: str):
    assert [judged(places, name, text, mode) for mode in ("ask", "auto", "deny")] == [ask, auto, deny]


@pytest.mark.parametrize(
    "command", ["echo x > OUT", "echo x >| OUT", "echo x >> OUT", "echo x | tee OUT", "dd of=OUT", "cp f OUT"]
)
def test_every_way_to_write_a_file_is_the_same(places: Places, command: str):
    """S7 CVE-2026-24053, opencode#42979."""
    assert judged(places, "bash", command.replace("OUT", "/outside")) == "ask"
    assert judged(places, "bash", command.replace("OUT", "/outside"), "deny") == "deny"


@pytest.mark.parametrize("program", ["cat", "head", "ls", "wc -l", "grep x", "stat"])
def test_a_path_outside_has_one_answer_whatever_reads_it(places: Places, program: str):
    """S11 opencode#44728; S13 opencode#17497: the boundary wins over an allowing rule."""
    allow = [f"bash({program.split()[0]}*)"]
    assert judged(places, "bash", f"{program} /etc/hosts") == "ask"
    assert judged(places, "bash", f"{program} /etc/hosts", allow=allow) == "ask"
    assert judged(places, "bash", f"{program} src", allow=allow) == "allow"


def test_a_rule_that_names_a_place_outside_allows_it(places: Places):
    assert judged(places, "bash", "ls -la /srv/data", allow=["bash(ls -la /srv/data)"]) == "allow"
    assert judged(places, "read", "/srv/data/x/y", allow=["read(/srv/data/**)"]) == "allow"
    assert judged(places, "read", "/srv/other", allow=["read(/srv/data/**)"]) == "ask"
    assert judged(places, "read", "/srv/data/x", allow=["read"]) == "ask"


@pytest.mark.parametrize(
    "folder", ["cd .tinyagent", "pushd .tinyagent", "(cd ./.tinyagent", "cd '.tin'yagent", "cd .git/hooks"]
)
def test_entering_a_protected_folder_is_naming_it(places: Places, folder: str):
    """S8 Claude Code CVE-2026-25722."""
    assert judged(places, "bash", f"{folder} && echo 'approval: yolo' > config.yaml", "auto") == "ask"


@pytest.mark.parametrize(
    "command", ["find . -path ./.git -prune -o -print > list", "git config user.name x", "rm .gitignore"]
)
def test_harmless_mentions_of_git_do_not_ask_in_auto_mode(places: Places, command: str):
    assert judged(places, "bash", command, "auto") == "allow"


@pytest.mark.parametrize("mode", ["ask", "auto", "deny"])
def test_a_rule_that_denies_holds_in_every_mode(places: Places, mode: Mode):
    """S29 Gemini CLI advisory: yolo ignored tool rules."""
    rules = {"deny": ["bash(rm *)", "write(secrets/**)"], "allow": ["bash", "write"]}
    assert judged(places, "bash", "ls; rm -rf x", mode, **rules) == "deny"
    assert judged(places, "write", "secrets/a/b", mode, **rules) == "deny"


def test_a_rule_that_denies_holds_for_the_target_of_a_link(places: Places):
    """S19 Claude Code CVE-2026-24725, CVE-2025-59829."""
    (places.root / "a.txt").symlink_to("secrets.txt")
    (places.root / "b").symlink_to("/etc")
    for path in ("secrets.txt", "a.txt", "SECRETS.txt", "src/../secrets.txt", "sub/secrets.txt"):
        assert judged(places, "read", path, "auto", deny=["read(secrets.txt)"]) == "deny"
    assert judged(places, "read", "b/hosts", "auto", deny=["read(b/*)"]) == "deny"
    assert judged(places, "read", "b/hosts", "auto", deny=["read(/etc/*)"]) == "deny"


def test_the_strictest_rule_wins(places: Places):
    """S13."""
    assert judged(places, "bash", "git push", allow=["bash(git *)"]) == "allow"
    assert judged(places, "bash", "git push", "auto", allow=["bash(git *)"], ask=["bash(git push*)"]) == "ask"
    assert judged(places, "bash", "git push", ask=["bash(git push*)"], deny=["bash(git *)"]) == "deny"


def test_an_allowing_rule_does_not_lift_protection(places: Places):
    """S34."""
    assert judged(places, "write", ".git/hooks/x", "auto", allow=["write", "*"]) == "ask"
    assert judged(places, "bash", "echo > .git/hooks/x", "auto", allow=["bash"]) == "ask"


def test_a_link_to_a_protected_folder_is_protected(places: Places):
    (places.root / "docs").symlink_to(".git")
    assert judged(places, "write", "docs/config", "auto") == "ask"


def test_where_nobody_can_be_asked_the_answer_is_no_and_says_why(places: Places):
    call = ToolCall("c1", "write", {"path": ".git/config"})
    decision = decide(call, "write", mode="auto", rules=Permissions(), places=places)
    assert isinstance(decision, Ask)
    assert not decision.denied().allowed
    assert "protected" in decision.denied().reason


def test_always_means_exactly_this_command(places: Places):
    """S17: a remembered `python a.py` allowed `python -c ...`."""
    call = ToolCall("c1", "bash", {"command": "python a.py > out"})
    decision = decide(call, "execute", mode="ask", rules=Permissions(), places=places)
    assert isinstance(decision, Ask)
    assert decision.remember is not None
    rule = str(decision.remember)
    assert judged(places, "bash", "python a.py > out", allow=[rule]) == "allow"
    assert judged(places, "bash", "python a.py > out2", allow=[rule]) == "ask"
    assert judged(places, "bash", "python -c 'open(1)'", allow=[rule]) == "ask"


def test_protected_paths_are_asked_every_time(places: Places):
    call = ToolCall("c1", "bash", {"command": "echo > .git/config"})
    decision = decide(call, "execute", mode="ask", rules=Permissions(), places=places)
    assert isinstance(decision, Ask)
    assert decision.remember is None


def test_a_question_shows_what_would_be_hidden(places: Places):
    """S16."""
    call = ToolCall("c1", "bash", {"command": "make" + " " * 300 + "; rm x\r"})
    decision = decide(call, "execute", mode="ask", rules=Permissions(), places=places)
    assert isinstance(decision, Ask)
    assert decision.shown == "make[300 spaces]; rm x\\x0d\n(311 characters)"


@pytest.mark.parametrize("effect", ["read", "spawn"])
def test_tools_that_change_nothing_themselves_are_allowed_unless_denied(places: Places, effect: Effect):
    call = ToolCall("c1", "task", {"prompt": "look"})
    for mode in ("ask", "auto", "deny"):
        assert decide(call, effect, mode=mode, rules=Permissions(), places=places) == Verdict(
            True, by="changes nothing itself"
        )
    denied = decide(call, effect, mode="auto", rules=Permissions.parse(deny=["task"]), places=places)
    assert isinstance(denied, Verdict)
    assert not denied.allowed


@pytest.mark.parametrize("text", ["bash(git *)", "read", "*", "write(src/**)", "bash(=echo (x))"])
def test_a_rule_is_written_as_it_was_read(text: str):
    assert str(parse_rule(text)) == text


@pytest.mark.parametrize("text", ["", "bash(", "bash()", "bash(a", "git status", "Bash(x)", "bash(x) y"])
def test_a_malformed_rule_is_a_config_error_that_quotes_it(text: str):
    with pytest.raises(ConfigError, match="permission rule"):
        Permissions.parse(deny=[text])


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("*.env", "a/b/x.env", True),
        ("*.env", "x.env.py", False),
        ("src/*", "src/a", True),
        ("src/*", "src/a/b", False),
        ("src/**", "src/a/b", True),
        ("**/test_*.py", "test_a.py", True),
        ("**/test_*.py", "a/b/test_a.py", True),
        ("build", "x/build/y", True),
        ("./src/*", "src/a", True),
        ("a.b", "axb", False),
    ],
)
def test_path_patterns(places: Places, pattern: str, path: str, fits: bool):
    assert Rule("read", pattern).touches_path(path, places) is fits
