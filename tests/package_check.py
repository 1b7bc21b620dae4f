"""Build the packages, install the wheel into an empty environment and walk through the README.

    python tests/package_check.py [--dist dist] [--python python3.12]

The commands for a table of molecules and the Python code are those of README.md, with fewer epochs,
on a small table. They run in an empty folder, without this repository.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: What the README leaves to the reader.
_SHORT = " --epochs 2 --no-baseline --hidden-channels 8"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="folder of the packages")
    parser.add_argument("--python", default=sys.executable, help="interpreter to install for")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = build(options.dist.absolute(), environment(folder / "tools", sys.executable))
        python = environment(folder / "empty", options.python)
        print(f"The wheel in an empty environment of {options.python}:", flush=True)
        call(python, "-m", "pip", "install", "--quiet", locked("torch"), f"{wheel}[chem]")
        call(python, "-m", "pip", "check")
        (folder / "work").mkdir()
        walk(folder / "work", python)
    print("All commands of the README run from the wheel.")


def environment(folder: Path, python: str) -> Path:
    """The interpreter of a new virtual environment."""
    call(python, "-m", "venv", folder)
    return folder / "bin" / "python"


def locked(name: str) -> str:
    """A requirement of requirements.lock; torch by itself would be a build with CUDA."""
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith(f"{name}=="))


def build(dist: Path, python: Path) -> Path:
    """Build sdist and wheel from a copy of the repository, check them, and return the wheel."""
    call(python, "-m", "pip", "install", "--quiet", "build", "twine")
    shutil.rmtree(dist, ignore_errors=True)
    call(python, "-m", "build", "--outdir", dist, ROOT)  # the wheel is built from the sdist
    call(python, "-m", "twine", "check", "--strict", *dist.iterdir())
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    source = ROOT / "src"
    files = {str(file.relative_to(source)) for file in source.rglob("*") if file.is_file()}
    files = {file for file in files if "__pycache__" not in file and "egg-info" not in file}
    packed = set(zipfile.ZipFile(wheel).namelist())
    assert files <= packed, sorted(files - packed)
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{file}" for file in files} <= names
    return wheel


def walk(folder: Path, python: Path) -> None:
    """Run the commands and the code of the README in a folder."""
    names = ("C", "CC", "CCO", "c1ccccc1O", "CC(=O)N", "CCN", "C1CCCCC1", "CCCl", "COC")
    rows = [f"{'C' * (n // 9)}{names[n % 9]},{n % 9 - n / 20}" for n in range(90)]
    for file in ("data.csv", "other.csv", "new.csv"):
        (folder / file).write_text("\n".join(["smiles,logS", *rows, ""]), encoding="utf-8")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    commands = next(code for kind, code in blocks if "smpgnn train molecules" in code)
    code = "\n".join(code for kind, code in blocks if kind == "python")
    lines = [line.partition("#")[0].strip() for line in commands.splitlines()]
    extra = ("smpgnn --version", "smpgnn --help", "smpgnn info runs/logS", "smpgnn info pretrained",
             "smpgnn predict zinc new.csv -o zinc.csv",
             "smpgnn embed general new.csv -o vectors.csv",
             "mkdir results; smpgnn paper report --output report.html",
             "smpgnn paper theory")  # fmt: skip
    environment = {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(folder)}
    for line in filter(None, (*lines, *extra)):
        more = _SHORT if line.startswith("smpgnn train") else ""
        print(f"$ {line}{more}", flush=True)
        subprocess.run(line + more, shell=True, check=True, cwd=folder, env=environment,
                       stdout=subprocess.DEVNULL)  # fmt: skip
    short = 'targets=["logS"], epochs=2, baseline=False, output="runs/python"'
    code = code.replace('targets=["logS"]', short)
    where = "import smpgnn; assert 'site-packages' in smpgnn.__file__, smpgnn.__file__\n"
    print(code, flush=True)
    subprocess.run([python, "-c", where + code], check=True, cwd=folder, env=environment)


def call(*words: str | Path) -> None:
    """Run a command with its output."""
    subprocess.run([str(word) for word in words], check=True)


if __name__ == "__main__":
    main()
