"""Which paths are inside the workspace, which are never edited unasked, which hold secrets; names made from data.

Paths are judged by where they lead at this moment. Whoever opens them must not follow a link that appeared since.
"""

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# Parts of a path that make programs run or the agent's own rules change, wherever they stand (Claude Code
# CVE-2026-25722; agents that edited their own rules: Copilot, Amp, Claude, 2025).
_PROTECTED_ANYWHERE = (
    ".git",
    ".tinyagent",
    ".vscode/tasks.json",
    ".vscode/settings.json",
    ".vscode/launch.json",
    ".idea",
    ".envrc",
    ".mcp.json",
)
_PROTECTED_IN_HOME = (
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".gitconfig",
    ".config/git",
    ".config/fish",
    ".config/autostart",
    ".config/systemd",
)
_SECRET_IN_HOME = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".kube/config",
    ".docker/config.json",
    ".netrc",
    ".pgpass",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".password-store",
    ".local/share/keyrings",
)
_SECRET_OF_SYSTEM = re.compile(r"/etc/g?shadow-?|/proc/[^/]+(/task/[^/]+)?/(environ|mem)")

# `.git` itself is named by many harmless commands; entering it is not one of them.
_PROTECTED_IN_TEXT = re.compile(
    r"\.tinyagent(?![\w.-])|\.git/+(hooks|config|info)(?![\w.-])|\b(cd|pushd)\s+(\S*/)?\.git(?![\w.-])", re.IGNORECASE
)
_HOME = re.compile(r"\$HOME\b|\$\{HOME\}|(?<![\w/.~-])~(?=/|\s|$)")

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MANGLED = "~"  # never in a plain name, so a mangled name cannot equal one


@dataclass(frozen=True, slots=True)
class Places:
    """The folders that decide what a path means.

    `own` are files and folders of the agent itself, which may hold keys: neither read nor changed unasked. One that
    contains the workspace is left out of account.
    """

    root: Path
    home: Path
    own: tuple[Path, ...] = ()

    def resolve(self, path: str) -> Path:
        """Where a path that a tool was given leads now; relative ones start at the workspace."""
        return real(self.root / path)

    def is_inside(self, path: Path) -> bool:
        return inside(self.root, path)

    def is_protected(self, path: Path) -> bool:
        """Whether writing there always needs a person."""
        target = real(path)
        in_workspace = _relative_parts(target, self.root)
        if any(_contains(in_workspace, protected.split("/")) for protected in _PROTECTED_ANYWHERE):
            return True
        return _under(target, self.home, _PROTECTED_IN_HOME) or self.is_secret(target)

    def is_secret(self, path: Path) -> bool:
        """Whether a file usually holds keys: never read unasked."""
        target = real(path)
        if _SECRET_OF_SYSTEM.fullmatch(str(target)):
            return True
        return _under(target, self.home, _SECRET_IN_HOME) or any(inside(own, target) for own in self._own())

    def names_secret(self, command: str) -> bool:
        """Whether a command's text names such a place. Advice: a variable or a glob hides it."""
        text = self._expanded(command)
        if _SECRET_OF_SYSTEM.search(text):
            return True
        in_home = secret_places(self.home) if str(self.home) in text else []
        places = [*in_home, *self._own_in(text)]
        return any(re.search(rf"{re.escape(str(place))}(?![\w.-])", text) for place in places)

    def names_protected(self, command: str) -> bool:
        """Whether a command's text names the agent's rules or git's hooks, or writes a shell profile."""
        text = self._expanded(command)
        if _PROTECTED_IN_TEXT.search(text) or self._own_in(text):
            return True
        if str(self.home) not in text:
            return False
        profiles = "|".join(re.escape(f"{self.home}/{name}") for name in _PROTECTED_IN_HOME)
        return re.search(rf"(>\|?|\btee(\s+-a)?)\s*({profiles})", text) is not None

    def _own(self) -> list[Path]:
        return [own for own in self.own if not inside(own, self.root)]

    def _own_in(self, text: str) -> list[Path]:
        """Those that a text names; looked for first, as `inside` asks the file system."""
        return [own for own in self.own if str(own) in text and not inside(own, self.root)]

    def _expanded(self, command: str) -> str:
        """A command's text without quotes and backslashes, the home folder written out."""
        return _HOME.sub(lambda _: str(self.home), re.sub(r"[\\'\"]", "", command))


def real(path: Path) -> Path:
    """The path with all links resolved; a loop of links stays as it is, for the opening to fail on."""
    return Path(os.path.realpath(path))


def inside(root: Path, path: Path) -> bool:
    """Whether a path lies in the folder or is it, after resolving the links of both, now."""
    return real(path).is_relative_to(real(root))


def secret_places(home: Path) -> list[Path]:
    """The places in the user's home that usually hold keys, whether they exist or not."""
    return [home / name for name in _SECRET_IN_HOME]


def protected_places(root: Path) -> list[Path]:
    """The places of a workspace that a sandbox can keep read-only without breaking `git commit`."""
    return [root / name for name in (".git/hooks", ".git/config", ".tinyagent", ".vscode/tasks.json", ".envrc")]


def safe_name(text: str) -> str:
    """A file name for any id, different for different ids: the id itself where it is harmless, else made safe.

    The result has 1 to 100 characters, no separator, and is neither `.` nor `..` nor hidden.
    """
    if _PLAIN_NAME.fullmatch(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", text)[:60].strip("_-")
    return f"{readable or 'id'}{_MANGLED}{digest}"


def _relative_parts(path: Path, root: Path) -> list[str]:
    """Parts below the root, or of the whole path if it lies elsewhere; without case, as some file systems compare."""
    root = real(root)
    relative = path.relative_to(root) if path.is_relative_to(root) else path
    return [part.casefold() for part in relative.parts]


def _contains(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    return any(parts[start : start + len(wanted)] == list(wanted) for start in range(len(parts) - len(wanted) + 1))


def _under(path: Path, home: Path, names: tuple[str, ...]) -> bool:
    home = real(home)
    if not path.is_relative_to(home):
        return False
    below = "/".join(part.casefold() for part in path.relative_to(home).parts)
    return any(below == name or below.startswith(f"{name}/") for name in names)
