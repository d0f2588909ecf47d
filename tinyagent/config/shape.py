"""The shape of the schema: which settings there are, found from the type hints of its dataclasses."""

import dataclasses
import functools
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from tinyagent.config.schema import Settings
from tinyagent.config.values import Key, dotted


def setting_names() -> list[str]:
    """The dotted names of all settings; a provider's stand under `providers.NAME`."""
    return [dotted(key) for key in _names(Settings, ())]


@functools.cache
def hints(cls: type) -> dict[str, Any]:
    """The fields of a section with their types."""
    return typing.get_type_hints(cls)


def without_none(hint: Any) -> tuple[Any, bool]:
    """The hint without None, and whether None is allowed."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint, False
    (plain,) = [member for member in typing.get_args(hint) if member is not types.NoneType]
    return plain, True


def section_of(hint: Any) -> type | None:
    """The dataclass of a hint that stands for a section."""
    plain, _ = without_none(hint)
    return plain if dataclasses.is_dataclass(plain) and isinstance(plain, type) else None


def is_required(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _names(cls: type, at: Key) -> Iterator[Key]:
    for name, hint in hints(cls).items():
        inner = hint
        key = (*at, name)
        if typing.get_origin(hint) is Mapping and section_of(typing.get_args(hint)[1]) is not None:
            inner, key = typing.get_args(hint)[1], (*key, "NAME")
        section = section_of(inner)
        if section is None:
            yield key
        else:
            yield from _names(section, key)
