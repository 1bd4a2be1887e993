"""What every method is given: the record of nodes, its checks, and errors in one sentence."""
