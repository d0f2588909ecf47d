"""Layered settings: where each comes from is known, and an unknown key is an error."""

from tinyagent.config.folders import Folders, folders, git_root
from tinyagent.config.layers import Given, Loaded, assigned, load_settings
from tinyagent.config.reading import parse_duration
from tinyagent.config.schema import (
    BatchSettings,
    PermissionSettings,
    ProviderSettings,
    SandboxSettings,
    Settings,
    ToolSettings,
)
from tinyagent.config.values import UsageError

__all__ = [
    "BatchSettings",
    "Folders",
    "Given",
    "Loaded",
    "PermissionSettings",
    "ProviderSettings",
    "SandboxSettings",
    "Settings",
    "ToolSettings",
    "UsageError",
    "assigned",
    "folders",
    "git_root",
    "load_settings",
    "parse_duration",
]
