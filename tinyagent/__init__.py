"""tinyagent: a command-line coding agent that manages its context window and leaves exact, replayable records."""

__version__ = "0.1.0"
