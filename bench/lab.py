"""Shared by the bench scripts: the lab, one run of `r2ccl bench`, counters, and small statistics.

The lab is `r2ccl lab`: hosts as network namespaces with shaped NICs. Counters come from /proc of
each host's holder process, so that reading a NIC's counters starts no program beside the
measurement.
"""
import argparse
import contextlib
import datetime
import json
import os
import pathlib
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time

BENCH_DIR = pathlib.Path(__file__).resolve().parent
ROOT = BENCH_DIR.parent

NIC_MBIT = 250
HOSTS = 4
NICS = 4
# The TCP payload of 4 x 250 Mbit/s after Ethernet, IP and TCP headers with timestamps: 1448 bytes
# of payload in each 1514 that the shaper counts.
PAYLOAD_SHARE = 1448 / 1514
LINE_MBPS = 119.5
NIC_PAYLOAD_MBPS = LINE_MBPS / NICS
BUS_FACTOR = 2 * (HOSTS - 1) / HOSTS


def progress(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def median(values):
    return statistics.median(values) if values else None


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else None


def spread(values):
    return {"median": median(values), "min": min(values, default=None),
            "max": max(values, default=None), "runs": len(values)}


def bus_mbps(size, seconds):
    return size * BUS_FACTOR / seconds / 1e6


def wall(verdict):
    """Returns the verdict's own time of detection, by the wall clock."""
    return datetime.datetime.fromisoformat(verdict["at"].replace("Z", "+00:00")).timestamp()


def cpu_jiffies():
    """Returns all CPU time since the start of the machine, and the part that its host took away
    from it."""
    user_to_steal = [int(field) for field in open("/proc/stat").readline().split()[1:9]]
    return sum(user_to_steal), user_to_steal[7]


CPU_AT_START = cpu_jiffies()


def machine():
    """Returns the machine and the time, for the head of every result."""
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo")
                if line.startswith("model name")), "unknown")
    memory_kb = int(open("/proc/meminfo").readline().split()[1])
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], text=True,
                            capture_output=True).stdout.strip()
    return {"cpu": cpu, "cores": os.cpu_count(), "memory_gib": round(memory_kb / 2**20, 1),
            "kernel": os.uname().release, "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            "commit": commit, "load_before": round(os.getloadavg()[0], 2),
            "command": shlex.join(["python3", os.path.relpath(sys.argv[0], ROOT), *sys.argv[1:]])}


def parser(description):
    p = argparse.ArgumentParser(description=description,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--r2ccl", default=str(ROOT / "build/r2ccl"), help="the command to measure")
    p.add_argument("--name", default="r2bench", help="name of the lab to make")
    p.add_argument("--json", type=pathlib.Path, help="write the results here")
    p.add_argument("--quick", action="store_true", help="a few seconds: shows that it works, no more")
    return p


def save(path, document):
    """Records the share of CPU time that the machine's host took away during the block. With more
    than a little of it, a figure says more about the host than about r2ccl."""
    total, stolen = (now - then for now, then in zip(cpu_jiffies(), CPU_AT_START))
    document["machine"]["stolen_percent"] = round(100 * stolen / max(total, 1), 2)
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1) + "\n")
        progress(f"wrote {path}")


def stop(process):
    """Ends a program that ran too long, and its children, with SIGTERM first."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(timeout=5)
    return process.wait()


class Failed(Exception):
    pass


def trials_of(one, trials, kinds, rng, errors):
    """Yields the results of one(kind): `trials` rounds of all kinds, in random order. Failures go
    to `errors`."""
    for number in range(trials):
        for kind in rng.sample(kinds, len(kinds)):
            progress(f"trial {number + 1}/{trials}, {kind}")
            try:
                yield one(kind)
            except Failed as error:
                progress(str(error))
                errors.append(f"{kind}: {error}")


class Place:
    """Where programs run. `environment` is that of the programs."""

    def start(self, argv, environment=None):
        return subprocess.Popen([str(word) for word in argv], text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, start_new_session=True,
                                env=dict(self.environment, **(environment or {})))


class Lab(Place):
    """A lab that is up; `with Lab(...)` takes it down again."""

    def __init__(self, r2ccl, name, hosts=HOSTS, nics=NICS, mbit=NIC_MBIT, options=()):
        self.options = options
        self.hosts, self.nics, self.mbit = hosts, nics, mbit
        self.r2ccl = str(pathlib.Path(r2ccl).resolve())
        self.name = name
        self.environment = dict(os.environ, R2CCL_LAB=name, R2CCL_SOCKET_IFNAME="nic",
                                R2CCL=self.r2ccl)
        if not os.access(self.r2ccl, os.X_OK):
            sys.exit(f"{self.r2ccl} is missing: run `make` first, or name it with --r2ccl")

    def __enter__(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="r2bench-")
        self.directory = pathlib.Path(self.scratch.name)
        self.command("up", self.hosts, self.nics, self.mbit, *self.options)
        state = json.loads(pathlib.Path("/run/r2ccl-lab", self.name, "lab.json").read_text())
        self.holders = state["holders"]
        return self

    def __exit__(self, *unused):
        self.command("down")
        self.scratch.cleanup()

    def command(self, *words):
        done = subprocess.run([self.r2ccl, "lab", *map(str, words)], env=self.environment,
                              text=True, capture_output=True, timeout=60)
        if done.returncode != 0:
            raise Failed(f"r2ccl lab {' '.join(map(str, words))}: {done.stderr.strip()}")
        return done.stdout

    def fault(self, host, nic, *kind):
        """Breaks the NIC. Returns, by the monotonic clock, a time surely before the fault and one
        surely under it."""
        before = time.monotonic()
        printed = self.command("fault", f"h{host}", f"nic{nic}", *kind)
        return before, float(printed.partition(", at ")[2].split()[0])

    def fix(self, host, nic):
        self.command("fix", f"h{host}", f"nic{nic}")

    def bytes_of(self, host):
        """Returns {nic: (received, sent)} as the kernel counts, headers included."""
        counters = {}
        for line in open(f"/proc/{self.holders[host]}/net/dev"):
            name, found, rest = line.partition(":")
            if found and name.strip().startswith("nic"):
                words = rest.split()
                counters[name.strip()] = (int(words[0]), int(words[8]))
        return counters

    def sent_bytes(self):
        return {f"h{host}": {nic: both[1] for nic, both in self.bytes_of(host).items()}
                for host in range(self.hosts)}

    def on_all(self, *argv):
        return [self.r2ccl, "lab", "all", *argv]

    def start_bench(self, *options, environment=None):
        return BenchRun(self, options, environment)

    def bench(self, *options, environment=None, timeout=120):
        return self.start_bench(*options, environment=environment).wait(timeout)


def difference(after, before):
    return {host: {nic: count - before[host][nic] for nic, count in nics.items()}
            for host, nics in after.items()}


def output_of(process, timeout):
    try:
        text, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        stop(process)
        raise Failed(f"still running after {timeout:.0f} s") from None
    if process.returncode != 0:
        raise Failed(f"status {process.returncode}: {text.strip()[-1500:]}")
    return text


class Operation:
    """One line of the operation log: rank 0's start, the slowest rank's duration, in seconds."""

    def __init__(self, line):
        words = line.split()
        self.size = int(words[1])
        self.start = float(words[2])
        self.seconds = float(words[4]) / 1e6
        self.end = self.start + self.seconds


class BenchRun:
    """One `r2ccl bench` on all hosts, while it runs."""

    runs = 0

    def __init__(self, lab, options, environment):
        BenchRun.runs += 1
        self.json_path = lab.directory / f"bench{BenchRun.runs}.json"
        self.log_path = lab.directory / f"bench{BenchRun.runs}.log"
        argv = [lab.r2ccl, "bench", *map(str, options)]
        self.text = shlex.join(["r2ccl", *argv[1:]])
        self.lab = lab
        self.before = lab.sent_bytes()
        self.process = lab.start(lab.on_all(*argv, "--json", self.json_path, "--op-log",
                                            self.log_path), environment)

    def running(self):
        return self.process.poll() is None

    def wait_for_traffic(self, host, nic, more_than=100_000, timeout=30, both_ways=True):
        """Returns whether the NIC comes to carry data, both ways or one: more than probes and
        handshakes."""
        least = min if both_ways else max
        name = f"nic{nic}"
        start = self.lab.bytes_of(host)[name]
        deadline = time.monotonic() + timeout
        while self.running() and time.monotonic() < deadline:
            now = self.lab.bytes_of(host)[name]
            if least(now[0] - start[0], now[1] - start[1]) > more_than:
                return True
            time.sleep(0.01)
        return False

    def wait(self, timeout):
        """Waits for the end; raises Failed, with the operations logged until then in
        self.operations."""
        self.operations = []
        try:
            self.output = output_of(self.process, timeout)
        except Failed as error:
            self.read_log()
            raise Failed(f"{self.text}: {error}") from None
        self.result = self.load()
        self.sent = difference(self.lab.sent_bytes(), self.before)
        self.read_log()
        return self

    def counts(self):
        """Returns the summary of a run that checks elements and counts verdicts."""
        return {name: self.result[name] for name in (
            "operations", "checked_elements", "wrong_elements", "suspicions", "mirrored_bytes",
            "replayed_bytes", "op_ms", "max_gap_ms", "verdicts")}

    def load(self):
        """Returns the result that the program wrote at its end."""
        if not self.json_path.exists():
            raise Failed(f"{self.text}: it left no result")
        return json.loads(self.json_path.read_text())

    def read_log(self):
        if self.log_path.exists():
            self.operations = [Operation(line) for line in self.log_path.read_text().splitlines()
                               if not line.startswith("#")]

    @property
    def seconds(self):
        return [operation.seconds for operation in self.operations]
