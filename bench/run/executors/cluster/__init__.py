"""Runs on a Ray cluster whose machines need to share nothing but a Python with the dependencies.

The source and the plug-ins travel by Ray's runtime environment, datasets and trained victims through its object store,
and what a run leaves comes back to the driver, which alone writes the results folder.
"""
