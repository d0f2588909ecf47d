"""Permission rules in their text form: `tool`, `tool(pattern)`, or `tool(=exact command)`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tinyagent.core.errors import ConfigError
from tinyagent.security.paths import Places, real
from tinyagent.security.shell import matches_rule, touches_rule

_RULE = re.compile(r"(?P<tool>\*|[a-z][a-z0-9_]*)(?:\((?P<pattern>.+)\))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `pattern` "*" covers every call of the tool; `exact` compares the whole command, sign by sign.

    For `bash` a pattern is compared with each simple command, for file tools with the path: one without a slash with
    the name in any folder, `src/**` with what lies below, an absolute one or `~/...` also outside the workspace.
    """

    tool: str
    pattern: str = "*"
    exact: bool = False

    def __str__(self) -> str:
        if self.exact:
            return f"{self.tool}(={self.pattern})"
        return self.tool if self.pattern == "*" else f"{self.tool}({self.pattern})"

    @property
    def names_outside(self) -> bool:
        """Whether the pattern itself names a place by its whole path, which may lie outside the workspace."""
        return self.pattern.startswith(("/", "~/"))

    def is_for(self, tool: str) -> bool:
        return self.tool in ("*", tool)

    def covers_command(self, command: str) -> bool:
        """For rules that allow: certainly within the rule."""
        return self.pattern == command if self.exact else matches_rule(self.pattern, command)

    def touches_command(self, command: str) -> bool:
        """For rules that deny or ask: perhaps within the rule."""
        return self.pattern == command if self.exact else touches_rule(self.pattern, command)

    def covers_path(self, path: str, places: Places) -> bool:
        """For rules that allow: the place where the path leads is within the rule."""
        return self.pattern == "*" or self._matches(places.resolve(path), places)

    def touches_path(self, path: str, places: Places) -> bool:
        """For rules that deny or ask: the path as named, or where it leads (Claude Code CVE-2026-25724)."""
        named = Path(_normal(places.root / path))
        return self.covers_path(path, places) or self._matches(named, places)

    def _matches(self, path: Path, places: Places) -> bool:
        if self.exact:
            return str(path) == self.pattern
        if self.pattern.startswith("~/"):
            return _glob(str(real(places.home) / self.pattern[2:])).fullmatch(str(path)) is not None
        if self.pattern.startswith("/"):
            return _glob(self.pattern).fullmatch(str(path)) is not None
        root = real(places.root)
        if not path.is_relative_to(root):
            return False
        relative = path.relative_to(root)
        pattern = self.pattern.removeprefix("./")
        if "/" not in pattern:
            return any(_glob(pattern).fullmatch(part) for part in relative.parts)
        return _glob(pattern).fullmatch(str(relative)) is not None


@dataclass(frozen=True, slots=True)
class Permissions:
    """The user's rules. The strictest that fits decides: deny, then ask, then allow."""

    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()

    @classmethod
    def parse(cls, *, allow: Sequence[str] = (), ask: Sequence[str] = (), deny: Sequence[str] = ()) -> "Permissions":
        """From the lists of the configuration. Raises ConfigError that names the rule."""
        return cls(*(tuple(parse_rule(text) for text in texts) for texts in (allow, ask, deny)))


def parse_rule(text: str) -> Rule:
    """A rule from its text. Raises ConfigError."""
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise ConfigError(
            f"permission rule {text!r} has not the form tool or tool(pattern), as in bash(git status*) or write(src/**)"
        )
    pattern = match["pattern"]
    if pattern is None:
        return Rule(match["tool"])
    if pattern.startswith("="):
        return Rule(match["tool"], pattern[1:], exact=True)
    return Rule(match["tool"], pattern)


def _normal(path: Path) -> str:
    """Without `.` and `..`, links not followed."""
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and len(parts) > 1:
            parts.pop()
        elif part != "..":
            parts.append(part)
    return str(Path(*parts))


@cache
def _glob(pattern: str) -> re.Pattern[str]:
    """`*` within a name, `**` across folders, `?` one character; without case, as some file systems compare."""
    kinds = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    return re.compile("".join(kinds.get(part, re.escape(part)) for part in parts), re.DOTALL | re.IGNORECASE)
