"""Runs as evidence: the journal, the exported document, replay, and reports made from either."""
