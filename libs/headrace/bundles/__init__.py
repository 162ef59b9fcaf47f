"""Folders that travel: a job's code to the nodes, what it leaves behind back from them.

A folder becomes a *manifest*: the path, mode, size and SHA-256 of each of its files. Its own SHA-256
names the whole; equal folders have the same name wherever they are, and only files that the other
side has not got yet are sent.

    laptop   packing ── HTTP ──▶ gateway   objects/<project>/   ◀── bus ── node   bundles/<project>/

Gateway and nodes keep files in the same form (`objects`): a folder per project, so that nothing is
read across projects and erasing a project is removing a folder. Nodes dial out only, have no
database credential and ask over the bus for what a job of that project, placed on them, needs.
Whoever receives a file compares it with its name; what does not match was never received.

Rule: nothing here is needed to understand the log, which has names and sizes only. A folder that is
lost costs the jobs that need it a clear reason, and nothing else.
"""

from headrace.bundles.manifest import BadManifest, File, Manifest, name_of, read_manifest

__all__ = ["BadManifest", "File", "Manifest", "name_of", "read_manifest"]
