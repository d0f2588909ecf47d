"""Which paths are inside the workspace."""

from pathlib import Path


def inside(root: Path, path: Path) -> bool:
    """Whether a path lies in the folder or is it, after resolving the links of both, now."""
    return path.resolve().is_relative_to(root.resolve())
