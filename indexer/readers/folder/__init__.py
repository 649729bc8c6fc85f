"""Folders of pages: which files are read, how a page is laid out, where its links lead."""
