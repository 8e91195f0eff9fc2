"""One file per published method: plain mathematics on kernel stacks, no scikit-learn."""
