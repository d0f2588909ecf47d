"""Rules about what may be run, read, written and shown: values in, values out."""
