"""A YAML file as tables with line numbers. Nothing is constructed, so no tag can run anything."""

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from tinyagent.config.values import Items, Raw, Scalar, ScalarType, Table, fault, place
from tinyagent.core.errors import ConfigError

if TYPE_CHECKING:
    from yaml.nodes import MappingNode, Node

MAX_BYTES = 262_144
MAX_DEPTH = 12
MAX_ALIASES = 20  # a few are handy, a bomb needs nine levels of nine


class _Mark(Protocol):
    """A place in a text; PyYAML has one class for it in Python and one in C."""

    @property
    def line(self) -> int: ...


_STANDARD = "tag:yaml.org,2002:"


def read_yaml_file(path: Path) -> Table:
    """The file's content. Raises ConfigError with path, line and one sentence, whatever is wrong with it."""
    return parse_yaml(_read_text(path), name=str(path))


def parse_yaml(text: str, *, name: str) -> Table:
    """The mapping in a YAML text; `name` stands for it in messages."""
    raw = parse_yaml_value(text, name=name)
    if isinstance(raw, Scalar) and raw.type == "null":
        return Table({}, raw.where)
    if not isinstance(raw, Table):
        raise fault(raw.where, (), "settings are needed, such as `model: openai/gpt-5`")
    return raw


def parse_yaml_value(text: str, *, name: str) -> Raw:
    """Any value in a YAML text."""
    import yaml

    try:
        _check_size(text, name)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        where = place(name, _line(error.problem_mark or error.context_mark))
        raise fault(where, (), f"this is not YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:  # the reader's: a character that no text may hold
        raise fault(name, (), f"this is not YAML: {' '.join(str(error).split())}") from error
    return Scalar("", "null", name) if node is None else _raw(node, name)


def _line(mark: _Mark | None) -> int | None:
    return None if mark is None else mark.line + 1


def _read_text(path: Path) -> str:
    """The text of a regular file of sane size; a FIFO or device is never waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ConfigError(f"{path}: not a regular file")
            if status.st_size > MAX_BYTES:
                raise ConfigError(f"{path}: {status.st_size:,} bytes are too many for settings (at most {MAX_BYTES:,})")
            data = file.read(MAX_BYTES)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line}: not UTF-8 (byte {error.start})") from error


def _check_size(text: str, name: str) -> None:
    """Refuse what would take for ever or overflow the stack, from the flat list of events."""
    import yaml

    depth = aliases = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.AliasEvent):
            aliases += 1
        if depth > MAX_DEPTH or aliases > MAX_ALIASES:
            what = f"nested deeper than {MAX_DEPTH}" if depth > MAX_DEPTH else f"more than {MAX_ALIASES} aliases"
            raise fault(place(name, _line(event.start_mark)), (), what)


def _raw(node: "Node", name: str, depth: int = 0, where: str = "") -> Raw:
    """The value of a node; `where` is the place of its name, which may be lines above it."""
    from yaml.nodes import MappingNode, ScalarNode, SequenceNode

    where = where or place(name, _line(node.start_mark))
    if depth > MAX_DEPTH:  # an alias may point to what holds it
        raise fault(where, (), f"nested deeper than {MAX_DEPTH}")
    if not node.tag.startswith(_STANDARD) or node.tag.removeprefix(_STANDARD) not in _KNOWN_TAGS:
        raise fault(where, (), f"the tag {node.tag.replace(_STANDARD, '!!')} is not allowed")
    match node:
        case MappingNode():
            return Table(_entries(node, name, depth), where)
        case SequenceNode():
            return Items(tuple(_raw(item, name, depth + 1) for item in cast("list[Node]", node.value)), where)
        case ScalarNode():
            return Scalar(node.value, _KNOWN_TAGS[node.tag.removeprefix(_STANDARD)], where)
        case _:
            raise fault(where, (), "this cannot be read")


def _entries(node: "MappingNode", name: str, depth: int) -> dict[str, Raw]:
    from yaml.nodes import ScalarNode

    entries: dict[str, Raw] = {}
    for key, value in cast("list[tuple[Node, Node]]", node.value):
        where = place(name, _line(key.start_mark))
        if not isinstance(key, ScalarNode):
            raise fault(where, (), "a name is needed before the colon")
        if key.value in entries:
            raise fault(where, (), f"{key.value} is given twice")
        entries[key.value] = _raw(value, name, depth + 1, where)
    return entries


# Dates and the rest stay what they look like: texts.
_KNOWN_TAGS: dict[str, ScalarType] = {
    "str": "str",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "null": "null",
    "timestamp": "str",
    "value": "str",
    "map": "str",
    "seq": "str",
}
