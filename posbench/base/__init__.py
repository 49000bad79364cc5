"""What everything rests on: errors, words for numbers, atomic files, the hash of content."""
