"""A Slurm of one node on this machine, for tests: controller, node and their own munge."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DAEMONS = ("munged", "slurmctld", "slurmd")
PATIENCE = 60.0  # seconds

CONFIGURATION = """
ClusterName=posbench
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CommunicationParameters=NoInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
KillWait=5
JobRequeue=1
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory={memory} State=UNKNOWN
PartitionName=tests Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

# submitit asks sacct, which needs a database of accounting; the controller knows the same for some
# minutes.
SACCT = """
#!{python}
import re, subprocess
found = subprocess.run(["scontrol", "-o", "show", "job"], capture_output=True, text=True).stdout
print("JobID|State|NodeList")
for line in found.splitlines():
    told = dict(re.findall(r"(\\w+)=(\\S*)", line))
    if "JobId" not in told:
        continue
    name = told["JobId"]
    if "ArrayTaskId" in told:
        index = told["ArrayTaskId"]
        index = index if index.isdigit() else f"[{{index}}]"
        name = f"{{told['ArrayJobId']}}_{{index}}"
    print(f"{{name}}|{{told['JobState']}}|{{told.get('NodeList', '')}}")
"""


def missing() -> str:
    """Why no Slurm can be brought up here; "" if one can."""
    absent = [name for name in DAEMONS if shutil.which(name) is None]
    if absent:
        return f"needs {', '.join(absent)}: apt-get install slurm-wlm munge"
    return "" if os.geteuid() == 0 else "only root can bring up Slurm and munge"


@contextmanager
def running(folder: Path) -> Iterator[dict[str, str]]:
    """Slurm with its files in a folder; the environment in which its commands find it."""
    host = socket.gethostname().partition(".")[0]
    for name in ("munge", "state", "spool", "bin"):
        (folder / name).mkdir(parents=True)
    (folder / "slurm.conf").write_text(
        CONFIGURATION.format(folder=folder, host=host, ports=(_port(), _port()), memory=_memory())
    )
    (folder / "cgroup.conf").touch()
    sacct = folder / "bin/sacct"
    sacct.write_text(SACCT.strip().format(python=sys.executable))
    sacct.chmod(0o755)
    environment = os.environ | {
        "SLURM_CONF": str(folder / "slurm.conf"),
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in (_munged(folder / "munge"), ["slurmctld", "-D"], ["slurmd", "-D"]):
            with open(folder / f"{command[0]}.said", "wb") as file:
                started.append(subprocess.Popen(command, env=environment, stdout=file, stderr=file))
            if command[0] == "munged":
                _until((folder / "munge/socket").exists, folder)
        _until(lambda: "idle" in _said(environment, "sinfo", "-h", "-o", "%T"), folder)
        yield environment
    finally:
        subprocess.run(["scancel", "--signal=KILL", "--user=root"], env=environment, check=False)
        for process in reversed(started):
            process.terminate()
        for process in started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _munged(folder: Path) -> list[str]:
    (folder / "key").write_bytes(os.urandom(128))
    (folder / "key").chmod(0o400)
    files = {
        "socket": "socket",
        "key-file": "key",
        "log-file": "log",
        "pid-file": "pid",
        "seed-file": "seed",
    }
    given = [f"--{name}={folder / file}" for name, file in files.items()]
    return ["munged", "--foreground", "--force", *given]


def _memory() -> int:
    """MB of this machine that Slurm may give to jobs."""
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20 * 0.9)


def _port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
        return number


def _said(environment: dict[str, str], *command: str) -> str:
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    ).stdout


def _until(reached: object, folder: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not reached():  # type: ignore[operator]
        if time.monotonic() > deadline:
            said = [path.read_text(errors="replace")[-500:] for path in folder.glob("*.said")]
            raise RuntimeError(f"Slurm does not come up: {said}")
        time.sleep(0.2)
