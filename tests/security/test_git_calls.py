"""Our own git calls in a hostile repository."""

import os
import subprocess
from pathlib import Path

import pytest

from tinyagent.security.git import filter_names, filters_argv, git_argv, git_environment


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose configuration makes git run `touch MARK` wherever git can be made to."""
    root = tmp_path / "repo"
    root.mkdir()
    touch = f"touch {tmp_path}/MARK; true"
    script = root / ".git" / "hooks"
    git(root, "init", "-q")
    for hook in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction", "post-commit"):
        (script / hook).write_text(f"#!/bin/sh\n{touch}\n")
        (script / hook).chmod(0o755)
    (root / "a.txt").write_text("one\n")
    (root / ".gitattributes").write_text("*.txt filter=evil diff=evil\n")
    subprocess.run(git_argv("add", "."), cwd=root, env=git_environment(os.environ), check=True)
    subprocess.run(
        git_argv("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "one"),
        cwd=root,
        env=git_environment(os.environ),
        check=True,
    )
    for key, value in {
        "user.email": f"$(touch {tmp_path}/MARK)",
        "core.fsmonitor": touch,
        "core.pager": f"{touch}; cat",
        "core.sshCommand": touch,
        "core.editor": touch,
        "diff.external": touch,
        "diff.evil.textconv": f"{touch}; cat",
        "diff.evil.command": touch,
        "filter.evil.clean": f"{touch}; cat",
        "filter.evil.smudge": f"{touch}; cat",
        "filter.evil.process": touch,
        "filter.evil.required": "true",
        "gpg.program": touch,
        "log.showSignature": "true",
    }.items():
        git(root, "config", key, value)
    (root / "a.txt").write_text("two\n")
    assert not (tmp_path / "MARK").exists()
    return root


def git(root: Path, *args: str) -> None:
    subprocess.run(["git", *args], cwd=root, check=True, capture_output=True)


@pytest.mark.parametrize(
    "args",
    [
        ("status", "--porcelain"),
        ("diff",),
        ("diff", "--stat", "HEAD"),
        ("log", "-p"),
        ("show", "HEAD"),
        ("rev-parse", "HEAD"),
        ("add", "-A"),
        ("worktree", "add", "--detach", "../tree", "HEAD"),
        ("ls-remote", "ssh://127.0.0.1/x"),
    ],
)
def test_no_program_of_the_repository_runs(repository: Path, args: tuple[str, ...]):
    """S32 mistral-vibe#962, atlascode#1918; S31 Claude Code CVE-2025-59041."""
    env = git_environment(os.environ)
    listed = subprocess.run(filters_argv(), cwd=repository, env=env, capture_output=True, text=True, check=False)
    argv = git_argv(*args, filters=filter_names(listed.stdout))
    done = subprocess.run(argv, cwd=repository, env=env, capture_output=True, text=True, check=False)
    assert not (repository.parent / "MARK").exists()
    assert done.returncode == 0 or args[0] == "ls-remote", done.stderr


def test_the_traps_of_this_test_do_spring_for_plain_git(repository: Path):
    subprocess.run(["git", "status"], cwd=repository, capture_output=True, check=False)
    assert (repository.parent / "MARK").exists()


def test_filter_names_may_have_dots_and_no_value():
    assert filter_names("filter.lfs.clean\0filter.lfs.smudge\0filter.my.own.process\0") == ["lfs", "my.own"]


def test_the_outer_repository_is_not_inherited():
    env = git_environment({"GIT_DIR": "/x", "GIT_CONFIG_COUNT": "1", "PATH": "/bin"})
    assert env.keys() & {"GIT_DIR", "GIT_CONFIG_COUNT"} == set()
