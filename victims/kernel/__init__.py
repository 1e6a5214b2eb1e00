"""Kernel machines: victims that store their training images, and that attacks see through queries alone."""
