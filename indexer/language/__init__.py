"""Natural languages: their codes, which of them a corpus is in, and words that no blanks separate."""
