"""The values of a dictionary that some elements use, as a dictionary of their own."""
