"""What surrounds a passage: its article, the links that point to it, the pairs mined from it."""
