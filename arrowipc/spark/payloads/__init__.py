"""Payload columns in Spark: ``decode`` and ``encode`` over batches, on ``cells`` of pyarrow columns."""
