"""The environment of commands: without keys, and without anything that could wait for a person."""

import re
from collections.abc import Iterable, Mapping

# Names that hold a secret by convention: whole words, so that PWD, KEYBOARD_LAYOUT and TOKENIZERS_PARALLELISM stay.
_SECRET_NAME = re.compile(
    r"(^|_)(API_?KEYS?|KEYS?|ACCESS_KEY_ID|TOKENS?|AUTHTOKEN|SECRETS?|CREDENTIALS?|PASSPHRASE|PASSWD|PASS|PAT)$"
    r"|PASSWORDS?$|(^|_)SECRET_|^MYSQL_PWD$|^GOOGLE_APPLICATION_CREDENTIALS$",
    re.IGNORECASE,
)
_SHORTEST_KEY = 8  # characters; a shorter value may stand in other variables by chance

_CHANGES_BASH = frozenset({"BASH_ENV", "ENV", "PROMPT_COMMAND", "SHELLOPTS", "BASHOPTS", "CDPATH", "GREP_OPTIONS"})
_CHANGES_GIT = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_EXTERNAL_DIFF"})
_OPENS_WINDOWS = frozenset({"SSH_ASKPASS", "SUDO_ASKPASS"})
_FORCES_COLOURS = frozenset({"FORCE_COLOR", "CLICOLOR_FORCE"})
_REMOVED = _CHANGES_BASH | _CHANGES_GIT | _OPENS_WINDOWS | _FORCES_COLOURS
_KEPT_OWN = "TINYAGENT_TREE"  # an outer agent finds its processes by this mark

NON_INTERACTIVE: Mapping[str, str] = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "EDITOR": "false",
    "VISUAL": "false",
    # `true` takes the message that git proposes (merge, rebase --continue) and leaves an empty one empty, which git
    # refuses in words; the list of a `rebase -i` has no harmless default.
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_MERGE_AUTOEDIT": "no",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",  # set but empty: git then asks neither core.askPass nor SSH_ASKPASS
    "GCM_INTERACTIVE": "never",
    "SSH_ASKPASS_REQUIRE": "never",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "npm_config_yes": "true",
    "npm_config_update_notifier": "false",
    "PYTHONUNBUFFERED": "1",  # keeps stdout and stderr in order, and what was printed before a time limit
}


def child_environment(
    environ: Mapping[str, str], *, key_names: Iterable[str], pass_names: Iterable[str] = ()
) -> dict[str, str]:
    """The environment that commands get.

    `key_names` are the variables that the agent takes keys from, custom ones included; they and every variable with the
    same value are left out (pi #7522), as is any name that looks like a secret. `pass_names` are let through whatever
    they look like. CI is left as it is: setting it changes how test suites behave.
    """
    passed = frozenset(pass_names)
    keys = frozenset(key_names)
    values = {environ[name] for name in keys if len(environ.get(name, "")) >= _SHORTEST_KEY}
    kept = {
        name: value
        for name, value in environ.items()
        if name in passed or not (name in keys or value in values or _is_unwanted(name))
    }
    ssh = kept.get("GIT_SSH_COMMAND") or "ssh"
    locale = {} if kept.keys() & {"LC_ALL", "LC_CTYPE", "LANG"} else {"LANG": "C.UTF-8"}
    return {**kept, **NON_INTERACTIVE, **locale, "GIT_SSH_COMMAND": f"{ssh} -o BatchMode=yes"}


def _is_unwanted(name: str) -> bool:
    if name.startswith("TINYAGENT_"):
        return name != _KEPT_OWN
    return name in _REMOVED or _SECRET_NAME.search(name) is not None
