"""The cells of payload columns; for compiled modules."""
