"""One Python value as the stored bytes of its type; nothing here for Python."""
