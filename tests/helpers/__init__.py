"""What the tests share: forged input, golden expectations, drivers of every reader, random data."""
