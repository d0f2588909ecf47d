"""How the context window is managed: when a pass starts, what it does, what it may not do."""
