"""Markdown and its dialects."""
