"""What is to be run: attacks and victims by name, parameters, and plans made of them."""
