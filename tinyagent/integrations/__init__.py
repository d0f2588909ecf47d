"""Other programs that drive tinyagent."""
