"""What is kept: records, run folders, tensor files, CSV files, pictures."""

import csv

csv.field_size_limit(2**31 - 1)  # a cell tells the good images of all runs of a cell of the leaderboard, a bit each
