"""A fresh workspace for each task, and the patch that says what was changed in it.

A repository's commit is checked out into a repository of its own that borrows the objects of the user's (git's
alternates). A `git worktree` would share branches, stash and configuration with it: one task's `git branch -D` would
be everybody's, and the answer could be read from later commits.

What the patch is made from lies outside the workspace, where neither `git gc` nor `rm -rf .git` of the task reaches
it, and takes every file as bytes: no filter, no line-ending conversion, whatever the repository's attributes ask for.

Covers: hostile configuration, hooks, filters and links of the repository.
Does not cover: content of nested repositories and of submodules, which git itself takes as one line.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tinyagent.batch.tasks import Checkout, Folder, Source
from tinyagent.core.errors import ConfigError, TinyagentError
from tinyagent.security.git import git_argv, git_environment

# Written by tools and never part of a solution, in projects whose own .gitignore does not name them.
NOT_IN_PATCHES = ("__pycache__/", "*.py[co]", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/", ".hypothesis/")
_RAW = "* -text -eol -filter -ident -working-tree-encoding\n"
_NO_DIFF = _RAW + "* -diff\n"
# The user's own ignore list and conversions have no say in what a patch holds.
_OURS = {"GIT_CONFIG_GLOBAL": os.devnull}
_GIT_S = 600.0


class WorkspaceError(TinyagentError):
    """The workspace cannot be made or read: a matter of the machine, not of the task's solution."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """`root` is where the task works, `record` our own repository beside it; `base` and `start` are trees in it.

    `base` is what the task was given, `start` the state after its setup command.
    """

    root: Path
    record: Path
    base: str = ""
    start: str = ""


def pinned(source: Source, where: str, *, environ: Mapping[str, str]) -> Source:
    """The source with its commit as an id. Raises ConfigError that names the place in the task file."""
    if not isinstance(source, Checkout):
        return source
    at = ["-C", str(source.repo)] if (source.repo / ".git").exists() else ["--git-dir", str(source.repo)]
    try:
        found = _git(*at, "rev-parse", "--verify", "--end-of-options", f"{source.commit}^{{commit}}", environ=environ)
    except WorkspaceError as error:
        raise ConfigError(f"{where}: commit: {source.commit} is not in {source.repo}: {error}") from error
    return Checkout(source.repo, found.decode().strip())


def prepare(source: Source, folder: Path, *, environ: Mapping[str, str]) -> Workspace:
    """A fresh workspace in `folder`, which must not exist. Raises WorkspaceError."""
    root, record = folder / "files", folder / "record.git"
    try:
        folder.mkdir(mode=0o700)
        if source is None:
            root.mkdir()
            return Workspace(root, record)
        _init(record, environ=environ)
        match source:
            case Folder(path):
                _copy(path, root, environ=environ)
                return snapshot(Workspace(root, record), environ=environ)
            case Checkout():
                return _check_out(source, Workspace(root, record), environ=environ)
    except OSError as error:
        raise WorkspaceError(f"the workspace {folder} cannot be made: {error}") from error


def snapshot(workspace: Workspace, *, environ: Mapping[str, str]) -> Workspace:
    """The workspace as it is now becomes `start`, and `base` where there is none yet."""
    if workspace.base == "" and not workspace.record.exists():
        if not any(workspace.root.iterdir()):
            return workspace
        _init(workspace.record, environ=environ)
    tree = _tree_now(workspace, environ=environ)
    return Workspace(workspace.root, workspace.record, workspace.base or tree, tree)


def take_patch(workspace: Workspace, *, environ: Mapping[str, str]) -> bytes:
    """What was changed since `start`, as a patch that applies to `base`; it is always valid UTF-8.

    A changed text file that is not UTF-8 makes all files of the patch go as binary ones, which is exact. Raises
    WorkspaceError.
    """
    if not workspace.root.is_dir():
        raise WorkspaceError("the workspace is gone")
    if not workspace.record.exists():
        if not any(workspace.root.iterdir()):
            return b""
        _init(workspace.record, environ=environ)
    base = workspace.base or _empty_tree(workspace, environ=environ)
    now = _tree_now(workspace, environ=environ)
    if workspace.start not in ("", workspace.base):
        now = _without_setup(workspace, now, environ=environ)
    patch = _diff(workspace, base, now, environ=environ)
    try:
        patch.decode("utf-8")
    except UnicodeDecodeError:
        _write_attributes(workspace.record, _NO_DIFF)
        patch = _diff(workspace, base, now, environ=environ)
        _write_attributes(workspace.record, _RAW)
    return patch


def remove(folder: Path) -> None:
    """Delete a workspace, also one whose folders were made unwritable."""
    if folder.is_symlink():
        folder.unlink()
        return
    if not folder.exists():
        return
    with suppress(OSError):
        shutil.rmtree(folder)
    if folder.exists():
        for path, folders, _ in os.walk(folder):
            for name in folders:
                with suppress(OSError):
                    os.chmod(f"{path}/{name}", 0o700, follow_symlinks=False)  # noqa: PTH101  pathlib follows links
        shutil.rmtree(folder, ignore_errors=True)


def _init(record: Path, *, environ: Mapping[str, str]) -> None:
    _git("init", "--quiet", "--bare", "--template=", str(record), environ=environ)
    (record / "info").mkdir(exist_ok=True)
    (record / "info" / "exclude").write_text("".join(f"{name}\n" for name in NOT_IN_PATCHES), encoding="utf-8")
    _write_attributes(record, _RAW)


def _write_attributes(record: Path, text: str) -> None:
    """`info/attributes` goes before every .gitattributes of the tree."""
    (record / "info" / "attributes").write_text(text, encoding="utf-8")


def _copy(source: Path, root: Path, *, environ: Mapping[str, str]) -> None:
    """Copy a folder with its links as links. A `.git` that only points to a repository elsewhere stays behind."""
    root.mkdir()
    _run(["cp", "-a", "--", f"{source}/.", str(root)], environ=environ)
    pointer = root / ".git"
    if pointer.is_symlink() or pointer.is_file():
        pointer.unlink()


def _check_out(source: Checkout, workspace: Workspace, *, environ: Mapping[str, str]) -> Workspace:
    root, record = workspace.root, workspace.record
    (record / "objects" / "info").mkdir(exist_ok=True)
    (record / "objects" / "info" / "alternates").write_text(f"{_objects(source.repo, environ)}\n", encoding="utf-8")
    (record / "HEAD").write_text(f"{source.commit}\n", encoding="utf-8")
    root.mkdir()
    _git_in(workspace, "read-tree", "--reset", "-u", source.commit, environ=environ)
    tree = _git_in(workspace, "rev-parse", f"{source.commit}^{{tree}}", environ=environ).decode().strip()
    _give_repository(workspace)
    return Workspace(root, record, tree, tree)


def _give_repository(workspace: Workspace) -> None:
    """The task's own repository: the same commit, index and borrowed objects as ours, and no branch but its own."""
    own = workspace.root / ".git"
    shutil.copytree(workspace.record, own, symlinks=True)
    commit = (own / "HEAD").read_text(encoding="utf-8")
    (own / "refs" / "heads").mkdir(parents=True, exist_ok=True)
    (own / "refs" / "heads" / "main").write_text(commit, encoding="utf-8")
    (own / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    config = (own / "config").read_text(encoding="utf-8").replace("bare = true", "bare = false")
    (own / "config").write_text(config, encoding="utf-8")


def _objects(repo: Path, environ: Mapping[str, str]) -> Path:
    """The folder of a repository's objects, also where `repo` is a worktree of another one."""
    if not (repo / ".git").exists():
        return repo / "objects"
    if (repo / ".git").is_dir():
        return (repo / ".git" / "objects").resolve()
    common = _git("-C", str(repo), "rev-parse", "--path-format=absolute", "--git-common-dir", environ=environ)
    return Path(os.fsdecode(common.rstrip(b"\n"))) / "objects"


def _tree_now(workspace: Workspace, *, environ: Mapping[str, str]) -> str:
    _git_in(workspace, "add", "--all", "--", ".", environ=environ)
    return _git_in(workspace, "write-tree", environ=environ).decode().strip()


def _empty_tree(workspace: Workspace, *, environ: Mapping[str, str]) -> str:
    found = _git_in(workspace, "hash-object", "-w", "-t", "tree", "--stdin", environ=environ, given=b"")
    return found.decode().strip()


def _without_setup(workspace: Workspace, now: str, *, environ: Mapping[str, str]) -> str:
    """The base tree with only those paths as they are now that were changed after the setup."""
    raw = _git_in(workspace, "diff-tree", "-r", "-z", "--no-renames", workspace.start, now, environ=environ)
    fields = raw.split(b"\0")
    lines: list[bytes] = []
    for info, path in zip(fields[0::2], fields[1::2], strict=False):
        _, mode, _, blob, _ = info.split(b" ")
        lines.append(mode + b" " + blob + b"\t" + path)
    _git_in(workspace, "read-tree", workspace.base, environ=environ)
    given = b"".join(line + b"\0" for line in lines)
    _git_in(workspace, "update-index", "-z", "--index-info", environ=environ, given=given)
    return _git_in(workspace, "write-tree", environ=environ).decode().strip()


def _diff(workspace: Workspace, base: str, now: str, *, environ: Mapping[str, str]) -> bytes:
    form = ("--binary", "--full-index", "--no-renames", "--no-color", "--src-prefix=a/", "--dst-prefix=b/")
    return _git_in(workspace, "diff", *form, base, now, environ=environ)


def _git_in(workspace: Workspace, *args: str, environ: Mapping[str, str], given: bytes = b"") -> bytes:
    """Git on our record with the workspace as its working tree."""
    command, *rest = args
    place = {"GIT_DIR": str(workspace.record), "GIT_WORK_TREE": str(workspace.root)}
    return _run(
        git_argv(command, *rest),
        environ={**git_environment(environ), **_OURS, **place},
        cwd=workspace.root,
        given=given,
    )


def _git(*args: str, environ: Mapping[str, str]) -> bytes:
    return _run(git_argv(*args), environ=git_environment(environ))


def _run(argv: Sequence[str], *, environ: Mapping[str, str], cwd: Path | None = None, given: bytes = b"") -> bytes:
    """A program's stdout. Raises WorkspaceError with the last line of its stderr."""
    try:
        done = subprocess.run(
            argv, cwd=cwd, env=dict(environ), input=given, capture_output=True, check=False, timeout=_GIT_S
        )
    except subprocess.TimeoutExpired as error:
        raise WorkspaceError(f"{argv[0]} did not end within {_GIT_S:g} s") from error
    except OSError as error:
        raise WorkspaceError(f"{argv[0]} cannot be run: {error.strerror}") from error
    if done.returncode != 0:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise WorkspaceError(f"{Path(argv[0]).name} {argv[-1][:60]}: {words[-1]}")
    return done.stdout
