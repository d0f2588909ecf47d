"""Nouns and rules of a run: standard library only, no input or output."""
