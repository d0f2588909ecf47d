"""Checks a call's arguments against its tool's JSON schema.

A subset is enough for our own schemas: type, properties, required, additionalProperties, items, enum, minimum, maximum,
minLength, maxLength, minItems, maxItems. The package `jsonschema` 4.26 would do it too, for 150 ms of import.
"""

from difflib import get_close_matches
from typing import Any, cast

from tinyagent.core.types import Json

_WORDS: dict[str, str] = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
}


def problems(value: object, schema: Json, *, where: str = "") -> list[str]:
    """Sentences that say what is wrong and where; empty if the value fits.

    5.0 is taken as a whole number, "5" is not. `where` names the value inside the arguments, "" is all of them.
    """
    name = f"`{where}`" if where else "the arguments"
    kind = str(schema.get("type", ""))
    if kind and not _is(value, kind):
        return [f"{name} must be {_WORDS[kind]}, not {_shown(value)}"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{name} must be one of {', '.join(map(str, schema['enum']))}, not {_shown(value)}"]
    match value:
        case dict():
            return _object_problems(cast(Json, value), schema, where)
        case list():
            items: Json = schema.get("items", {})
            rows = cast("list[object]", value)
            found = [p for i, row in enumerate(rows) for p in problems(row, items, where=f"{where}[{i}]")]
            return _size_problems(name, len(rows), schema, "minItems", "maxItems", " long") + found
        case str():
            return _size_problems(name, len(value), schema, "minLength", "maxLength", " characters long")
        case int() | float():
            return _size_problems(name, value, schema, "minimum", "maximum", "")
        case _:
            return []


def _object_problems(value: Json, schema: Json, where: str) -> list[str]:
    known: Json = schema.get("properties", {})
    prefix = f"{where}." if where else ""
    found = [f"`{prefix}{key}` is missing" for key in schema.get("required", []) if key not in value]
    for key, item in value.items():
        if key in known:
            found += problems(item, known[key], where=prefix + key)
        elif schema.get("additionalProperties") is False:
            near = get_close_matches(key, known, n=1)
            found.append(f"`{prefix}{key[:80]}` is not an argument" + (f"; did you mean `{near[0]}`?" if near else ""))
    return found


def _size_problems(name: str, size: float, schema: Json, least: str, most: str, unit: str) -> list[str]:
    if least in schema and size < schema[least]:
        return [f"{name} must be at least {schema[least]}{unit}, not {size}"]
    if most in schema and size > schema[most]:
        return [f"{name} must be at most {schema[most]}{unit}, not {size}"]
    return []


def _is(value: object, kind: str) -> bool:
    match value:
        case bool():  # before int: True is an int in Python, not in JSON
            return kind == "boolean"
        case int():
            return kind in ("integer", "number")
        case float():
            return kind == "number" or (kind == "integer" and value.is_integer())
        case str():
            return kind == "string"
        case list():
            return kind == "array"
        case dict():
            return kind == "object"
        case _:
            return False


def _shown(value: Any) -> str:
    match value:
        case None:
            return "null"
        case dict():
            return "an object"
        case list():
            return "a list"
        case bool():
            return str(value).lower()
        case str():
            return repr(value if len(value) <= 60 else value[:60] + "...")
        case _:
            return str(value)[:60]
