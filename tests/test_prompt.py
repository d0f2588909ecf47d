import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tinyagent.prompt import ContextFiles, load_context_files, system_prompt


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with a folder two levels down."""
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "src" / "deep").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    return tmp_path / "repo"


def load(repo: Path, *, cwd: Path | None = None) -> ContextFiles:
    return load_context_files(cwd or repo, repo.parent / "home")


def test_the_rules_with_workspace_fit_450_tokens_of_o200k() -> None:
    from splintr import Tokenizer

    prompt = system_prompt(Path("/home/someone/project"), system="Linux", context=ContextFiles())
    assert len(Tokenizer.from_pretrained("o200k_base").encode(prompt)) < 450


def test_the_same_place_gives_the_same_bytes(repo: Path) -> None:
    (repo / "AGENTS.md").write_text("use tabs")
    first, second = (system_prompt(repo, system="Linux", context=load(repo)) for _ in range(2))
    assert first == second


def test_the_prompt_names_the_workspace_the_system_and_every_instruction(repo: Path) -> None:
    (repo / "AGENTS.md").write_text("use tabs")
    prompt = system_prompt(repo, system="Linux", context=load(repo))
    assert f"Workspace: {repo} " in prompt
    assert "System: Linux" in prompt
    assert f'<instructions from="{repo / "AGENTS.md"}">\nuse tabs\n</instructions>' in prompt


def test_files_are_joined_from_the_users_own_to_the_working_directory(repo: Path) -> None:
    deep = repo / "src" / "deep"
    own = repo.parent / "home" / "AGENTS.md"
    for number, path in enumerate([own, repo / "AGENTS.md", deep / "AGENTS.md"]):
        path.write_text(f"rule {number}")
    (repo.parent / "AGENTS.md").write_text("outside of the repository")
    found = load(repo, cwd=deep)
    assert found.files == (own, repo / "AGENTS.md", deep / "AGENTS.md")
    assert found.text.index("rule 0") < found.text.index("rule 1") < found.text.index("rule 2")
    assert "outside" not in found.text


@pytest.mark.parametrize(
    ("present", "used"),
    [
        (["AGENTS.override.md", "AGENTS.md", "CLAUDE.md"], "AGENTS.override.md"),
        (["AGENTS.md", "CLAUDE.md"], "AGENTS.md"),
        (["CLAUDE.md"], "CLAUDE.md"),
    ],
)
def test_one_file_of_each_directory_is_used(repo: Path, present: list[str], used: str) -> None:
    for name in present:
        (repo / name).write_text(name)
    assert load(repo).files == (repo / used,)


def test_without_a_repository_only_the_working_directory_is_read(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "AGENTS.md").write_text("outer")
    (tmp_path / "inner" / "AGENTS.md").write_text("inner")
    assert load_context_files(tmp_path / "inner", tmp_path / "none").files == (tmp_path / "inner" / "AGENTS.md",)


def test_more_than_32_kib_are_cut_with_a_notice(repo: Path) -> None:
    (repo / "AGENTS.md").write_text("ä" * 20_000)
    (repo / "src" / "AGENTS.md").write_text("late")
    found = load(repo, cwd=repo / "src")
    assert found.text.count("ä") == 16_384
    assert "late" not in found.text
    assert found.text.count("[cut here") == 1
    assert found.files == (repo / "AGENTS.md",)
    assert [notice.split(":")[0] for notice in found.notices] == [
        f"{repo / 'AGENTS.md'} is cut",
        f"{repo / 'src' / 'AGENTS.md'} is left out",
    ]


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def link_outside(path: Path) -> None:
    key = path.parent.parent / "id_ed25519.md"
    key.write_text("PRIVATE KEY")
    path.symlink_to(key)


def link_to_other_kind(path: Path) -> None:
    (path.parent / ".env").write_text("PRIVATE KEY")
    path.symlink_to(".env")


def link_to_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def make_huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(5 * 1024**3)


def make_latin1(path: Path) -> None:
    path.write_bytes(b"\xe9t\xe9")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (make_fifo, "not a regular file"),
        (link_outside, "is a link"),
        (link_to_other_kind, "is a link"),
        (link_to_device, "is a link"),
        (link_to_itself, "loop"),
        (make_huge, "5,368,709,120 bytes"),
        (make_latin1, "not UTF-8"),
        (Path.mkdir, "directory"),
    ],
)
def test_what_is_no_plain_text_of_the_repository_is_left_out_with_the_reason(
    repo: Path, make: Callable[[Path], None], reason: str
) -> None:
    """S35, claude-code's FIFO and symlink fixes: the run starts at once, and with the next file of the directory."""
    make(repo / "AGENTS.md")
    (repo / "CLAUDE.md").write_text("fallback")
    found = load(repo)
    assert found.files == (repo / "CLAUDE.md",)
    assert "PRIVATE KEY" not in found.text
    assert len(found.notices) == 1
    assert reason in found.notices[0]


def test_a_link_to_another_text_of_the_repository_is_followed(repo: Path) -> None:
    (repo / "CLAUDE.md").write_text("shared rules")
    (repo / "AGENTS.md").symlink_to("CLAUDE.md")
    assert "shared rules" in load(repo).text


def test_an_empty_file_adds_nothing(repo: Path) -> None:
    (repo / "AGENTS.md").write_text(" \n")
    assert load(repo) == ContextFiles()
