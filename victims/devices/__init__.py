"""Devices that compute beside the host: how data that the host draws or chooses in a loop reach them."""
