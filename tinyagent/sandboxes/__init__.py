"""Where commands run: one process runner, and the argv that each sandbox puts round a command."""
