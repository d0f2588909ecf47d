"""The rows of a task file with the place of each: JSON lines, a JSON list, or YAML."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from tinyagent.core.errors import ConfigError


def read_rows(path: Path, text: str) -> Iterator[tuple[str, object]]:
    """Each row with the place it stands at. Raises ConfigError that names it."""
    if path.suffix in (".yaml", ".yml"):
        yield from _yaml_rows(path, text)
    elif text.lstrip().startswith("["):
        yield from _list_rows(path, text)
    else:
        for number, line in enumerate(text.split("\n"), 1):  # not splitlines(): JSON may hold U+2028
            if line.strip():
                yield f"{path}:{number}", _json(line, f"{path}:{number}")


def _json(text: str, where: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: this is not JSON: {error}") from error


def _list_rows(path: Path, text: str) -> Iterator[tuple[str, object]]:
    rows = _json(text, str(path))
    for number, row in enumerate(cast("list[object]", rows), 1):
        yield f"{path}: item {number}", row


def _yaml_rows(path: Path, text: str) -> Iterator[tuple[str, object]]:
    import yaml

    loader = yaml.SafeLoader(text)
    try:
        node: Any = loader.get_single_node()
        if isinstance(node, yaml.MappingNode):  # `tasks:` above the list
            node = next((value for key, value in node.value if key.value == "tasks"), node)
        if not isinstance(node, yaml.SequenceNode):
            raise ConfigError(f"{path}: a list of tasks is needed")
        construct = cast("Callable[..., object]", loader.construct_object)  # pyright: ignore[reportUnknownMemberType]
        for item in cast("list[yaml.Node]", node.value):
            yield f"{path}:{item.start_mark.line + 1}", construct(item, deep=True)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark else str(path)
        raise ConfigError(f"{place}: this is not YAML: {getattr(error, 'problem', None) or error}") from error
    finally:
        loader.dispose()
