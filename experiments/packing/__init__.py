"""Packings: test collections written from the files that their publishers offer."""
