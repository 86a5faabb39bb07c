"""A Python with requirements.txt installed and nothing else; made once per content of that file."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from bench import cache
from tests.package.archive import ROOT


def interpreter() -> Path:
    """Its path."""
    requirements = ROOT / "requirements.txt"
    key = hashlib.sha256(requirements.read_bytes()).hexdigest()[:16]
    folder = cache.home() / "package" / key
    python = folder / "bin/python"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements]
        subprocess.run(pip, check=True)
        (folder / "complete").touch()
    return python
