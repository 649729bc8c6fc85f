"""Studies: questions that need more than a table of pipelines x test sets."""
