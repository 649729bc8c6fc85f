"""The command `linkseek`, and the programs that only it has."""
