"""Building an index: the stages, their workspace, atomic publishing."""
