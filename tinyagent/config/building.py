"""Typed values put together to the settings they are part of, and taken apart again."""

import dataclasses
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from tinyagent.config.schema import Settings
from tinyagent.config.shape import hints, is_required, section_of
from tinyagent.config.values import Key, Setting, Values, fault
from tinyagent.core.errors import ConfigError


def build_settings(values: Values) -> Settings:
    """The settings with these values, defaults elsewhere. Raises ConfigError for what does not go together."""
    return typing.cast("Settings", _build(Settings, values, ()))


def all_settings(settings: Settings) -> Values:
    """Every key with its value, in the order of the schema; "default" stands for where it was written."""
    return {key: Setting(value, "default") for key, value in _leaves(settings, ())}


def _build(cls: type, values: Values, at: Key) -> object:
    """One section from the values that were given below it, at least one."""
    types = hints(cls)
    given = {name: _built(types[name], _below(values, name), (*at, name)) for name in _first_names(values)}
    where = next(reversed(values.values())).where if values else ""
    if missing := [f.name for f in dataclasses.fields(cls) if is_required(f) and f.name not in given]:
        raise fault(where, at, f"{' and '.join(missing)} is needed too")
    try:
        return cls(**given)
    except ConfigError as error:  # values that do not go together
        raise fault(where, (), str(error)) from error


def _built(hint: Any, values: Values, at: Key) -> object:
    if () in values:
        return values[()].value
    section = section_of(hint)
    if section is not None:
        return _build(section, values, at)
    (_, element) = typing.get_args(hint)
    return {name: _built(element, _below(values, name), (*at, name)) for name in _first_names(values)}


def _below(values: Values, name: str) -> Values:
    return {key[1:]: setting for key, setting in values.items() if key[0] == name}


def _first_names(values: Values) -> list[str]:
    return list(dict.fromkeys(key[0] for key in values))


def _leaves(value: object, at: Key) -> Iterator[tuple[Key, object]]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _leaves(getattr(value, field.name), (*at, field.name))
    elif isinstance(value, Mapping):
        for name, item in typing.cast("Mapping[str, object]", value).items():
            yield from _leaves(item, (*at, name))
    else:
        yield at, value
