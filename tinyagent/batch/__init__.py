"""Many ordinary runs under one budget."""
