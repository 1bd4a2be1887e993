"""What a report finds, as records, and its page."""
