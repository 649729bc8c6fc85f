"""The commands of retrievers: a file for each word of `linkseek`."""
