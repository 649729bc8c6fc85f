"""What benchmarks share: rounds, records, limits of the machine, models with random weights, the suite."""
