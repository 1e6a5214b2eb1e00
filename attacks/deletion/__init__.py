"""What the attack on a deletion is made of: the deleted gradient, and the record that has it (Bertran et al. 2024)."""
