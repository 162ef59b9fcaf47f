"""`headrace doctor`: whether this machine can be a good node, and how well it keeps jobs apart."""
