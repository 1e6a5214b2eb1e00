"""What the user sees and types while the program runs: text, progress, tables, interrupts."""
