"""``python -m tests.adapters.stored``: make the environment of the stored outputs, and them.

adapters 1.3 asks for transformers 4.57, and the other tests for 5: an environment in
``build/oracle-adapters`` holds it and what goes with it before torch and numpy of this one.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

FOLDER = Path("build/oracle-adapters")
PACKAGES = (
    *("adapters==1.3.0", "lycoris-lora==4.1.3", "transformers==4.57.6"),
    *("tokenizers==0.22.2", "huggingface-hub==0.36.2", "einops==0.8.2", "toml==0.10.2"),
)


def main() -> None:
    python = FOLDER / "bin/python"
    done = FOLDER / "packages"
    if not done.is_file() or done.read_text() != " ".join(PACKAGES):
        venv.create(FOLDER, clear=True)
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
        subprocess.run([*pip, "--no-deps", *PACKAGES], check=True)
        theirs = next(FOLDER.glob("lib/python*/site-packages"))
        (theirs / "of_this.pth").write_text(sysconfig.get_path("purelib"))
        done.write_text(" ".join(PACKAGES))
    subprocess.run([python, "-m", "tests.adapters.stored.theirs"], check=True)


if __name__ == "__main__":
    main()
