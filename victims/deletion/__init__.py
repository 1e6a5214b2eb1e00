"""Victims that release two models, before and after records are deleted (Bertran et al. 2024)."""
