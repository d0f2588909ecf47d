"""Real tokenizers take a while to load, and a run is many requests: no deadline for a single example."""

from hypothesis import settings

settings.register_profile("whole runs", parent=settings(), deadline=None)
settings.load_profile("whole runs")
