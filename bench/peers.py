"""Open MPI and Gloo from Debian, in the same lab and timed the same way. r2ccl needs neither to
build: this script installs a missing one, for the comparison only."""
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile

from lab import BENCH_DIR, Failed, output_of, progress

PACKAGES = {"mpirun": ["openmpi-bin"], "mpicc": ["libopenmpi-dev"], "g++": ["g++"]}
GLOO_HEADER = pathlib.Path("/usr/include/gloo/allreduce.h")


def nic_list(lab):
    return ",".join(f"nic{k}" for k in range(lab.nics))


def install(more=()):
    """Installs the missing packages. `more`: packages that have the name of their program."""
    packages = {**PACKAGES, **{name: [name] for name in more}}
    wanted = [name for program, names in packages.items() if not shutil.which(program)
              for name in names]
    if not GLOO_HEADER.exists():
        wanted.append("libgloo-dev")
    if not wanted:
        return
    progress(f"installing {' '.join(wanted)}")
    command = ["apt-get", "install", "-y", "--no-install-recommends", *wanted]
    silent = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    if subprocess.run(command, capture_output=True, env=silent).returncode != 0:
        subprocess.run(["apt-get", "update"], capture_output=True, check=True)
        subprocess.run(command, capture_output=True, check=True, env=silent)


def version(package):
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], text=True,
                          capture_output=True)
    return done.stdout.strip() or "not installed"


class Peer:
    """One program with one setting. build() raises Failed if it cannot run here; argv() is its
    command line in a lab; `command` is the last one run, as text."""

    name = ""
    compiler = []
    source = ""
    command = None

    def build(self, directory):
        source = BENCH_DIR / "peers" / self.source
        self.program = directory / source.stem
        if self.program.exists() and self.program.stat().st_mtime > source.stat().st_mtime:
            return
        done = subprocess.run([self.compiler[0], "-O3", "-o", self.program, source,
                               *self.compiler[1:]], text=True, capture_output=True)
        if done.returncode != 0:
            raise Failed(f"{self.name}: {done.stderr.strip()[-1500:]}")

    def run(self, lab, plan, timeout):
        """plan: [(bytes, warmup, iterations)]. Returns {bytes: [seconds]} over all operations."""
        words = [f"{size}:{warmup}:{iterations}" for size, warmup, iterations in plan]
        argv = [str(word) for word in self.argv(lab, words)]
        self.command = shlex.join(argv)
        try:
            text = output_of(lab.start(argv), timeout)
        except Failed as error:
            raise Failed(f"{self.name}: {error}") from None
        measured = {}
        for line in text.splitlines():
            columns = line.split()
            if len(columns) < 3 or not columns[0].isdigit():
                continue
            if columns[1] != "0":
                raise Failed(f"{self.name}: {columns[1]} wrong elements at {columns[0]} bytes")
            measured[int(columns[0])] = [float(us) / 1e6 for us in columns[2:]]
        return measured


class OpenMpi(Peer):
    compiler = ["mpicc"]
    source = "mpi_collective.c"

    def __init__(self, name, settings, collective="all_reduce"):
        self.name = name
        self.settings = settings
        self.collective = collective

    def argv(self, lab, words):
        hosts = ",".join(f"h{i}:1" for i in range(lab.hosts))
        return [lab.r2ccl, "lab", "run", "h0",
                *self.mpirun(lab.hosts, "--host", hosts, mca={
                    "plm_rsh_agent": BENCH_DIR / "peers/lab-rsh.sh", "btl": "tcp,self",
                    "btl_tcp_if_include": nic_list(lab), "oob_tcp_if_include": "mgmt"}), *words]

    def mpirun(self, ranks, *where, mca):
        # All ranks share the cores of one machine: a rank that spins would starve the others.
        mca = {"pml": "ob1", "mpi_yield_when_idle": 1, **mca, **self.settings}
        options = [word for key, value in mca.items() for word in ("--mca", key, value)]
        return ["mpirun", "--allow-run-as-root", "-np", ranks, *where, "--bind-to", "none",
                *options, self.program, self.collective]


class LocalOpenMpi(OpenMpi):
    """Ranks of one host, outside any lab: `place` has as many as `ranks`."""

    def argv(self, place, words):
        return [*self.mpirun(place.ranks, "--oversubscribe", mca={
            "plm": "isolated", "oob_tcp_if_include": "lo"}), *words]


class Gloo(Peer):
    name = "Gloo, striped by hand"
    # The reduction functions of Gloo's headers are templates, so r2ccl's optimization flags apply
    # to them.
    compiler = ["g++", "-std=c++17", "-pthread", "-lgloo"]
    source = "gloo_allreduce.cc"

    def argv(self, lab, words):
        store = tempfile.mkdtemp(dir=lab.directory)
        return lab.on_all(self.program, store, nic_list(lab), *words)


def all_in_lab(collective="all_reduce"):
    """Returns the peers that have the collective."""
    if collective != "all_reduce":
        return [OpenMpi("Open MPI, default", {}, collective)]
    return [OpenMpi("Open MPI, default", {}),
            OpenMpi("Open MPI, ring", {"coll_tuned_use_dynamic_rules": 1,
                                       "coll_tuned_allreduce_algorithm": 4}),
            Gloo()]


def available(lab, peers=None, directory=None):
    """Returns the peers that run here, and the others with the reason. `directory`: where their
    programs are built."""
    missing = {}
    try:
        install()
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        missing["installation"] = str(error)
    ready = []
    for peer in peers or all_in_lab():
        try:
            peer.build(directory or lab.directory)
            peer.run(lab, [(65536, 1, 2)], timeout=30)
            ready.append(peer)
        except (Failed, FileNotFoundError) as error:
            progress(f"left out: {error}")
            missing[peer.name] = str(error)
    return ready, missing


def versions():
    return {"Open MPI": version("openmpi-bin"), "Gloo": version("libgloo-dev")}
