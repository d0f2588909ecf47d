"""Inside or outside, protected, secret, and names made from data."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagent.security.paths import Places, inside, safe_name


@pytest.fixture
def places(tmp_path: Path) -> Places:
    for name in ("home/work", "outside", "config"):
        (tmp_path / name).mkdir(parents=True)
    return Places(tmp_path / "home/work", home=tmp_path / "home", own=(tmp_path / "config/config.yaml",))


def test_inside_follows_links_at_the_moment_of_asking(places: Places, tmp_path: Path):
    """S20, S22."""
    door = places.root / "door"
    door.mkdir()
    assert inside(places.root, door / "new")
    door.rmdir()
    door.symlink_to(tmp_path / "outside")
    assert not inside(places.root, door / "new")


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/passwd", "..", "../work2"])
def test_ways_out_are_outside(places: Places, path: str):
    """S23 Codex CVE-2025-59532: the boundary is fixed by the start directory."""
    assert not places.is_inside(places.resolve(path))


@pytest.mark.parametrize("path", ["x", ".", "a/../x", "..x", "a/..."])
def test_what_stays_is_inside(places: Places, path: str):
    assert places.is_inside(places.resolve(path))


def test_a_loop_of_links_is_no_crash(places: Places):
    (places.root / "a").symlink_to("a")
    assert places.is_inside(places.resolve("a/b"))


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit",
        ".git/config",
        ".GIT/config",
        "sub/.git/hooks/x",
        ".tinyagent/config.yaml",
        ".vscode/tasks.json",
        ".envrc",
        "link/config",
        "../.bashrc",
        "../.config/fish/config.fish",
        "../../config/config.yaml",
        "../.ssh/authorized_keys",
    ],
)
def test_files_that_make_programs_run_are_protected(places: Places, path: str):
    """S34; S8 Claude Code CVE-2026-25722."""
    (places.root / "link").symlink_to(".git")
    assert places.is_protected(places.resolve(path))


@pytest.mark.parametrize(
    "path", [".gitignore", ".github/workflows/ci.yml", "src/.bashrc", "config.yaml", ".vscode/x.md"]
)
def test_ordinary_files_are_not_protected(places: Places, path: str):
    assert not places.is_protected(places.resolve(path))


@pytest.mark.parametrize(
    "path", ["../.ssh/id_rsa", "../.netrc", "/etc/shadow", "/proc/1/environ", "key", "../../config/config.yaml"]
)
def test_places_of_keys_are_secret_under_any_name(places: Places, path: str):
    """S19 Claude Code CVE-2026-25724."""
    (places.root / "key").symlink_to(places.home / ".ssh" / "id_rsa")
    assert places.is_secret(places.resolve(path))


@pytest.mark.parametrize("path", ["a.py", ".env", "../.sshx", "/etc/passwd", "/proc/cpuinfo"])
def test_other_places_are_not_secret(places: Places, path: str):
    assert not places.is_secret(places.resolve(path))


def test_an_own_folder_round_the_workspace_does_not_forbid_all_work(places: Places):
    around = Places(places.root, home=places.home, own=(places.root.parent,))
    assert not around.is_protected(around.resolve("a.py"))
    assert not around.names_secret(f"cat {places.root}/a.py")


@pytest.mark.parametrize("name", ["django__django-11099", "a.b-c_D", "7"])
def test_a_harmless_id_is_its_own_name(name: str):
    assert safe_name(name) == name


@given(
    st.one_of(st.text(), st.sampled_from(["", ".", "..", "../../x", "a/b", "a\\b", "x" * 300, "-rf", "\ud800", "a b"]))
)
def test_any_id_becomes_one_safe_name(text: str):
    """S26: names from data used as paths."""
    name = safe_name(text)
    assert 1 <= len(name.encode()) <= 100
    assert name not in (".", "..")
    assert name[0] not in ".-"
    assert all(char.isascii() and (char.isalnum() or char in "._-~") for char in name)


@given(st.text(), st.text())
def test_different_ids_have_different_names(one: str, other: str):
    assert (safe_name(one) == safe_name(other)) == (one == other)


def test_a_mangled_name_is_never_another_ids_plain_name():
    assert safe_name(safe_name("a/b")) != safe_name("a/b")
