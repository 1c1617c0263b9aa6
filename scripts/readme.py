"""`make readme`: run the commands of README.md, so that it stays true.

Every fenced block marked `sh` runs in one shell, in order, from the top of the repository; a failing
command ends it. Blocks marked `sh docker` run only where a container engine with Compose answers; other
blocks are not commands.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(sh(?: docker)?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main() -> int:
    """Returns the exit code of the first block that fails."""
    docker = (
        shutil.which("docker")
        and not subprocess.run(["docker", "compose", "ls"], capture_output=True, check=False).returncode
    )
    for kind, commands in BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8")):
        if kind.endswith("docker") and not docker:
            print(f"left out, no container engine with Compose answers:\n{commands}", flush=True)
            continue
        done = subprocess.run(["bash", "-euxo", "pipefail", "-c", commands], cwd=ROOT, check=False)
        if done.returncode:
            print(f"README.md: exit code {done.returncode} in:\n{commands}", file=sys.stderr)
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
