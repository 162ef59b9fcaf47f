"""Quota: owns the tree of departments and projects, and who may compete for GPUs now."""
