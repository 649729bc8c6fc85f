"""The surroundings of a passage: its article, its links, known questions."""
