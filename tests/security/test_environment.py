"""The environment of commands."""

import pytest

from tinyagent.security.environment import child_environment

USUAL = {"PATH": "/bin", "HOME": "/home/u", "PWD": "/w", "LANG": "de_DE.UTF-8", "TOKENIZERS_PARALLELISM": "false"}


@pytest.mark.parametrize(
    "name",
    [
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "GITHUB_TOKEN",
        "HF_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_SESSION_TOKEN",
        "STRIPE_KEY",
        "PGPASSWORD",
        "MYSQL_PWD",
        "DJANGO_SECRET_KEY",
        "SECRET_KEY_BASE",
        "npm_config__auth_token",
        "GOOGLE_APPLICATION_CREDENTIALS",
    ],
)
def test_what_looks_like_a_secret_is_left_out_unless_passed_on_purpose(name: str):
    """S40 pi#7522, minimax-code#153."""
    environ = USUAL | {name: "value"}
    assert name not in child_environment(environ, key_names=[])
    assert child_environment(environ, key_names=[], pass_names=[name])[name] == "value"


def test_the_agents_own_key_is_left_out_under_any_name():
    """S40: a custom api_key_env was forgotten; here also its copy under another name."""
    environ = USUAL | {"MY_LLM": "sk-0123456789", "COPY": "sk-0123456789", "OTHER": "x"}
    env = child_environment(environ, key_names=["MY_LLM"])
    assert env.keys() & {"MY_LLM", "COPY", "OTHER"} == {"OTHER"}


def test_an_empty_or_short_key_takes_no_other_variable_with_it():
    environ = USUAL | {"MY_LLM": "", "OTHER_LLM": "ollama", "EMPTY": "", "BACKEND": "ollama"}
    env = child_environment(environ, key_names=["MY_LLM", "OTHER_LLM"])
    assert env.keys() & {"EMPTY", "BACKEND"} == {"EMPTY", "BACKEND"}


def test_everything_else_stays():
    env = child_environment(USUAL, key_names=["ANTHROPIC_API_KEY"])
    assert USUAL.items() <= env.items()
    assert "CI" not in env


@pytest.mark.parametrize("name", ["BASH_ENV", "ENV", "GIT_DIR", "SSH_ASKPASS", "FORCE_COLOR", "TINYAGENT_MODEL"])
def test_what_changes_commands_behind_their_back_is_left_out(name: str):
    assert name not in child_environment(USUAL | {name: "x"}, key_names=[])


def test_editors_pagers_and_prompts_of_the_user_do_not_win():
    """R4."""
    env = child_environment(USUAL | {"EDITOR": "vim", "PAGER": "less", "GIT_TERMINAL_PROMPT": "1"}, key_names=[])
    assert (env["EDITOR"], env["PAGER"], env["GIT_TERMINAL_PROMPT"]) == ("false", "cat", "0")


def test_the_users_ssh_command_is_kept_and_told_not_to_ask():
    env = child_environment(USUAL | {"GIT_SSH_COMMAND": "ssh -i key"}, key_names=[])
    assert env["GIT_SSH_COMMAND"] == "ssh -i key -o BatchMode=yes"


def test_text_is_utf8_where_no_locale_is_set():
    assert child_environment({"PATH": "/bin"}, key_names=[])["LANG"] == "C.UTF-8"
