"""What the attacks of the informed adversary share (Balle, Cherubin, Hayes 2022)."""
