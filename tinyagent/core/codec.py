"""Frozen dataclasses to JSON and back, by their type hints. Fields at their default are left out."""

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tinyagent.core.types import AssistantMessage, Json, ToolMessage, UserMessage

T = TypeVar("T")
Decoder = Callable[[Any], Any]

# The only union of dataclasses that is written to files; its members are told apart by this tag.
ROLES: dict[type, str] = {UserMessage: "user", AssistantMessage: "assistant", ToolMessage: "tool"}
_SCALARS = frozenset({str, int, float, bool, type(None)})
_PLAIN: dict[Any, Any] = {int: int, float: (int, float), str: str, bool: bool}
_CLASSES: dict[str, type] = {role: cls for cls, role in ROLES.items()}


def encode(value: object) -> Any:
    """Plain JSON values for a dataclass, and for whatever it contains."""
    if type(value) in _SCALARS:
        return value
    if fields := _fields(type(value)):
        tag: Json = {"role": ROLES[type(value)]} if type(value) in ROLES else {}
        return tag | {f.name: encode(getattr(value, f.name)) for f in fields if _is_set(value, f)}
    if isinstance(value, Mapping):
        return {str(k): encode(v) for k, v in typing.cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, tuple | list):
        return [encode(v) for v in typing.cast("list[Any]", value)]
    return value


def decode(cls: type[T], data: Any) -> T:
    """The dataclass for JSON values that `encode` made. Raises KeyError, TypeError or ValueError on anything else.

    Unknown fields are ignored, so that files of a newer version with added fields can be read.
    """
    return _decoder(cls)(data)


def _is_set(value: Any, field: "dataclasses.Field[Any]") -> bool:
    current = getattr(value, field.name)
    if field.default is not dataclasses.MISSING:
        # bool is an int: 0 == False would hide a field whose type changed its mind
        return current != field.default or type(current) is not type(field.default)
    if field.default_factory is not dataclasses.MISSING:
        return bool(current)
    return True


@functools.cache
def _fields(cls: type) -> "tuple[dataclasses.Field[Any], ...]":
    """The fields of a dataclass; none of any other type."""
    return dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()


@functools.cache
def _decoder(hint: Any) -> Decoder:
    """What reads a value of this type hint. Made once for each: looking at hints takes longer than at values."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return _union_decoder(typing.get_args(hint))
    if origin is tuple:
        return _tuple_decoder(typing.get_args(hint)[0])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, inner = typing.get_args(hint)
        read = _decoder(inner)
        return lambda data: {key(k): read(v) for k, v in data.items()}
    if dataclasses.is_dataclass(hint):
        return _dataclass_decoder(typing.cast("type[Any]", hint))
    wanted = _PLAIN.get(hint)
    return _as_it_is if wanted is None else _plain_decoder(hint, wanted)


def _union_decoder(members: tuple[Any, ...]) -> Decoder:
    first, *rest = [m for m in members if m is not type(None)]
    roles = bool(rest) and dataclasses.is_dataclass(first)
    read = _decoder(first)

    def decode_union(data: Any) -> Any:
        if data is None:
            if type(None) in members:
                return None
            raise TypeError("a value is needed, not null")
        return _decoder(_CLASSES[data["role"]])(data) if roles else read(data)

    return decode_union


def _tuple_decoder(inner: Any) -> Decoder:
    read = _decoder(inner)

    def decode_tuple(data: Any) -> Any:
        if not isinstance(data, list):
            raise TypeError(f"a list is needed, not {type(data).__name__}")
        return tuple([read(item) for item in typing.cast("list[Any]", data)])

    return decode_tuple


def _dataclass_decoder(cls: type[Any]) -> Decoder:
    fields = {name: _decoder(hint) for name, hint in typing.get_type_hints(cls).items()}

    def decode_dataclass(data: Any) -> Any:
        if not isinstance(data, dict):
            raise TypeError(f"{cls.__name__} needs an object, not {type(data).__name__}")
        items = typing.cast("Json", data).items()
        return cls(**{name: fields[name](value) for name, value in items if name in fields})

    return decode_dataclass


def _plain_decoder(hint: type, wanted: Any) -> Decoder:
    def decode_plain(data: Any) -> Any:
        if type(data) is hint:
            return data
        if not isinstance(data, wanted) or isinstance(data, bool):
            raise TypeError(f"{hint.__name__} is needed, not {data!r:.80}")
        return data

    return decode_plain


def _as_it_is(data: Any) -> Any:
    return data
