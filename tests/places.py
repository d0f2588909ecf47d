"""A home and a repository with settings, for tests of the configuration and the command line."""

from pathlib import Path

import pytest

from tinyagent.config import Given, Loaded, load_settings
from tinyagent.core.errors import ConfigError


class Place:
    """A home and a repository with settings to load."""

    def __init__(self, root: Path) -> None:
        self.environ = {"HOME": str(root), "TINYAGENT_HOME": str(root / "home")}
        self.user = root / "home" / "config.yaml"
        self.repo = root / "repo"
        self.project = self.repo / ".tinyagent" / "config.yaml"
        self.user.parent.mkdir()
        (self.repo / ".git").mkdir(parents=True)
        self.project.parent.mkdir()

    def load(self, *, options: tuple[Given, ...] = (), assignments: tuple[str, ...] = (), **environ: str) -> Loaded:
        return self.load_with(environ, options=options, assignments=assignments)

    def load_with(
        self, environ: dict[str, str], *, options: tuple[Given, ...] = (), assignments: tuple[str, ...] = ()
    ) -> Loaded:
        return load_settings(cwd=self.repo, environ=self.environ | environ, options=options, assignments=assignments)

    def error(self, text: str | bytes) -> str:
        """What is said about a user's file with this content."""
        self.user.write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(ConfigError) as caught:
            self.load()
        return str(caught.value)
