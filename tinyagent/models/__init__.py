"""Models behind endpoints: wires, transports, retries, error classification, windows."""
