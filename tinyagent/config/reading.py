"""From words of a file, a variable or an option to typed values, along the dataclasses of `schema.py`."""

import math
import re
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from tinyagent.config.schema import AT_LEAST_ONE, DURATIONS, SHORT_FORMS, Settings
from tinyagent.config.shape import hints, section_of, setting_names, without_none
from tinyagent.config.values import Items, Key, Raw, Scalar, Setting, Table, Values, did_you_mean, dotted, fault


def read_values(table: Table) -> Values:
    """The settings in a table. Raises ConfigError that names place, key, and the nearest right name."""
    return dict(_fields(table, Settings, ()))


def table_for(key: str, raw: Raw) -> Table:
    """The table that sets one dotted key."""
    *outer, last = key.split(".")
    table = Table({last: raw}, raw.where)
    for name in reversed(outer):
        table = Table({name: table}, raw.where)
    return table


def parse_duration(text: str) -> float:
    """Seconds in "90", "1.5", "30s", "5m", "1h30m". Raises ValueError."""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    if not text or re.fullmatch(r"(\d+(\.\d+)?h)?(\d+(\.\d+)?m)?(\d+(\.\d+)?s)?", text) is None:
        raise ValueError("a duration such as 90, 30s, 5m or 1h is needed")
    factors = {"h": 3600.0, "m": 60.0, "s": 1.0}
    return sum(float(number) * factors[unit] for number, unit in re.findall(r"([\d.]+)([hms])", text))


def _fields(raw: Raw, cls: type, at: Key) -> Iterator[tuple[Key, Setting]]:
    """The settings of one section."""
    if isinstance(raw, Scalar) and raw.type == "null":
        return  # a section whose lines are all comments
    if isinstance(raw, Scalar) and dotted(at) in SHORT_FORMS:
        raw = Table({SHORT_FORMS[dotted(at)]: raw}, raw.where)
    if not isinstance(raw, Table):
        raise fault(raw.where, at, f"settings are needed below it: {', '.join(hints(cls))}")
    for name, value in raw.entries.items():
        key = (*at, name)
        if name not in hints(cls):
            raise fault(value.where, key, f"there is no such setting{_nearest(key, cls)}")
        yield from _setting(value, hints(cls)[name], key)


def _setting(raw: Raw, hint: Any, key: Key) -> Iterator[tuple[Key, Setting]]:
    section = section_of(hint)
    if section is not None:
        yield from _fields(raw, section, key)
    elif typing.get_origin(hint) is Mapping:
        yield from _entries(raw, typing.get_args(hint)[1], key)
    else:
        yield key, Setting(_value(raw, hint, key), raw.where)


def _entries(raw: Raw, hint: Any, key: Key) -> Iterator[tuple[Key, Setting]]:
    """The settings of a section whose names are free, such as `providers`."""
    if isinstance(raw, Scalar) and raw.type == "null":
        return
    if not isinstance(raw, Table):
        raise fault(raw.where, key, "names with values are needed below it")
    for name, value in raw.entries.items():
        yield from _setting(value, hint, (*key, name))


def _value(raw: Raw, hint: Any, key: Key) -> object:
    """One typed value. Raises ConfigError in terms of what was written."""
    plain, optional = without_none(hint)
    if typing.get_origin(plain) is tuple:
        return _list(raw, typing.get_args(plain)[0], key)
    if not isinstance(raw, Scalar):
        raise fault(
            raw.where, key, f"{_needed(plain, key)} is needed, not {'a list' if isinstance(raw, Items) else 'settings'}"
        )
    if optional and (raw.type == "null" or (raw.type == "word" and raw.text in ("", "null", "none"))):
        return None
    try:
        value = _scalar(raw, plain, key)
    except ValueError as error:
        raise fault(raw.where, key, f"{_needed(plain, key)} is needed, not {_quoted(raw)}") from error
    if isinstance(value, float | int) and (words := _out_of_range(value, key)):
        raise fault(raw.where, key, words)
    return value


def _list(raw: Raw, hint: Any, key: Key) -> tuple[object, ...]:
    match raw:
        case Items():
            return tuple(_value(item, hint, key) for item in raw.items)
        case Scalar(type="word"):
            words = [word.strip() for word in raw.text.split(",")]
            return tuple(_value(Scalar(word, "word", raw.where), hint, key) for word in words if word)
        case _:
            raise fault(raw.where, key, "a list is needed")


def _scalar(raw: Scalar, hint: Any, key: Key) -> object:
    """The value of one scalar. Raises ValueError if the type is wrong."""
    if typing.get_origin(hint) is Literal:
        if raw.text in typing.get_args(hint):
            return raw.text
    elif dotted(key) in DURATIONS:
        return parse_duration(raw.text)
    elif hint is bool:
        return _truth(raw)
    elif hint is int and raw.type in ("int", "word"):
        return int(raw.text)
    elif hint is float and raw.type in ("int", "float", "word"):
        return float(raw.text)
    elif hint is str and raw.type in ("str", "word"):
        return raw.text
    raise ValueError


def _truth(raw: Scalar) -> bool:
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    if raw.type == "word":
        words |= {"1": True, "0": False}
    if raw.type not in ("bool", "word") or raw.text.lower() not in words:
        raise ValueError
    return words[raw.text.lower()]


def _out_of_range(number: float, key: Key) -> str:
    """What is wrong with a number of the right type; "" if nothing is."""
    if not math.isfinite(number):
        return "a number is needed"
    if number < 0:
        return f"{number:g} is negative"
    if not number and dotted(key) in AT_LEAST_ONE:
        return "a value above 0 is needed"
    return ""


def _needed(hint: Any, key: Key) -> str:
    if typing.get_origin(hint) is Literal:
        return f"one of {', '.join(typing.get_args(hint))}"
    if dotted(key) in DURATIONS:
        return "a duration such as 90, 30s, 5m or 1h"
    return {int: "a whole number", float: "a number", bool: "true or false"}.get(hint, "a text")


def _quoted(raw: Scalar) -> str:
    text = raw.text if len(raw.text) <= 60 else raw.text[:60] + "..."
    return f'"{text}"' if raw.type == "str" else (text or "nothing")


def _nearest(key: Key, cls: type) -> str:
    """A hint at the name that was meant: of this section, or of another one."""
    here = {name: dotted((*key[:-1], name)) for name in hints(cls)}
    anywhere = {name.rpartition(".")[2]: name for name in setting_names()}
    meant = did_you_mean(key[-1], here) or did_you_mean(key[-1], anywhere, cutoff=0.8)
    return meant or f"; known here: {', '.join(here)}"
