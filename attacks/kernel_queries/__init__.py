"""The search for the images that a kernel machine stores, by what it answers to queries."""
