#!/usr/bin/env python3
"""Where the processors' time goes in each collective: a sampled profile (`perf record -a`) of the
whole machine while one collective runs back to back, on 4 hosts x 4 unshaped NICs and among 4 ranks
of one host. Needs root and a quiet machine: the shares are those of all samples of all processors.
"""
import collections
import re
import subprocess
import sys

import compare
from lab import Failed, machine, output_of, parser, progress, save
from peers import install

WARMUP_S, SECONDS, TIMEOUT_S = 0.8, 1.6, 60
# The first class whose pattern matches DSO:SYMBOL gets the sample.
CLASSES = {
    "idle": r".*:(pv_native_safe_halt|native_safe_halt|default_idle|cpu_idle|intel_idle|"
            r"acpi_idle|cpuidle|do_idle|poll_idle|cpu_startup)",
    "copies": r"(\[kernel.*:.*(copy_(user|page|from|to)|_copy_|rep_movs|memcpy|clear_page|"
              r"csum_partial_copy|skb_copy|copy_mc)|libc.*:.*mem(cpy|move))",
    "network": r"\[kernel.*:.*(tcp|ip_|ipv4|inet|skb|netif|veth|net_|napi|dev_|sock|csum|qdisc|"
               r"neigh|nf_|fib_|eth_|sch_|dst_|__local_bh|softirq|page_frag|kfree|kmalloc|kmem|"
               r"slab|alloc_page|release_pages)",
    "scheduling": r"\[kernel.*:.*(sched|switch|futex|wake|task|rq|hrtimer|timer|yield|pick_|"
                  r"update_|enqueue|dequeue|reweight|epoll|ep_|poll|eventfd|preempt|clock|rcu|"
                  r"ktime|tick|avg_vruntime|vruntime|cfs|se_)",
    "other kernel": r"\[kernel.*",
    "reduction": r".*:.*(r2ccl::N_|reduce_into|transform)",
    "allocation": r"libc.*:.*(malloc|free|calloc|realloc|unlink_chunk|tcache|sysmalloc)",
    "tags": r"libsodium.*",
    "engine": r"(libr2ccl|r2ccl|libc|ld-|libstdc|\[vdso).*",
}
COMPILED = {name: re.compile(pattern) for name, pattern in CLASSES.items()}
OTHER = "other programs"
TOP = 5


def class_of(dso, symbol):
    for name, pattern in COMPILED.items():
        if pattern.match(f"{dso}:{symbol}"):
            return name
    return OTHER


def profile(place, collective, size):
    """Returns the shares of the classes in percent, and the functions with most samples."""
    data = place.directory / "perf.data"
    argv = place.our_bench("--collective", collective, "-b", size, "-w", 5, "--duration",
                           WARMUP_S + SECONDS, "-c", 0, "--out-of-place")
    recorded = ["perf", "record", "-q", "-a", "-e", "cpu-clock", "-F", 997, "-D",
                int(WARMUP_S * 1000), "-o", data, "--", *argv]
    output_of(place.start([str(word) for word in recorded]), TIMEOUT_S)
    report = subprocess.run(["perf", "report", "-i", data, "--stdio", "--no-children", "-g", "none",
                             "--sort", "dso,sym", "-t", ";"], capture_output=True, text=True)
    if report.returncode != 0:
        raise Failed(f"perf report: {report.stderr[-300:]}")
    return evaluate(report.stdout)


def evaluate(text):
    shares, functions = collections.Counter(), []
    for line in text.splitlines():
        columns = [column.strip() for column in line.split(";", 2)]
        if len(columns) != 3 or not re.fullmatch(r"[\d.]+%", columns[0]):
            continue
        share, dso, symbol = float(columns[0][:-1]), columns[1], re.sub(r"^\[.\] ", "", columns[2])
        kind = class_of(dso, symbol)
        shares[kind] += share
        if kind not in ("idle", OTHER):
            functions.append((share, re.sub(r"[(<].*", "", symbol.replace("r2ccl::", ""))))
    return ({name: round(shares[name], 1) for name in (*CLASSES, OTHER)},
            [[share, name] for share, name in sorted(functions, reverse=True)[:TOP]])


def print_row(name, shares, functions):
    print(f"{name:44}" + "".join(f"{shares[each]:7.1f}" for each in shares) + "  "
          + ", ".join(f"{symbol} {share:.1f}" for share, symbol in functions), flush=True)


def main():
    p = parser(__doc__)
    p.add_argument("--only", default="", help="cells whose name has this text")
    options = p.parse_args()
    install(["perf"])
    print(f"{'% of all samples':44}" + "".join(f"{name[:6]:>7}" for name in (*CLASSES, OTHER)))
    rows = []
    for group in compare.groups_of_collectives():
        if any("Mbit" in cell.name for cell in group.cells.values()):
            continue  # there the wire is the limit
        if not group.select(options.only):
            continue
        with group.make_place(options) as place:
            for size, cell in group.cells.items():
                try:
                    shares, functions = profile(place, group.collective, size)
                except Failed as error:
                    progress(f"{cell.name}: {error}")
                    continue
                print_row(cell.name, shares, functions)
                rows.append({"cell": cell.name, "shares": shares, "functions": functions})
    save(options.json, {"what": "profile_collectives", "machine": machine(), "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
