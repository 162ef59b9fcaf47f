"""Placement: decides where, when and at whose expense gangs run, and tells node agents."""
