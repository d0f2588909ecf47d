"""Commands as text: what is certainly harmless, what a rule covers, and what a person sees."""

import shutil
import subprocess
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagent.security.readonly import is_read_only
from tinyagent.security.shell import matches_rule, parse, touches_rule, visible


@pytest.mark.parametrize(
    "command",
    [
        "ls -la src",
        "cat a.py b.py",
        "git status",
        "git --no-pager log --oneline -5",
        "git diff HEAD~3 -- src",
        "grep -rn 'def \\w+($' src --include='*.py'",
        "rg -n -A3 foo tests",
        "find . -name '*.py' -type f -maxdepth 2",
        "sed -n '10,20p' a.py",
        "head -n 5 a | wc -l",
        "cd src && ls && pwd; echo done",
        "sort -k 2 -n a | uniq -c",
        'echo "it is"',
        "python --version",
    ],
)
def test_reading_commands_need_no_question(command: str):
    assert is_read_only(command)


HARMFUL = [
    # S1 Claude Code CVE-2025-54795
    'echo "hi"; touch MARK',
    "echo $(touch MARK)",
    "echo `touch MARK`",
    'echo "$(touch MARK)"',
    "echo hi\ntouch MARK",
    "echo hi & touch MARK",
    "echo hi | tee MARK",
    "cat <(touch MARK)",
    "cat <<E\n$(touch MARK)\nE",
    # S2 Claude Code CVE-2025-66032
    "sort${IFS}-o${IFS}MARK f",
    "sort -oMARK f",
    "sort --output=MARK f",
    "sort -n -o MARK f",
    # S4 CVE-2025-58764, S5 CVE-2026-24887
    "rg --pre ./x.sh a .",
    "rg --hostname-bin=./x a",
    "find . -exec touch MARK ;",
    "find . -delete",
    "find . -fprint MARK",
    "find . -okdir x",
    "awk 'BEGIN{system(\"touch MARK\")}'",
    "git log --output=MARK",
    "git diff --output MARK",
    "git grep -Oless x",
    "git -c core.pager=x log",
    "git branch new",
    "git branch -D main",
    "git tag v1",
    "git remote add x y",
    "git diff --ext-diff",
    "tar --checkpoint-action=exec=x -f a",
    "xargs touch",
    "env X=1 sh -c x",
    "X=1 ls",
    "uniq in MARK",
    "sed -n '1w MARK' f",
    "sed -n '1e touch MARK' f",
    "sed -i s/a/b/ f",
    "sed -n 1p -i f",
    "tree -o MARK",
    "date -s 2020-01-01",
    "printf -v x y",
    "file -C -m x",
    # S7 CVE-2026-24053
    "echo x > OUT",
    "echo x >| OUT",
    "echo x >> OUT",
    "ls 2>OUT",
    "dd of=OUT",
    "cp f OUT",
    # S14
    "ec\\\nho x; touch MARK",
    "ls \\-la",
    'echo "unbalanced',
    "echo 'unbalanced",
    "ls ;; ls",
    "ls |",
    "| ls",
    "ls || ",
    "ls a" * 4_000,
    "ls\0",
    "ls\ttouch",
    "ls \x1b[2K",
    "ls \u202egpj",
    "ls\u00a0-la",
    # expansions
    "cat ~/.ssh/id_rsa",
    "cat --x=~/a",
    "cat .en?",
    "cat *.env",
    "cat {a,b}",
    "ls $HOME",
    "cat [a]",
    "cd",
    "cd -",
    "cd a/..",
    "cd --",
    "(ls)",
    "! ls",
    "{ ls; }",
    "ls # x",
    "",
    "   ",
    # S44: no network tool
    "ping -c1 x",
    "curl x",
    "host x",
    "git fetch",
    "tail -f a",
]


@pytest.mark.parametrize("command", HARMFUL)
def test_whatever_is_not_certain_is_not_read_only(command: str):
    assert not is_read_only(command)


@given(st.text(st.sampled_from("ls echo -n;&|$`()<>'\"\\\n~*?{}[]!#=a")), st.sampled_from("$`()<>\\\n\r\0*?{}[]!#"))
def test_no_special_character_outside_quotes_is_ever_read_only(before: str, special: str):
    if before.count("'") == 0 and before.count('"') == 0:
        assert not is_read_only(f"ls {before}{special}x")


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@given(st.text(st.sampled_from("ab '\"-=~:/.|;&%@,+^"), max_size=12))
def test_words_are_those_that_bash_sees(text: str):
    """The reader and bash must not disagree about any command that the reader understands."""
    commands = parse(f"printf '<%s>' {text}")
    if commands is None or len(commands) != 1 or len(commands[0]) < 3:
        return
    argv = ["bash", "--noprofile", "--norc", "-c", f"printf '<%s>' {text}"]
    printed = subprocess.run(argv, capture_output=True, text=True, check=True, env={"HOME": "/h", "LC_ALL": "C.UTF-8"})
    assert printed.stdout == "".join(f"<{word}>" for word in commands[0][2:])


def test_a_rule_covers_each_command_of_a_chain_or_none():
    assert matches_rule("git *", "git add . && git commit -m 'a; b'")
    assert not matches_rule("git *", "git add . && rm -rf .")


@pytest.mark.parametrize(
    "tail",
    [
        "; touch MARK",
        " && touch MARK",
        "| tee x",
        " & touch MARK",
        "\ntouch MARK",
        " $(touch MARK)",
        " `x`",
        " > x",
        " < x",
    ],
)
def test_a_rule_never_reaches_over_the_end_of_its_command(tail: str):
    """S1."""
    assert matches_rule("git status*", "git status -s")
    assert not matches_rule("git status*", f"git status{tail}")


@pytest.mark.parametrize("command", ["'git status'", "git  'status x'", "gi't' status"])
def test_quotes_do_not_turn_one_program_into_another(command: str):
    assert matches_rule("git status", command) == (command == "gi't' status")


def test_the_pattern_star_covers_everything():
    assert matches_rule("*", "a $(b) > c")


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf /",
        "ls; rm x",
        "(rm x)",
        "echo $(rm x)",
        "sudo -n rm x",
        "env A=1 rm x",
        "r'm' x",
        "a && \\rm x",
        "x\nrm y",
    ],
)
def test_a_rule_that_denies_finds_its_command_in_many_places(command: str):
    assert touches_rule("rm *", command)


def test_a_rule_that_denies_leaves_other_commands_alone():
    assert not touches_rule("rm *", "npm run rm-all && echo x")


def test_a_rule_that_denies_by_a_file_name_is_advice_for_commands():
    """S10 opencode#26042: what a variable hides is not seen."""
    assert touches_rule("*.env*", "cat .env")
    assert touches_rule("*.env*", "cat .e''nv")
    assert not touches_rule("*.env*", 'f=.en; cat "${f}v"')


def test_patterns_take_linear_time():
    started = time.perf_counter()
    assert not touches_rule("*a*a*a*a*a*b", "a" * 100_000)
    assert time.perf_counter() - started < 1


def test_a_person_sees_the_tail_that_blanks_would_hide():
    """S16 Tracebit on Gemini CLI."""
    assert visible("ls" + " " * 400 + "; touch MARK") == "ls[400 spaces]; touch MARK\n(414 characters)"
    assert visible("ls" + "\n" * 30 + "x") == "ls[30 empty lines]x\n(33 characters)"


@pytest.mark.parametrize(
    "char", "\r\b\x1b\0\x7f\u202e\u2066\u200b\u2060\ufeff\u00ad\u3164\u2800\u00a0\u2028\ufe0f\U000e0041"
)
def test_a_person_sees_control_and_invisible_characters(char: str):
    shown = visible(f"ls {char}x")
    assert char not in shown
    assert "\\" in shown
    assert "(5 characters)" in shown


def test_an_ordinary_command_is_shown_as_it_is():
    assert visible("git commit -m 'Größe 汉字 😀'\necho") == "git commit -m 'Größe 汉字 😀'\necho"
