"""Where rows come from when they do not come as one array: files, iterators, memory maps, clusters."""
