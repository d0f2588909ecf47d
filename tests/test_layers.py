"""Imports run downwards only, and heavy libraries are loaded only where they are used."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "tinyagent"

# The first prefix that matches decides. Level 1 is pure: it may be used by everything above, siblings included.
LEVELS: list[tuple[str, int]] = [
    ("core.", 0),
    ("compaction.compactor", 2),
    ("compaction.", 1),
    ("security.", 1),
    ("models.overflow", 1),
    ("models.error_", 1),
    ("models.retry_hints", 1),
    ("trajectory.native", 1),
    ("trajectory.atif", 1),
    ("trajectory.mini", 1),
    ("trajectory.strict", 1),
    ("trajectory.shapes", 1),
    ("trajectory.reading", 1),
    ("trajectory.writing", 1),
    ("trajectory.simulate", 3),  # a run without a model: it drives the compactor
    ("models.", 2),
    ("sandboxes.", 2),
    ("tools.", 2),
    ("trajectory.", 2),
    ("sending", 3),
    ("repairs", 3),
    ("agent", 3),
    ("config.", 4),
    ("prompt", 4),
    ("endpoint", 4),
    ("subagents", 4),
    ("build", 4),
    ("cli.", 5),
    ("console", 5),
    ("batch.", 5),
    ("integrations.", 5),
    ("__main__", 5),
]
ONLY_IN = {
    "httpx": {"models.transport", "models.fetch"},
    "httpx_sse": {"models.transport"},
    "anthropic": {"models.sdk"},
    "openai": {"models.sdk"},
    "typer": {"cli."},
    "ray": {"batch.ray"},
}
PURE_FORBIDDEN = {
    "subprocess",
    "socket",
    "httpx",
    "requests",
    "os",
    "shutil",
    "tempfile",
    "threading",
    "time",
    "random",
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        yield (name if name != "__init__" else ""), ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(tree: ast.Module) -> Iterator[str]:
    """Names imported at run time; what stands under `if TYPE_CHECKING` does not count."""
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            skipped.update(child for part in node.body for child in ast.walk(part))
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def level(name: str) -> int:
    """The level of a module by its name inside the package; a folder counts as its highest module would."""
    for prefix, number in LEVELS:
        if name == prefix or name.startswith(prefix) or name + "." == prefix:
            return number
    raise AssertionError(f"tinyagent/{name.replace('.', '/')}.py has no level: add it to LEVELS in {__file__}")


def known(name: str) -> bool:
    parts = name.split(".")
    return (PACKAGE.joinpath(*parts)).is_dir() or (PACKAGE.joinpath(*parts[:-1]) / f"{parts[-1]}.py").is_file()


def inner_imports(tree: ast.Module) -> set[str]:
    found = {name.removeprefix("tinyagent.") for name in imports(tree) if name.startswith("tinyagent.")}
    return {name for name in found if known(name)}


def test_no_module_imports_from_a_layer_above_or_from_a_sibling_folder_of_level_two() -> None:
    wrong: list[str] = []
    for name, tree in modules():
        if not name:
            continue
        for other in inner_imports(tree):
            same_folder = name.split(".")[0] == other.split(".")[0]
            if same_folder:
                continue
            if level(other) > level(name):
                wrong.append(f"{name} (level {level(name)}) imports {other} (level {level(other)}), which is above it")
            if level(other) == level(name) == 2:
                wrong.append(f"{name} imports {other}: sibling folders of level 2 do not know each other")
    assert not wrong, "\n".join(wrong)


def test_a_library_is_imported_only_where_it_belongs() -> None:
    wrong = [
        f"{name} imports {library}; only {', '.join(sorted(places))} may"
        for name, tree in modules()
        for imported in imports(tree)
        for library, places in ONLY_IN.items()
        if imported.split(".")[0] == library and not any((name + ".").startswith(p.rstrip(".") + ".") for p in places)
    ]
    assert not wrong, "\n".join(sorted(set(wrong)))


def test_the_core_and_the_pure_features_do_no_input_or_output() -> None:
    wrong = [
        f"{name} imports {imported}"
        for name, tree in modules()
        if name.startswith(("core", "compaction")) and level(name) < 2
        for imported in imports(tree)
        if imported.split(".")[0] in PURE_FORBIDDEN
    ]
    assert not wrong, "\n".join(wrong)


def test_the_core_needs_nothing_but_the_standard_library() -> None:
    wrong = [
        f"{name} imports {imported}"
        for name, tree in modules()
        if name.startswith("core")
        for imported in imports(tree)
        if imported.split(".")[0] not in {*sys.stdlib_module_names, "tinyagent"}
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("arguments", [["--help"], ["show", "--help"], ["export", "--help"], ["run", "--help"]])
def test_a_command_loads_no_sdk(arguments: list[str]) -> None:
    script = (
        "import sys; sys.argv = ['tinyagent', *sys.argv[1:]]\n"
        "from tinyagent.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "loaded = {'anthropic', 'openai', 'httpx', 'ray'} & set(sys.modules)\n"
        "print('LOADED', sorted(loaded), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
    assert "LOADED []" in done.stderr, done.stderr
