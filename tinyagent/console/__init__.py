"""What a person sees of a run: lines on stderr, and the question before a call that needs a yes."""

from tinyagent.console.lines import end_words
from tinyagent.console.paper import Paper, legible, paper_for
from tinyagent.console.view import Console

__all__ = ["Console", "Paper", "end_words", "legible", "paper_for"]
