"""Web pages: their main text, their links, their encodings."""
