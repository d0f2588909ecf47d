"""Our own git calls in a repository that may be hostile: no program that its configuration names is run.

`git status` alone runs `core.fsmonitor`, hooks, filters and more (mistral-vibe #962, Claude Code CVE-2025-59041).
Commands that the model runs are the sandbox's matter, not this module's.
"""

from collections.abc import Iterable, Mapping

_OFF = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.sshCommand=false",
    "core.attributesFile=/dev/null",
    "core.editor=false",
    "diff.external=",
    "diff.ignoreSubmodules=dirty",  # a submodule's own configuration is not looked at
    "submodule.recurse=false",
    "log.showSignature=false",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "credential.helper=",
    "protocol.ext.allow=never",
    "safe.bareRepository=explicit",  # a bare repository hidden in a folder brings its own configuration
    "gc.auto=0",
    "maintenance.auto=false",
)
_DIFFING = frozenset({"diff", "log", "show", "format-patch", "diff-tree", "diff-index", "diff-files"})


def git_argv(*args: str, filters: Iterable[str] = ()) -> list[str]:
    """`git ARGS` as a program and its arguments, with everything switched off that runs other programs.

    `filters` are the names that `filter_names` found; give them to calls that read or write the working tree.
    """
    argv = ["git", "--no-pager", "--no-optional-locks"]
    for setting in _OFF:
        argv += ["-c", setting]
    for name in filters:
        for key in ("clean", "smudge", "process"):
            argv += ["-c", f"filter.{name}.{key}="]
        argv += ["-c", f"filter.{name}.required=false"]
    if args and args[0] in _DIFFING:
        return [*argv, args[0], "--no-ext-diff", "--no-textconv", *args[1:]]
    return [*argv, *args]


def filters_argv() -> list[str]:
    """The call whose output `filter_names` reads. It exits with 1 when there are none."""
    return git_argv("config", "--name-only", "--null", "--get-regexp", r"^filter\.")


def filter_names(output: str) -> list[str]:
    """The names of configured filters, from the output of `filters_argv`."""
    keys = [key for key in output.split("\0") if key.count(".") >= 2]
    return sorted({key.removeprefix("filter.").rpartition(".")[0] for key in keys})


def git_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for these calls, made from that of a command: nothing but git's own files decides.

    The system's configuration stays in force: it is the administrator's, and containers keep `safe.directory` there.
    """
    kept = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
    return {**kept, "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "", "GIT_OPTIONAL_LOCKS": "0", "GIT_EDITOR": "false"}
