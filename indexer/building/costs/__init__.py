"""The cost of a build, measured on a sample of its corpus."""
