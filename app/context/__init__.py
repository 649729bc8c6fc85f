"""The surroundings of a passage: its article, its links, its training data, known questions."""
