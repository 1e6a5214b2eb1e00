"""The verbs of the command line. torch is imported by those that compute, not by these modules."""
