"""What is kept: records, run folders, tensor files, CSV files, pictures."""
