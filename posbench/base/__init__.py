"""What everything stands on: errors, words for numbers, atomic files, the hash of content."""
