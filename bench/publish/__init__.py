"""What is published of stored runs: leaderboard, ranks, comparisons, the report."""
