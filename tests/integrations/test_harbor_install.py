"""What a Harbor trial installs, and from where."""

import subprocess
from pathlib import Path

import pytest

from tinyagent.core.errors import ConfigError
from tinyagent.integrations.harbor_install import Source, find_source, install_command, to_upload

ROOT = Path(__file__).parent.parent.parent


def test_the_program_that_runs_here_is_what_is_installed_there() -> None:
    """The name on PyPI is another project's."""
    assert find_source(None, None) == Source("/installed-agent/tinyagent", ROOT)


def test_of_a_checkout_only_what_it_is_built_from_is_copied() -> None:
    with to_upload(find_source(str(ROOT), None)) as copy:
        assert copy is not None
        assert sorted(path.name for path in copy.iterdir()) == ["README.md", "pyproject.toml", "tinyagent"]
        assert not list(copy.rglob("__pycache__"))
        assert copy.stat().st_mode & 0o055 == 0o055


def test_a_wheel_is_copied_under_its_name(tmp_path: Path) -> None:
    wheel = tmp_path / "tinyagent-0.1.0-py3-none-any.whl"
    wheel.touch()
    source = find_source(str(wheel), None)
    assert source == Source(f"/installed-agent/{wheel.name}", wheel)
    with to_upload(source) as path:
        assert path == wheel


@pytest.mark.parametrize("address", ["git+https://git.example/tinyagent@abc", "https://example/tinyagent-0.1.0.whl"])
def test_an_address_is_left_to_pip(address: str) -> None:
    assert find_source(address, None) == Source(address)
    with to_upload(Source(address)) as path:
        assert path is None


def test_a_version_comes_from_the_container_s_index() -> None:
    assert find_source(None, "0.1.0") == Source("tinyagent==0.1.0")


def test_what_is_not_there_is_said_before_a_container_is_asked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no wheel and no checkout"):
        find_source(str(tmp_path / "elsewhere"), None)


@pytest.mark.parametrize(
    ("note", "requirement"),
    [
        ('{"url": "file://ROOT", "dir_info": {}}', "/installed-agent/tinyagent"),
        (
            '{"url": "https://g.example/t", "vcs_info": {"vcs": "git", "commit_id": "abc"}}',
            "git+https://g.example/t@abc",
        ),
        ('{"url": "https://example/t-0.1.0.whl", "archive_info": {}}', "https://example/t-0.1.0.whl"),
        ("", "tinyagent==0.1.0"),
    ],
)
def test_an_installed_program_is_taken_from_where_it_was_installed_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, note: str, requirement: str
) -> None:
    """As pip notes it beside the package (PEP 610)."""
    metadata = tmp_path / "tinyagent-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tinyagent\nVersion: 0.1.0\n", encoding="utf-8")
    if note:
        (metadata / "direct_url.json").write_text(note.replace("ROOT", str(ROOT)), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_source(None, None, here=tmp_path).requirement == requirement


def test_the_install_command_is_valid_shell_and_quotes_its_source() -> None:
    command = install_command("tinyagent==0.1.0; touch MARK")
    assert subprocess.run(["bash", "-n", "-c", command], check=False).returncode == 0
    assert "'tinyagent==0.1.0; touch MARK'" in command
