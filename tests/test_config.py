"""Layers, values and errors of the settings."""

import json
from pathlib import Path

import pytest

from tests.places import Place
from tinyagent.config import Given, Settings, UsageError, load_settings, parse_duration
from tinyagent.core.errors import ConfigError
from tinyagent.core.limits import Limits


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_each_layer_beats_the_ones_before_it(place: Place) -> None:
    """Defaults, the user's file, the project's file, the environment, an option."""
    option = Given("step_limit", "1", "--step-limit")
    assert place.load().settings.step_limit == 0
    place.user.write_text("step_limit: 40")
    assert place.load().settings.step_limit == 40
    place.project.write_text("step_limit: 30")
    assert place.load().settings.step_limit == 30
    assert place.load(TINYAGENT_STEP_LIMIT="20").settings.step_limit == 20
    assert place.load(TINYAGENT_STEP_LIMIT="20", assignments=("step_limit=10",)).settings.step_limit == 10
    assert place.load(assignments=("step_limit=10",), options=(option,)).settings.step_limit == 1


def test_every_setting_knows_where_it_was_written(place: Place) -> None:
    place.user.write_text("# mine\nmodel: openai/gpt-5\nsandbox: bubblewrap\n")
    place.project.write_text("time_limit: 5m")
    origin = place.load(TINYAGENT_TEMPERATURE="0", options=(Given("cost_limit", "1", "--cost-limit"),)).origin
    assert origin["model"] == f"{place.user}, line 2"
    assert origin["sandbox.kind"] == f"{place.user}, line 3"
    assert origin["time_limit"] == f"{place.project}, line 1"
    assert origin["temperature"] == "TINYAGENT_TEMPERATURE"
    assert origin["cost_limit"] == "--cost-limit"
    assert origin["context.trigger_ratio"] == "default"


def test_a_named_file_is_read_in_place_of_the_users(place: Place) -> None:
    place.user.write_text("model: openai/mine\ntemperature: 1")
    other = place.user.with_name("other.yaml")
    other.write_text("model: openai/other")
    settings = load_settings(cwd=place.repo, environ=place.environ, config_file=other).settings
    assert (settings.model, settings.temperature) == ("openai/other", None)
    with pytest.raises(UsageError, match=r"missing\.yaml does not exist"):
        load_settings(cwd=place.repo, environ=place.environ, config_file=Path("missing.yaml"))


def test_a_resumed_run_keeps_its_model_unless_an_option_names_another(place: Place) -> None:
    place.user.write_text("model: openai/configured")
    earlier = [Given("model", "openai/recorded", "run 1")]
    loaded = load_settings(cwd=place.repo, environ=place.environ, earlier=earlier)
    assert loaded.settings.model == "openai/recorded"
    option = Given("model", "openai/asked", "--model")
    assert (
        load_settings(cwd=place.repo, environ=place.environ, earlier=earlier, options=[option]).settings.model
        == "openai/asked"
    )


@pytest.mark.parametrize(
    ("text", "place_and_words"),
    [
        ("model: a/b\ncontxt:\n  stages: [elide]", "line 2: contxt: there is no such setting; did you mean context?"),
        (
            "context:\n  triger_ratio: 1",
            "line 2: context.triger_ratio: there is no such setting; did you mean context.t",
        ),
        ("trigger_ratio: 0.7", "line 1: trigger_ratio: there is no such setting; did you mean context.trigger_ratio?"),
        ("xyz: 1", "line 1: xyz: there is no such setting; known here: model, base_url"),
        (
            "providers:\n  mine:\n    basurl: x",
            "line 3: providers.mine.basurl: there is no such setting; did you mean pro",
        ),
        ("model: 5", "line 1: model: a text is needed, not 5"),
        ("step_limit: many", 'line 1: step_limit: a whole number is needed, not "many"'),
        ("step_limit: 1.5", "line 1: step_limit: a whole number is needed, not 1.5"),
        ('step_limit: "5"', 'line 1: step_limit: a whole number is needed, not "5"'),
        ("step_limit: true", "line 1: step_limit: a whole number is needed, not true"),
        ("step_limit: [1]", "line 1: step_limit: a whole number is needed, not a list"),
        ("cost_limit: -1", "line 1: cost_limit: -1 is negative"),
        ("cost_limit: .nan", "line 1: cost_limit: a number is needed, not .nan"),
        ("cost_limit: .inf", "line 1: cost_limit: a number is needed, not .inf"),
        ("time_limit: soon", 'line 1: time_limit: a duration such as 90, 30s, 5m or 1h is needed, not "soon"'),
        ("context:\n  enabled: 1", "line 2: context.enabled: true or false is needed, not 1"),
        ("context:\n  stages: elide", "line 2: context.stages: a list is needed"),
        ("context:\n  stages: [elide, prun]", "context.stages: one of elide, summarize, prune is needed, not"),
        ("context: 5", "line 1: context: settings are needed below it: enabled, stages"),
        (
            "context:\n  trigger_ratio: 0.3",
            "line 2: context: 0.05 <= deep_target_ratio <= target_ratio < trigger_ratio",
        ),
        ("context:\n  protect_turns: 0", "line 2: context.protect_turns: a value above 0 is needed"),
        ("prices:\n  input_usd_per_mtok: 1", "line 2: prices: output_usd_per_mtok is needed too"),
        ("approval: maybe", 'line 1: approval: one of ask, auto, deny is needed, not "maybe"'),
        ("approval: yes", "line 1: approval: one of ask, auto, deny is needed, not yes"),
        ("model: a/b\nmodel: c/d", "line 2: model is given twice"),
        ("model: [a\nb: c", "line 2: this is not YAML: expected ',' or ']'"),
        ("model: a\n\tb: c", "line 2: this is not YAML: found character '\\t'"),
        ("- model", "line 1: settings are needed, such as"),
        ("a: 1\n---\nb: 2", "line 2: this is not YAML: but found another document"),
        (b"model: a/b\n# caf\xe9\n", "line 2: not UTF-8 (byte 16)"),
        (b"model: a\x01", "this is not YAML: unacceptable character #x0001"),
    ],
)
def test_a_mistake_is_one_sentence_with_file_line_key_and_the_right_name(
    place: Place, text: str | bytes, place_and_words: str
) -> None:
    words = place.error(text)
    assert words.startswith(str(place.user))
    assert place_and_words in words
    assert "\n" not in words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "model: !!python/object/apply:os.system [touch MARK]",
            "line 1: the tag !!python/object/apply:os.system is not",
        ),
        ("model: !!binary aGk=", "line 1: the tag !!binary is not allowed"),
        ("a: &a [*a]", "nested deeper than 12"),
        ("a: " + "[" * 5_000, "line 1: nested deeper than 12"),
        ("a: &a 1\n" + "\n".join(f"b{n}: *a" for n in range(99)), "line 22: more than 20 aliases"),
        ("# " + "x" * 300_000, "300,002 bytes are too many for settings (at most 262,144)"),
    ],
)
def test_a_hostile_file_runs_nothing_and_costs_nothing(
    place: Place, text: str, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """S38: unsafe tags, alias bombs, depth, size."""
    monkeypatch.chdir(tmp_path)
    assert words in place.error(text)
    assert not (tmp_path / "MARK").exists()


def test_a_file_that_cannot_be_read_is_said_so(place: Place) -> None:
    place.user.mkdir()
    with pytest.raises(ConfigError, match=r"config.yaml: (not a regular file|cannot be read: Is a directory)"):
        place.load()


def test_comments_empty_sections_and_a_byte_order_mark_are_fine(place: Place) -> None:
    place.user.write_bytes(b"\xef\xbb\xbf# mine\ncontext:\n  # nothing yet\nprices:\nproviders:\n")
    assert place.load().settings == Settings()


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("0", 0), ("1.5", 1.5), ("30s", 30), ("5m", 300), ("1h", 3600), ("1h30m", 5400)]
)
def test_durations_have_units(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5 m", "m", "1d", "-5", "1:30", "5m1h", "nan", "1e3"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


def test_zero_means_no_limit(place: Place) -> None:
    assert place.load().settings.limits == Limits(cost_usd=3.0)
    assert place.load(TINYAGENT_COST_LIMIT="0").settings.limits == Limits()
    limits = place.load(assignments=("step_limit=5", "time_limit=1m")).settings.limits
    assert limits == Limits(3.0, 5, 60.0)


@pytest.mark.parametrize(
    ("assignment", "key", "value"),
    [
        ("context.trigger_ratio=0.7", "trigger_ratio", 0.7),
        ("context.stages=[elide, prune]", "stages", ("elide", "prune")),
        ("context.stages=prune", "stages", ("prune",)),
        ("context.assume_window=null", "assume_window", None),
        ("context.enabled=off", "enabled", False),
        ("context.summary_model = openai/gpt-5=x", "summary_model", "openai/gpt-5=x"),
    ],
)
def test_any_setting_can_be_assigned(place: Place, assignment: str, key: str, value: object) -> None:
    assert getattr(place.load(assignments=(assignment,)).settings.context, key) == value


def test_a_whole_section_can_be_assigned(place: Place) -> None:
    settings = place.load(assignments=("providers.mine={base_url: 'http://x/v1', api: openai, local: true}",)).settings
    assert settings.providers["mine"].base_url == "http://x/v1"
    assert settings.providers["mine"].local


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("nonsense", "--set: key=value is needed, not nonsense"),
        ("contxt.stages=[]", "--set contxt.stages: there is no such setting; did you mean context?"),
        ("step_limit=-1", "--set step_limit: -1 is negative"),
        ("context.stages=[elide", "--set context.stages: this is not YAML"),
        ("prices.input_usd_per_mtok=3", "--set prices.input_usd_per_mtok: output_usd_per_mtok is needed too"),
    ],
)
def test_a_wrong_assignment_is_a_usage_error(place: Place, assignment: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        place.load(assignments=(assignment,))
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize("text", ["abc", "-1", "", "1,5", "nan", "inf", "$3"])
def test_a_limit_that_is_no_amount_is_a_usage_error(place: Place, text: str) -> None:
    with pytest.raises(UsageError, match=r"^--cost-limit: "):
        place.load(options=(Given("cost_limit", text, "--cost-limit"),))


@pytest.mark.parametrize(
    ("variable", "text", "key", "value"),
    [
        ("TINYAGENT_MODEL", "openai/x", "model", "openai/x"),
        ("TINYAGENT_MAX_BUDGET_USD", "0.5", "cost_limit", 0.5),
        ("TINYAGENT_MAX_TURNS", "7", "step_limit", 7),
        ("TINYAGENT_TIME_LIMIT", "2m", "time_limit", 120.0),
        ("TINYAGENT_YOLO", "1", "approval", "auto"),
        ("TINYAGENT_MODEL", "", "model", None),
        ("TINYAGENT_YOLO", "0", "approval", "ask"),
    ],
)
def test_variables_are_named_after_options(place: Place, variable: str, text: str, key: str, value: object) -> None:
    assert getattr(place.load_with({variable: text}).settings, key) == value


def test_no_compact_and_sandbox_have_variables_too(place: Place) -> None:
    settings = place.load(TINYAGENT_NO_COMPACT="1", TINYAGENT_SANDBOX="podman").settings
    assert not settings.context.enabled
    assert settings.sandbox.kind == "podman"


def test_a_variable_with_a_slip_is_noticed(place: Place) -> None:
    assert place.load(TINYAGENT_MODLE="x").notices == (
        "TINYAGENT_MODLE is ignored: nothing reads it; did you mean TINYAGENT_MODEL?",
    )


def test_a_wrong_variable_is_no_usage_error(place: Place) -> None:
    with pytest.raises(ConfigError, match=r"^TINYAGENT_COST_LIMIT: a number is needed, not much$") as caught:
        place.load(TINYAGENT_COST_LIMIT="much")
    assert not isinstance(caught.value, UsageError)


def test_the_record_of_settings_is_json_without_secrets(place: Place) -> None:
    """S43: credentials are masked everywhere."""
    place.user.write_text(
        "base_url: http://me:hunter2@host/v1\n"
        "providers: {mine: {base_url: 'https://k3y@host', headers: {X-Key: hunter2}}}\n"
    )
    text = json.dumps(place.load().settings.public())
    assert "hunter2" not in text
    assert "k3y" not in text
    assert "http://***@host/v1" in text
    assert json.loads(text)["context"]["stages"] == ["elide", "summarize", "prune"]
