"""Settings as they were written and as they are read, each with the place it was written at."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tinyagent.core.errors import ConfigError

Key = tuple[str, ...]  # the path to a setting: ("context", "trigger_ratio")
ScalarType = Literal["str", "int", "float", "bool", "null", "word"]


class UsageError(ConfigError):
    """The command line itself is wrong."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value as it was written. A "word" (from a variable or an option) may be read as any type."""

    text: str
    type: ScalarType
    where: str


@dataclass(frozen=True, slots=True)
class Items:
    """A list as it was written."""

    items: "tuple[Raw, ...]"
    where: str


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping as it was written."""

    entries: "Mapping[str, Raw]"
    where: str


Raw = Scalar | Items | Table


@dataclass(frozen=True, slots=True)
class Setting:
    """A typed value and where it was written, in words."""

    value: object
    where: str


_INLINE = ("--", "TINYAGENT_")

Values = dict[Key, Setting]


def dotted(key: Key) -> str:
    return ".".join(key)


def did_you_mean(word: str, names: Mapping[str, str], *, cutoff: float = 0.6) -> str:
    """A hint at the nearest of these names, told as what it maps to; "" if none is near."""
    from difflib import get_close_matches

    near = get_close_matches(word, names, n=1, cutoff=cutoff)
    return f"; did you mean {names[near[0]]}?" if near else ""


def place(name: str, line: int | None) -> str:
    """A line of a file; the value of an option or a variable has but one."""
    return name if line is None or name.startswith(_INLINE) else f"{name}, line {line}"


def fault(where: str, key: Key, words: str) -> ConfigError:
    """The error for one setting; a UsageError if it was given on the command line."""
    if where.startswith("--"):
        return UsageError(f"{where}: {words}")
    if not key or where.startswith(_INLINE):  # the variable's name says which setting it is
        return ConfigError(f"{where}: {words}")
    return ConfigError(f"{where}: {dotted(key)}: {words}")
