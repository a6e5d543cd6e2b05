"""Open MPI and Gloo from Debian, in the same lab and timed the same way. r2ccl needs neither to
build: this script installs a missing one, for the comparison only."""
import pathlib
import shutil
import subprocess
import tempfile

from lab import BENCH_DIR, Failed, HOSTS, NICS, output_of, progress

PACKAGES = {"mpirun": ["openmpi-bin"], "mpicc": ["libopenmpi-dev"], "g++": ["g++"]}
GLOO_HEADER = pathlib.Path("/usr/include/gloo/allreduce.h")
NIC_LIST = ",".join(f"nic{k}" for k in range(NICS))


def install():
    wanted = [name for program, names in PACKAGES.items() if not shutil.which(program)
              for name in names]
    if not GLOO_HEADER.exists():
        wanted.append("libgloo-dev")
    if not wanted:
        return
    progress(f"installing {' '.join(wanted)}")
    command = ["apt-get", "install", "-y", "--no-install-recommends", *wanted]
    if subprocess.run(command, capture_output=True).returncode != 0:
        subprocess.run(["apt-get", "update"], capture_output=True, check=True)
        subprocess.run(command, capture_output=True, check=True)


def version(package):
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], text=True,
                          capture_output=True)
    return done.stdout.strip() or "not installed"


class Peer:
    """One program with one setting. `build` returns whether it can run here."""

    name = ""
    compiler = []
    source = ""

    def build(self, directory):
        self.program = directory / pathlib.Path(self.source).stem
        if self.program.exists():
            return
        done = subprocess.run([self.compiler[0], "-O3", "-o", self.program,
                               BENCH_DIR / "peers" / self.source, *self.compiler[1:]],
                              text=True, capture_output=True)
        if done.returncode != 0:
            raise Failed(f"{self.name}: {done.stderr.strip()[-1500:]}")

    def run(self, lab, plan, timeout):
        """plan: [(bytes, warmup, iterations)]. Returns {bytes: [seconds]} over all operations."""
        words = [f"{size}:{warmup}:{iterations}" for size, warmup, iterations in plan]
        try:
            text = output_of(self.start(lab, words), timeout)
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
    source = "mpi_allreduce.c"

    def __init__(self, name, settings):
        self.name = name
        self.settings = settings

    def start(self, lab, words):
        hosts = ",".join(f"h{i}:1" for i in range(HOSTS))
        mca = {"plm_rsh_agent": BENCH_DIR / "peers/lab-rsh.sh", "pml": "ob1", "btl": "tcp,self",
               "btl_tcp_if_include": NIC_LIST, "oob_tcp_if_include": "mgmt",
               # All "hosts" share the cores of one machine: a rank that spins would starve the
               # others.
               "mpi_yield_when_idle": 1, **self.settings}
        options = [word for key, value in mca.items() for word in ("--mca", key, value)]
        return lab.start([lab.r2ccl, "lab", "run", "h0", "mpirun", "--allow-run-as-root", "-np",
                          HOSTS, "--host", hosts, "--bind-to", "none", *options, self.program,
                          *words])


class Gloo(Peer):
    name = "Gloo, striped by hand"
    # The reduction functions of Gloo's headers are templates, so r2ccl's optimization flags apply
    # to them.
    compiler = ["g++", "-std=c++17", "-pthread", "-lgloo"]
    source = "gloo_allreduce.cc"

    def start(self, lab, words):
        store = tempfile.mkdtemp(dir=lab.directory)
        return lab.start(lab.on_all(self.program, store, NIC_LIST, *words))


def available(lab):
    """Returns the peers that run here, and the others with the reason."""
    peers = [OpenMpi("Open MPI, default", {}),
             OpenMpi("Open MPI, ring", {"coll_tuned_use_dynamic_rules": 1,
                                        "coll_tuned_allreduce_algorithm": 4}),
             Gloo()]
    missing = {}
    try:
        install()
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        missing["installation"] = str(error)
    ready = []
    for peer in peers:
        try:
            peer.build(lab.directory)
            peer.run(lab, [(65536, 1, 2)], timeout=30)
            ready.append(peer)
        except (Failed, FileNotFoundError) as error:
            progress(f"left out: {error}")
            missing[peer.name] = str(error)
    return ready, missing


def versions():
    return {"Open MPI": version("openmpi-bin"), "Gloo": version("libgloo-dev")}
