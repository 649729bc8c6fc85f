"""The commands of indexes: a file for each word of `linkseek`."""
