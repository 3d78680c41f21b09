"""What the benchmarks share: input, peers, interleaved rounds, child processes, and the page of results."""
