"""Layered settings: where each comes from is known, and an unknown key is an error."""

from tinyagent.config.folders import folders
from tinyagent.config.layers import Given, Loaded, assigned, load_settings
from tinyagent.config.reading import parse_duration
from tinyagent.config.schema import Settings
from tinyagent.config.values import UsageError

__all__ = ["Given", "Loaded", "Settings", "UsageError", "assigned", "folders", "load_settings", "parse_duration"]
