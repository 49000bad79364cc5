"""What a run leaves behind: the record and its rows, the files that hold them, and their tables."""
