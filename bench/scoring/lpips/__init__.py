"""LPIPS: its network, where its weights come from, and the distance."""
