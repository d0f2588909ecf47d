"""What the documents say of settings and options is what the program does."""

import re
from pathlib import Path

import pytest

from tests.update_docs import DOCUMENTS, ROOT, names, updated
from tinyagent.cli.app import COMMANDS
from tinyagent.config import Settings
from tinyagent.config.building import build_settings
from tinyagent.config.reading import read_values
from tinyagent.config.shape import setting_names
from tinyagent.config.values import Values, dotted
from tinyagent.config.yaml_file import parse_yaml

EXAMPLE = ROOT / "config.example.yaml"


def test_the_example_config_holds_the_defaults() -> None:
    assert build_settings(read_values(parse_yaml(EXAMPLE.read_text(), name="example"))) == Settings()


def test_the_example_config_names_every_setting() -> None:
    text = EXAMPLE.read_text()
    named = {re.sub(r"^providers\.mine\.", "providers.NAME.", key) for key in _keys(_with_commented_lines(text))}
    named = {key.removesuffix(".X-Team") for key in named}
    # a provider's prices have the form of the prices above
    assert _without_inner_prices(named) == _without_inner_prices(set(setting_names()))


def test_the_example_config_marks_what_a_project_may_not_set() -> None:
    from tinyagent.config.project import REFUSED

    lines = EXAMPLE.read_text().splitlines()
    for key in REFUSED:
        at = next(n for n, line in enumerate(lines) if re.match(rf"\s*{key[-1]}:", line))
        above = next(n for n in range(at, -1, -1) if not lines[n].strip() or n == 0)
        assert any("[yours]" in line for line in lines[max(0, above - 1) : at + 1]), f"{dotted(key)} is not marked"


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if path.exists()], ids=lambda path: str(path.parent.name))
def test_help_texts_are_current(path: Path) -> None:
    """After a change: `python -m tests.update_docs`."""
    text = path.read_text()
    assert updated(text) == text


def test_the_command_lines_readme_has_the_help_of_every_command() -> None:
    assert names(DOCUMENTS[1].read_text()) == list(COMMANDS)


def _keys(text: str) -> list[str]:
    values: Values = read_values(parse_yaml(text, name="example"))
    return [dotted(key) for key in values]


def _without_inner_prices(names: set[str]) -> set[str]:
    return {name for name in names if not name.startswith("providers.NAME.prices.")}


def _with_commented_lines(text: str) -> str:
    """The example with its commented settings in force."""
    return re.sub(
        r"(?m)^#(  \s*\w)", r"\1", text.replace("prices: null", "prices:").replace("providers: {}", "providers:")
    )
