"""Admission: the door for jobs, secrets and publishers. Decides what may wait for GPUs at all."""
