"""Studies: questions that are no table of pipelines x test sets."""
