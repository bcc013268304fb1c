"""Slurm on this machine alone: controller and node as root, with settings, ports and state of their own."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PACKAGES = ("slurmctld", "slurmd", "slurm-client")
# A cluster of one node with two cores, without accounts, cgroups or keys.
SETTINGS = """\
ClusterName=robench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SlurmUser=root
SlurmdUser=root
SlurmdParameters=config_overrides
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SchedulerParameters=sched_interval=2,bf_interval=2,sched_min_interval=0,batch_sched_delay=1
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""
# Seconds until a test gives up, many times what is needed.
PATIENCE = 600


def begin_slurm(folder: Path) -> Iterator[None]:
    """Run a cluster until the generator is closed; ``SLURM_CONF`` must be ``folder / "slurm.conf"`` meanwhile."""
    reason = _install()
    if reason:
        pytest.skip(reason)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    host = socket.gethostname().partition(".")[0]
    settings = SETTINGS.format(host=host, folder=folder, ports=_free_ports())
    (folder / "slurm.conf").write_text(settings)
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    daemons = [
        subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for command in (["slurmctld", "-D", "-c"], ["slurmd", "-D", "-c", "-N", host])
    ]
    try:
        yield
    finally:
        for daemon in daemons:
            daemon.terminate()
        for daemon in daemons:
            daemon.wait()


def _install() -> str:
    """Install Slurm where it is missing; return why there is none, or nothing."""
    if os.geteuid() != 0:
        return "Slurm's node needs root"
    if all(map(shutil.which, ("slurmctld", "slurmd", "sbatch"))):
        return ""
    if shutil.which("apt-get") is None:
        return "Slurm is not installed, and there is no apt-get to install it"
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES]
    for command in (install, ["apt-get", "update"], install):
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if command is install and ended.returncode == 0:
            return ""
    return f"Slurm cannot be installed: {ended.stderr.strip().splitlines()[-1:]}"


def _free_ports() -> list[int]:
    with socket.socket() as first, socket.socket() as second:
        for each in (first, second):
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in (first, second)]


def asked(*command: str) -> str:
    """Run a program of Slurm's and return what it printed."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def of_job(job: str) -> dict[str, str]:
    """Return what the controller knows of a job."""
    words = asked("scontrol", "show", "job", job).split()
    return dict(word.split("=", 1) for word in words if "=" in word)


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Wait until something is so, or fail."""
    last = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < last, f"not after {PATIENCE} s: {what}"
        time.sleep(0.5)


def wait_for_jobs() -> None:
    """Wait until all jobs have ended."""
    wait_until(lambda: not asked("squeue", "--noheader"), "all jobs have ended")
