"""A workspace is fresh and the patch is exact, whatever the repository or the task does."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tinyagent.batch.tasks import Checkout, Folder
from tinyagent.batch.workspace import Workspace, pinned, prepare, remove, snapshot, take_patch
from tinyagent.core.errors import ConfigError

ENV = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


def git(folder: Path, *args: str, given: bytes | None = None) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *identity, *args], cwd=folder, input=given, capture_output=True, check=True)
    return done.stdout.decode()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "code.py").write_bytes(b"one\ntwo\n")
    (folder / "dos.txt").write_bytes(b"one\r\ntwo\r\n")
    (folder / "latin.txt").write_bytes(b"caf\xe9\n")
    (folder / "blob.bin").write_bytes(bytes(range(256)))
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


def fresh(repo: Path, tmp_path: Path, *, name: str = "w") -> Workspace:
    return prepare(pinned(Checkout(repo, "HEAD"), "t", environ=ENV), tmp_path / name, environ=ENV)


def patched(repo: Path, patch: bytes, tmp_path: Path) -> Path:
    """A clean clone with the patch applied by git itself."""
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(repo), str(clone))
    git(clone, "apply", "--whitespace=nowarn", "-", given=patch)
    return clone


@pytest.mark.parametrize(
    ("file", "data"),
    [
        ("code.py", b"one\n2\n"),
        ("code.py", b"one\r\n2\r\n"),
        ("code.py", b"one\n2"),
        ("dos.txt", b"one\r\n2\r\n"),
        ("latin.txt", b"caf\xe9s\n"),
        ("blob.bin", bytes(reversed(range(256)))),
        ("new/file name ü.txt", b"a\r\nb"),
        ("empty", b""),
    ],
)
def test_a_patch_applied_to_the_base_commit_gives_the_same_bytes(
    repo: Path, tmp_path: Path, file: str, data: bytes
) -> None:
    workspace = fresh(repo, tmp_path)
    (workspace.root / file).parent.mkdir(exist_ok=True)
    (workspace.root / file).write_bytes(data)
    patch = take_patch(workspace, environ=ENV)
    assert (patched(repo, patch, tmp_path) / file).read_bytes() == data
    patch.decode("utf-8")


def test_removed_files_modes_and_links_are_in_the_patch(repo: Path, tmp_path: Path) -> None:
    workspace = fresh(repo, tmp_path)
    (workspace.root / "dos.txt").unlink()
    (workspace.root / "code.py").chmod(0o755)
    (workspace.root / "link").symlink_to("code.py")
    clone = patched(repo, take_patch(workspace, environ=ENV), tmp_path)
    assert not (clone / "dos.txt").exists()
    assert os.access(clone / "code.py", os.X_OK)
    assert (clone / "link").readlink() == Path("code.py")


def test_line_endings_stay_whatever_the_repository_asks_for(repo: Path, tmp_path: Path) -> None:
    (repo / ".gitattributes").write_text("* text=auto eol=crlf\n", encoding="utf-8")
    git(repo, "add", ".gitattributes")
    git(repo, "commit", "-qm", "attributes")
    workspace = fresh(repo, tmp_path)
    assert (workspace.root / "code.py").read_bytes() == b"one\ntwo\n"
    assert take_patch(workspace, environ=ENV) == b""


def test_a_workspace_that_nobody_touched_has_an_empty_patch(repo: Path, tmp_path: Path) -> None:
    assert take_patch(fresh(repo, tmp_path), environ=ENV) == b""


def test_the_task_has_a_repository_of_its_own(repo: Path, tmp_path: Path) -> None:
    before = git(repo, "for-each-ref") + git(repo, "status", "--porcelain") + git(repo, "stash", "list")
    workspace = fresh(repo, tmp_path)
    (workspace.root / "code.py").write_bytes(b"new\n")
    git(workspace.root, "stash")
    git(workspace.root, "checkout", "-qb", "side")
    git(workspace.root, "commit", "-q", "--allow-empty", "-m", "x")
    git(workspace.root, "config", "user.name", "other")
    assert git(repo, "for-each-ref") + git(repo, "status", "--porcelain") + git(repo, "stash", "list") == before
    assert git(fresh(repo, tmp_path, name="next").root, "status", "--porcelain") == ""


def test_later_commits_cannot_be_read_from_the_task_s_repository(repo: Path, tmp_path: Path) -> None:
    first = git(repo, "rev-parse", "HEAD").strip()
    (repo / "code.py").write_bytes(b"the answer\n")
    git(repo, "commit", "-qam", "answer")
    workspace = prepare(Checkout(repo, first), tmp_path / "w", environ=ENV)
    assert git(workspace.root, "log", "--all", "--format=%s").split() == ["first"]


@pytest.mark.parametrize(
    "deed",
    [
        lambda root: git(root, "commit", "-qam", "done"),
        lambda root: git(root, "add", "-A"),
        lambda root: remove(root / ".git"),
        lambda root: (root / ".git" / "config").write_text("[core]\nbare = nonsense\n", encoding="utf-8"),
        lambda root: git(root, "checkout", "-q", "--orphan", "else"),
    ],
)
def test_what_the_task_does_to_its_repository_does_not_change_the_patch(
    repo: Path, tmp_path: Path, deed: Callable[[Path], object]
) -> None:
    workspace = fresh(repo, tmp_path)
    (workspace.root / "code.py").write_bytes(b"one\n2\n")
    deed(workspace.root)
    patch = take_patch(workspace, environ=ENV)
    assert (patched(repo, patch, tmp_path) / "code.py").read_bytes() == b"one\n2\n"


def test_what_the_setup_made_is_not_in_the_patch(repo: Path, tmp_path: Path) -> None:
    workspace = fresh(repo, tmp_path)
    (workspace.root / "built.txt").write_bytes(b"by setup\n")
    (workspace.root / "dos.txt").write_bytes(b"by setup\n")
    (workspace.root / "code.py").write_bytes(b"setup\ntwo\n")
    workspace = snapshot(workspace, environ=ENV)
    (workspace.root / "code.py").write_bytes(b"setup\n2\n")
    (workspace.root / "new.txt").write_bytes(b"by the task\n")
    clone = patched(repo, take_patch(workspace, environ=ENV), tmp_path)
    assert (clone / "code.py").read_bytes() == b"setup\n2\n"
    assert (clone / "new.txt").read_bytes() == b"by the task\n"
    assert (clone / "dos.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert not (clone / "built.txt").exists()


def test_caches_that_no_ignore_list_names_are_not_in_the_patch(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    workspace = prepare(Folder(tmp_path / "source"), tmp_path / "w", environ=ENV)
    for name in ("__pycache__/a.pyc", "sub/__pycache__/b.pyc", ".pytest_cache/x"):
        (workspace.root / name).parent.mkdir(parents=True)
        (workspace.root / name).write_bytes(b"x")
    assert take_patch(workspace, environ=ENV) == b""


def test_hostile_configuration_runs_nothing(repo: Path, tmp_path: Path) -> None:
    """S31, S32 mistral-vibe#962: fsmonitor, hooks, filters and drivers of a repository are programs."""
    mark = tmp_path / "MARK"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n", encoding="utf-8")
    program.chmod(0o755)
    (repo / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n", encoding="utf-8")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "attributes")
    for key in ("core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "diff.evil.command", "diff.external"):
        git(repo, "config", key, str(program))
    for hook in ("post-checkout", "post-index-change", "reference-transaction"):
        (repo / ".git" / "hooks" / hook).write_bytes(program.read_bytes())
        (repo / ".git" / "hooks" / hook).chmod(0o755)
    workspace = fresh(repo, tmp_path)
    copy = prepare(Folder(repo), tmp_path / "copy", environ=ENV)
    for each in (workspace, copy):
        (each.root / "code.py").write_bytes(b"new\n")
        assert b"+new" in take_patch(each, environ=ENV)
    assert not mark.exists()


def test_a_link_of_the_repository_is_never_written_through(tmp_path: Path) -> None:
    """S22, Claude Code 2.1.69: a linked folder inside the repository."""
    outside, source = tmp_path / "outside", tmp_path / "source"
    outside.mkdir()
    source.mkdir()
    for name in (".tinyagent", "files", "record.git", "workspace"):
        (source / name).symlink_to(outside)
    workspace = prepare(Folder(source), tmp_path / "w", environ=ENV)
    assert (workspace.root / ".tinyagent").is_symlink()
    take_patch(workspace, environ=ENV)
    remove(tmp_path / "w")
    assert list(outside.iterdir()) == []
    assert not (tmp_path / "w").exists()


def test_a_copy_never_points_back_to_the_repository_it_came_from(repo: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    git(repo, "worktree", "add", "-q", str(tree))
    copy = prepare(Folder(tree), tmp_path / "copy", environ=ENV)
    assert not (copy.root / ".git").exists()


def test_a_commit_of_a_worktree_can_be_checked_out(repo: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    git(repo, "worktree", "add", "-q", str(tree))
    assert (fresh(tree, tmp_path).root / "code.py").read_bytes() == b"one\ntwo\n"


def test_a_commit_that_is_not_there_is_named_with_its_place(repo: Path) -> None:
    with pytest.raises(ConfigError, match=r"^tasks.jsonl:7: commit: nope is not in "):
        pinned(Checkout(repo, "nope"), "tasks.jsonl:7", environ=ENV)


@pytest.mark.parametrize("name", ["--upload-pack=touch MARK", "a;touch MARK", "$(touch MARK)"])
def test_a_commit_s_name_is_never_an_option_or_a_command(repo: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError):
        pinned(Checkout(repo, name), "t", environ=ENV)
    assert not list(tmp_path.rglob("MARK"))


def test_a_task_without_a_source_starts_in_an_empty_folder(tmp_path: Path) -> None:
    workspace = prepare(None, tmp_path / "w", environ=ENV)
    assert take_patch(workspace, environ=ENV) == b""
    (workspace.root / "new").write_bytes(b"x\n")
    assert b"+x" in take_patch(workspace, environ=ENV)


def test_a_workspace_without_write_permission_is_removed_too(tmp_path: Path) -> None:
    workspace = prepare(None, tmp_path / "w", environ=ENV)
    (workspace.root / "sub").mkdir()
    (workspace.root / "sub" / "file").write_bytes(b"x")
    (workspace.root / "sub").chmod(0o500)
    remove(tmp_path / "w")
    assert not (tmp_path / "w").exists()
