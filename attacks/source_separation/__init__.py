"""Blind source separation of pictures: the mixture of rows whose responses to small filters are the most independent.

Pixels of different images are not independent: all have light skies and dark grounds. What a small filter without a
mean answers nearly is, and it is sparse, since a scene is flat but for its edges (`responses`, `density`); a mixture of
scenes is not. A rotation is found by FastICA (Hyvarinen 1999), and goes on by a descent on the likelihood, from a
smooth one to a rugged one (`unmixing`, `relative`). Filters are linear, so that both move pictures, which are smaller
than what is answered to them (`mixed`, `filter_bank`).
"""
