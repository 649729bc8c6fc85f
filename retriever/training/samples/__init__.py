"""Samples of a training: tables in any order, batches, inputs."""
