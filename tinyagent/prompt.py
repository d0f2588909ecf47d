"""The system prompt: fixed rules, the place of work, and the AGENTS.md files. The same inputs give the same bytes."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tinyagent.config.folders import git_root

PROMPTS = Path(__file__).parent / "prompts"

NAMES = ("AGENTS.override.md", "AGENTS.md", "CLAUDE.md")  # the first that can be read counts
TOTAL_BYTES = 32 * 1024
MOST_BYTES = 1024 * 1024  # a larger file was not written for a prompt


@dataclass(frozen=True, slots=True)
class ContextFiles:
    """Instructions of user and project: `text` as it stands in the prompt, `files` in that order.

    `notices` say what was left out and why.
    """

    text: str = ""
    files: tuple[Path, ...] = ()
    notices: tuple[str, ...] = ()


def system_prompt(workspace: Path, *, system: str, context: ContextFiles) -> str:
    """The whole system prompt. `system` names the operating system, such as `Linux`."""
    rules = (PROMPTS / "system.md").read_text(encoding="utf-8").strip()
    place = f"Workspace: {workspace} (relative paths start here; each command too)\nSystem: {system}"
    return "\n\n".join(part for part in (rules, place, context.text) if part) + "\n"


def load_context_files(cwd: Path, home_config_dir: Path) -> ContextFiles:
    """The user's own file, then one per directory from the repository's root down to `cwd`.

    Never raises and never waits: what cannot be used is left out with a notice.
    """
    left = TOTAL_BYTES
    parts: list[str] = []
    files: list[Path] = []
    notices: list[str] = []
    for found in _candidates(cwd.resolve(), home_config_dir):
        if isinstance(found, str):
            notices.append(found)
            continue
        text, data = found.text, found.text.encode()
        if len(data) > left:
            how = "cut" if left else "left out"
            notices.append(f"{found.path} is {how}: instructions may have {TOTAL_BYTES // 1024} KiB in all")
            if not left:
                continue
            text = data[:left].decode("utf-8", "ignore") + "\n[cut here: the rest of this file is not shown]"
        left -= min(left, len(data))
        parts.append(f'<instructions from="{found.path}">\n{text}\n</instructions>')
        files.append(found.path)
    head = "# Instructions from the user and the project. Those further down are closer to the work and win."
    return ContextFiles("\n".join([head, *parts]) if parts else "", tuple(files), tuple(notices))


@dataclass(frozen=True, slots=True)
class _Found:
    path: Path
    text: str


def _candidates(cwd: Path, home_config_dir: Path) -> Iterator[_Found | str]:
    """Each usable file in order, and a sentence for each that is there but cannot be used."""
    yield from _of_folder(home_config_dir, root=None)
    root = git_root(cwd) or cwd
    for folder in reversed([cwd, *cwd.parents]):
        if folder.is_relative_to(root):
            yield from _of_folder(folder, root=root)


def _of_folder(folder: Path, *, root: Path | None) -> Iterator[_Found | str]:
    """The first usable file of one folder; `root` bounds where a link may lead, None trusts the folder's owner."""
    for name in NAMES:
        path = folder / name
        try:
            text = _read(path, root)
        except FileNotFoundError:
            continue
        except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: a loop of links
            yield f"{path} is not read: {error.strerror if isinstance(error, OSError) else error}"
            continue
        if text:
            yield _Found(path, text)
            return


def _read(path: Path, root: Path | None) -> str:
    """The text of a regular file. Raises OSError, ValueError with the reason."""
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode) and root is not None:
        _check_link(path, root)
    # Without O_NONBLOCK opening a FIFO would wait for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a regular file")
        if status.st_size > MOST_BYTES:
            raise ValueError(f"it has {status.st_size:,} bytes")
        data = file.read(MOST_BYTES)
    try:
        return data.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 (byte {error.start})") from error


def _check_link(path: Path, root: Path) -> None:
    """A link may lead to another text of the same repository, not to a key or to the world outside."""
    target = path.resolve(strict=True)
    if not target.is_relative_to(root) or target.suffix != ".md":
        raise ValueError("it is a link to something that is no .md file of this repository")
