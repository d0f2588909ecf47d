"""Frozen dataclasses to JSON and back, by their type hints. Fields at their default are left out."""

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from tinyagent.core.types import AssistantMessage, Json, ToolMessage, UserMessage

T = TypeVar("T")

# The only union of dataclasses that is written to files; its members are told apart by this tag.
ROLES: dict[type, str] = {UserMessage: "user", AssistantMessage: "assistant", ToolMessage: "tool"}
_PLAIN: dict[Any, Any] = {int: int, float: (int, float), str: str, bool: bool}
_CLASSES: dict[str, type] = {role: cls for cls, role in ROLES.items()}


def encode(value: Any) -> Any:
    """Plain JSON values for a dataclass, and for whatever it contains."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        tag: Json = {"role": ROLES[type(value)]} if type(value) in ROLES else {}
        return tag | {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value) if _is_set(value, f)}
    if isinstance(value, Mapping):
        return {str(k): encode(v) for k, v in typing.cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, tuple | list):
        return [encode(v) for v in typing.cast("list[Any]", value)]
    return value


def decode(cls: type[T], data: Any) -> T:
    """The dataclass for JSON values that `encode` made. Raises KeyError, TypeError or ValueError on anything else.

    Unknown fields are ignored, so that files of a newer version with added fields can be read.
    """
    return _build(cls, data)


def _is_set(value: Any, field: "dataclasses.Field[Any]") -> bool:
    current = getattr(value, field.name)
    if field.default is not dataclasses.MISSING:
        # bool is an int: 0 == False would hide a field whose type changed its mind
        return current != field.default or type(current) is not type(field.default)
    if field.default_factory is not dataclasses.MISSING:
        return bool(current)
    return True


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _build(hint: Any, data: Any) -> Any:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return _build_union(typing.get_args(hint), data)
    if origin is tuple:
        (inner, *_) = typing.get_args(hint)
        if not isinstance(data, list):
            raise TypeError(f"a list is needed, not {type(data).__name__}")
        return tuple(_build(inner, item) for item in typing.cast("list[Any]", data))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, inner = typing.get_args(hint)
        return {key(k): _build(inner, v) for k, v in data.items()}
    if dataclasses.is_dataclass(hint):
        return _build_dataclass(typing.cast("type[Any]", hint), data)
    return _plain(hint, data)


def _build_union(members: tuple[Any, ...], data: Any) -> Any:
    if data is None:
        if type(None) in members:
            return None
        raise TypeError("a value is needed, not null")
    first, *rest = [m for m in members if m is not type(None)]
    if rest and dataclasses.is_dataclass(first):
        return _build_dataclass(_CLASSES[data["role"]], data)
    return _build(first, data)


def _build_dataclass(cls: type[Any], data: Any) -> Any:
    if not isinstance(data, dict):
        raise TypeError(f"{cls.__name__} needs an object, not {type(data).__name__}")
    hints = _hints(cls)
    return cls(**{name: _build(hints[name], data[name]) for name in hints if name in data})


def _plain(hint: Any, data: Any) -> Any:
    wanted = _PLAIN.get(hint)
    if wanted is not None and (not isinstance(data, wanted) or (hint is not bool and isinstance(data, bool))):
        raise TypeError(f"{hint.__name__} is needed, not {data!r:.80}")
    return data
