import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagent.core.types import ToolCall
from tinyagent.models.payload import (
    as_count,
    dump,
    dump_text,
    legal_id,
    legal_name,
    load,
    read_call,
    sent_arguments,
    with_unique_ids,
)

UNREADABLE = [
    ("", "the arguments are empty"),
    ("  ", "the arguments are empty"),
    ('{"command": "ls', "not valid JSON"),
    ('{"command": ', "not valid JSON"),
    ("ls -la", "not valid JSON"),
    ('{"a": 1} {"b": 2}', "not valid JSON"),
    ('{"n": NaN}', "not valid JSON"),
    ('["ls"]', "not a JSON object"),
    ('"ls"', "not a JSON object"),
    ("null", "not a JSON object"),
    ("5", "not a JSON object"),
    ("[" * 100_000, "nested too deeply"),
    ('{"n": ' + "9" * 5000 + "}", "not valid JSON"),
]


@pytest.mark.parametrize(("raw", "problem"), UNREADABLE)
def test_arguments_that_are_no_object_become_a_problem_and_are_never_repaired(raw: str, problem: str) -> None:
    """R47 hermes-agent#35151, crush#2858: a cut call was run with {}."""
    call = read_call("c1", "bash", raw)
    assert call.arguments is None
    assert problem in call.problem
    assert call.raw == raw


@pytest.mark.parametrize("depth", [101, 400, 990])
def test_arguments_that_could_not_be_written_again_are_refused_when_they_are_read(depth: int) -> None:
    value: dict[str, object] = {}
    for _ in range(depth):
        value = {"a": value}
    assert read_call("c1", "bash", value).problem == "the arguments are nested too deeply"


def test_arguments_cut_by_the_output_limit_say_so() -> None:
    assert read_call("c1", "bash", '{"command": "ls', cut=True).problem == "cut"


def test_raw_control_characters_in_strings_are_read_as_they_stand() -> None:
    """R50, a changelog of kimi."""
    assert read_call("c1", "bash", '{"command": "a\nb\tc"}').arguments == {"command": "a\nb\tc"}


@pytest.mark.parametrize("arguments", [{"command": "ls"}, '{"command": "ls"}'])
def test_arguments_may_come_as_an_object_or_as_text(arguments: object) -> None:
    """R52: local servers."""
    assert read_call("c1", "bash", arguments) == ToolCall("c1", "bash", {"command": "ls"})


def test_an_unreadable_call_goes_back_as_a_valid_object() -> None:
    """R49 claude-code#45286: a bad call in the history made every later request a 400."""
    sent = sent_arguments(read_call("c1", "bash", "x" * 9000))
    assert sent == {"unreadable_arguments": "x" * 500}


@given(st.lists(st.sampled_from(["", "a", "a_2", "call", "call_2"]), max_size=8))
def test_ids_of_one_reply_are_present_and_differ_and_good_ones_stay(ids: list[str]) -> None:
    calls = with_unique_ids([ToolCall(call_id, "bash", {}) for call_id in ids])
    now = [call.id for call in calls]
    assert all(now)
    assert len(set(now)) == len(now)
    assert all(new == old for new, old in zip(now, ids, strict=True) if old and ids.count(old) == 1)


@given(st.text(max_size=100), st.text(max_size=100))
def test_ids_are_made_legal_without_meeting(first: str, second: str) -> None:
    for text in (first, second):
        assert legal_id(text) == legal_id(text)
        assert 0 < len(legal_id(text)) <= 64
        assert legal_id(text).replace("_", "").replace("-", "").isalnum() or set(legal_id(text)) <= set("_-")
        assert legal_id(text).isascii()
    assert (legal_id(first) == legal_id(second)) == (first == second)


@pytest.mark.parametrize(("name", "legal"), [("bash", "bash"), ("functions.bash", "functions_bash"), ("", "unnamed")])
def test_tool_names_that_the_model_made_up_can_be_sent_back(name: str, legal: str) -> None:
    assert legal_name(name) == legal


def test_json_is_written_in_utf_8_with_lone_surrogates_replaced() -> None:
    assert dump({"b": "é\ud800", "a": 1}) == '{"b":"é?","a":1}'.encode()


@given(st.text(st.characters(exclude_categories=())))
def test_a_text_is_written_as_any_value_is(text: str) -> None:
    assert dump_text(text) == dump(text)


@given(
    st.dictionaries(
        st.text(), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5)
    )
)
def test_what_is_written_reads_back(value: dict[str, object]) -> None:
    expected = json.loads(json.dumps(value).encode())
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return  # surrogates are replaced, see above
    assert load(dump(value)) == expected


@pytest.mark.parametrize("value", [None, True, "12", -1, 0, float("nan"), float("inf"), [3], {}])
def test_a_token_count_that_cannot_be_one_is_0(value: object) -> None:
    assert as_count(value) == 0
