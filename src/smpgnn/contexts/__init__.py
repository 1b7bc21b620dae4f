"""Local contexts: their rows, the layout of these in memory, and who sends rows to whom."""
