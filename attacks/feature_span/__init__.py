"""The search for images whose features lie in the span that the layer behind convolutions shows."""
