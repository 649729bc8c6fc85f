"""Reading compressed files, archives, folders and streamed JSON; hashes of files."""
