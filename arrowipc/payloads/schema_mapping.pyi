"""From the schema of a payload to that of the output; for compiled modules."""
