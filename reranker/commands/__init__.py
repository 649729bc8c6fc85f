"""The commands of re-rankers: a file for each word of `linkseek`."""
