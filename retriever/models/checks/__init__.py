"""Checks of a stranger's model folder before a library opens it."""
