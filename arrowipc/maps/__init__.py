"""Maps of files, and the memory of their pages.

``file_maps`` maps files, and releases the pages of batches that nothing refers to any more.

Imports ``inline``, the base.
"""
