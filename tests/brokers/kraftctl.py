"""What `kraftctl` says of a quorum while real brokers are on it."""

import subprocess
import sys

from tests.brokers.clients import WAIT_S
from tests.fixtures import ROOT
from tests.process.cluster import Cluster


def kraftctl(quorum: Cluster, *arguments: object) -> str:
    """What the command prints, asked of the controllers alone."""
    command = [sys.executable, "-m", "kraftd.cli.main", "--bootstrap-controller", quorum.bootstrap]
    done = subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, timeout=WAIT_S, cwd=ROOT, check=True
    )
    return done.stdout
