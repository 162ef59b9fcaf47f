"""Programs and scripts as people bring them, with the libraries themselves."""
