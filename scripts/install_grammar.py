#!/usr/bin/env python3
"""Installs the grammar library of constrained output in a folder: the two shared libraries of the wheels that
scripts/grammar_requirements.txt names, with their hashes checked. Does nothing if they exist already.

A program finds the folder build/yoke-grammar next to its build folder, lib/yoke-grammar of its installation, the one
that YOKE_GRAMMAR_LIBRARY names, or that of its option --grammar-library.
"""

import argparse
import filecmp
import glob
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile

REQUIREMENTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "grammar_requirements.txt")
LIBRARIES = ("libtvm_ffi.so", "libxgrammar_bindings.so")
TIME_LIMIT_S = 120


def python_with_pip(scratch):
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
        return sys.executable
    venv.create(os.path.join(scratch, "venv"), with_pip=True)
    return os.path.join(scratch, "venv", "bin", "python")


def download(scratch):
    tags = [option for version in ("2_28", "2_27", "2_26", "2_24")
            for option in ("--platform", f"manylinux_{version}_{platform.machine()}")]
    subprocess.run([python_with_pip(scratch), "-m", "pip", "download", "-q", "--retries", "1", "--timeout", "15",
                    "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--implementation", "cp",
                    "--python-version", "3.11", "--abi", "cp311", *tags, "--require-hashes", "-r", REQUIREMENTS, "-d",
                    scratch], check=True, timeout=TIME_LIMIT_S)


def unpack(scratch, folder):
    for wheel in glob.glob(os.path.join(scratch, "*.whl")):
        with zipfile.ZipFile(wheel) as packed:
            for name in packed.namelist():
                if os.path.basename(name) in LIBRARIES:
                    with packed.open(name) as file, open(os.path.join(folder, os.path.basename(name)), "wb") as copy:
                        shutil.copyfileobj(file, copy)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="DIR")
    folder = parser.parse_args().folder
    mark = os.path.join(folder, "installed.txt")
    if os.path.exists(mark) and filecmp.cmp(mark, REQUIREMENTS, shallow=False):
        return
    print(f"Installing the grammar library in {folder}", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            download(scratch)
        except (OSError, subprocess.SubprocessError) as error:
            sys.exit(f"{os.path.basename(REQUIREMENTS)}: {error}")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        unpack(scratch, folder)
    missing = [name for name in LIBRARIES if not os.path.exists(os.path.join(folder, name))]
    if missing:
        sys.exit(f"the wheels lack {' and '.join(missing)}")
    shutil.copy(REQUIREMENTS, mark)


if __name__ == "__main__":
    main()
