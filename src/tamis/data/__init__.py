"""Training tables: reading, rows with classes or numbers, encodings, keys."""
