"""A job of ranks that run the driver on stock NCCL, each a process and, to NCCL, a host of its
own."""

import os
import pathlib
import re
import subprocess
import time

# The emulator has no copy engine for CUDA's virtual memory, no fabric between hosts, and neither
# LL128 nor PAT. Plugins: NCCL 2.28 and 2.29 lose one after its last communicator without the count.
FORCED = {
    "NCCL_CUMEM_ENABLE": "0", "NCCL_CUMEM_HOST_ENABLE": "0", "NCCL_MNNVL_ENABLE": "0",
    "NCCL_PAT_ENABLE": "0", "NCCL_DEBUG": "INFO", "NCCL_NET_PLUGIN_REF_COUNT": "1",
}
# The caller's environment may choose other values.
DEFAULTS = {
    "NCCL_PROTO": "LL,Simple", "NCCL_ALGO": "Ring,Tree", "NCCL_SOCKET_IFNAME": "lo",
}
# NCCL gives the plugin the memory of the emulated GPU, however far that is from the NIC.
GPU_MEMORY = {"EMULATED_CUDA_GPU_DIRECT": "1", "NCCL_NET_GDR_LEVEL": "SYS", "NCCL_NET_GDR_READ": "1"}


class Setup:
    """The programs and NCCL's library for jobs. `plugin` is the path of a network plugin and `net` the
    name of its network; without a plugin NCCL uses its own sockets. `gpu_memory`: the plugin takes
    the memory of emulated GPUs."""

    def __init__(self, programs, library, layout, plugin=None, net=None, gpu_memory=False):
        self.programs = pathlib.Path(programs)
        self.library, self.layout = pathlib.Path(library), pathlib.Path(layout)
        self.plugin, self.net, self.gpu_memory = plugin, net, gpu_memory

    def environment(self, rank, more=None):
        """Returns the environment of a rank; `more` has the last word."""
        env = {name: value for name, value in os.environ.items() if name not in FORCED}
        for name, value in DEFAULTS.items():
            env.setdefault(name, value)
        # NCCL takes a network of this name or none: it may not fall back to another one.
        env |= FORCED | {"NCCL_HOSTID": f"rank{rank}", "NCCL_NET": self.net or "Socket",
                         "NCCL_NET_PLUGIN": str(self.plugin or "none"),
                         "LD_LIBRARY_PATH": str(self.programs),
                         "EMULATED_CUDA_NCCL": str(self.library),
                         "EMULATED_CUDA_LAYOUT": str(self.layout)}
        return env | (GPU_MEMORY if self.gpu_memory else {}) | (more or {})


class Job:
    """A running job. `prefix` gives the words before a rank's command, such as
    `ip netns exec NAME`; `environment` gives its further variables."""

    def __init__(self, setup, folder, test, ranks, arguments=(), prefix=lambda rank: (),
                 environment=lambda rank: {}):
        self.folder = pathlib.Path(folder)
        self.started = time.monotonic()
        self.processes = []
        for rank in range(ranks):
            command = [*prefix(rank), str(setup.programs / "nccl_driver"), test, "--rank", str(rank),
                       "--ranks", str(ranks), "--folder", str(folder), *map(str, arguments)]
            # NCCL's own lines go to another file than the driver's.
            env = setup.environment(rank, {"NCCL_DEBUG_FILE": str(self.nccl_log(rank)),
                                           **environment(rank)})
            with open(self.log(rank), "wb") as log:
                self.processes.append(subprocess.Popen(command, env=env, stdout=log,
                                                       stderr=subprocess.STDOUT))

    def log(self, rank):
        return self.folder / f"rank{rank}.log"

    def nccl_log(self, rank):
        return self.folder / f"nccl{rank}.log"

    def wait(self, limit_s):
        """Waits for the ranks until `limit_s` seconds after the start, then ends the others, with
        the stacks of their threads on file. Returns the exit codes; None for a rank that was ended."""
        codes = []
        for process in self.processes:
            left_s = max(self.started + limit_s - time.monotonic(), 0)
            try:
                codes.append(process.wait(left_s))
            except subprocess.TimeoutExpired:
                codes.append(None)
        for rank, code in enumerate(codes):
            if code is None:
                self.write_stacks(rank)
        self.end()
        return codes

    def write_stacks(self, rank):
        command = ["gdb", "-batch", "-nx", "-p", str(self.processes[rank].pid),
                   "-ex", "thread apply all backtrace 12"]
        with open(self.folder / f"stacks{rank}.txt", "wb") as file:
            try:
                subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False,
                               stdin=subprocess.DEVNULL, timeout=30)
            except (OSError, subprocess.TimeoutExpired):
                pass  # the stacks only help to find a fault

    def end(self):
        """Ends the processes that still run, by their ids."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def output(self, rank):
        return self.log(rank).read_text(errors="replace")

    def network(self):
        """Returns the name of the network that rank 0 uses, with the plugin's interface (v12), and
        "GPU" when it gets the memory of GPUs."""
        path = self.nccl_log(0)
        text = path.read_text(errors="replace") if path.exists() else ""
        used = re.search(r"Using network (\S+)", text)
        version = re.search(r"Loaded net plugin \S+ \((v\d+)\)", text)
        gpu = re.search(r"via NET/\S+/GDRDMA", text) and "GPU"
        return " ".join([match.group(1) for match in (used, version) if match] + [gpu] * bool(gpu))
