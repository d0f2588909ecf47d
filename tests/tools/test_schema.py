"""Arguments against a tool's schema."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagent.tools import BUILTIN
from tinyagent.tools.schema import problems

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "maxLength": 9},
        "limit": {"type": "integer", "minimum": 1, "maximum": 10},
        "deep": {"type": "boolean"},
        "rows": {
            "type": "array",
            "maxItems": 2,
            "items": {"type": "object", "properties": {"kind": {"enum": ["a", "b"]}}, "required": ["kind"]},
        },
    },
    "required": ["path"],
    "additionalProperties": False,
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("arguments", "sentences"),
    [
        ({"path": "a"}, []),
        ({"path": "a", "limit": 5.0}, []),
        ({}, ["`path` is missing"]),
        ({"path": 5}, ["`path` must be a string, not 5"]),
        ({"path": None}, ["`path` must be a string, not null"]),
        ({"path": ["a"]}, ["`path` must be a string, not a list"]),
        ({"path": "a" * 10}, ["`path` must be at most 9 characters long, not 10"]),
        ({"path": "a", "limit": "5"}, ["`limit` must be a whole number, not '5'"]),
        ({"path": "a", "limit": 1.5}, ["`limit` must be a whole number, not 1.5"]),
        ({"path": "a", "limit": True}, ["`limit` must be a whole number, not true"]),
        ({"path": "a", "limit": 0}, ["`limit` must be at least 1, not 0"]),
        ({"path": "a", "limit": 11}, ["`limit` must be at most 10, not 11"]),
        ({"path": "a", "deep": 1}, ["`deep` must be true or false, not 1"]),
        ({"pth": "a"}, ["`path` is missing", "`pth` is not an argument; did you mean `path`?"]),
        ({"path": "a", "zzzzzz": 1}, ["`zzzzzz` is not an argument"]),
        ({"path": "a", "rows": [{"kind": "a"}, {"kind": "c"}]}, ["`rows[1].kind` must be one of a, b, not 'c'"]),
        ({"path": "a", "rows": [{}]}, ["`rows[0].kind` is missing"]),
        ({"path": "a", "rows": [{"kind": "a"}] * 3}, ["`rows` must be at most 2 long, not 3"]),
    ],
)
def test_a_fault_is_told_with_the_name_of_its_field(arguments, sentences):
    """R56 claude-code 2.1.229: `path: 5`, a list, null."""
    assert problems(arguments, SCHEMA) == sentences


@given(st.sampled_from(list(BUILTIN.values())), JSON)
def test_no_value_crashes_the_check(tool, value):
    assert all(isinstance(sentence, str) for sentence in problems(value, tool.parameters))


def test_a_huge_value_is_not_quoted_whole():
    (sentence,) = problems({"path": "a", "limit": "5" * 100_000}, SCHEMA)
    assert len(sentence) < 200
