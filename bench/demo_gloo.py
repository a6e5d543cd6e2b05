#!/usr/bin/env python3
"""The faults of `r2ccl demo` under Gloo, for the grey line of the demo's picture: the same lab, the
same size of operation, the same faults at the same times, one Gloo context per NIC.

Writes tools/demo/demo_gloo.cc, which the command draws. Run it on a quiet machine:

    python3 bench/demo_gloo.py

The script records a job as it is, even if it ends early, or makes no progress until long after the
last repair.
"""
import select
import sys
import tempfile
import time

import lab as lab_module
import peers
from lab import BUS_FACTOR, Lab, machine, progress

OUTPUT = lab_module.ROOT / "tools/demo/demo_gloo.cc"
BYTES = 4 << 20
BIN_S = 0.1
FAULT_S, MEND_S = 6, 4  # as DemoOptions
VICTIM = 2
# As make_demo_schedule() in tools/demo/demo_schedule.cc.
FAULTS = [([1], ["down"]), ([2], ["hole"]), ([3], ["slow", "25"]), ([0, 1], ["pull"])]


def schedule():
    """Returns [(time, NICs, fault or None for the repair)]."""
    steps, now = [], MEND_S
    for nics, fault in FAULTS:
        steps += [(now, nics, fault), (now + FAULT_S, nics, None)]
        now += FAULT_S + MEND_S
    return steps, now


def run(lab):
    """Returns the operations as (start, end) since the first one, and how the job ended."""
    gloo = peers.Gloo()
    gloo.build(lab.directory)
    steps, end_s = schedule()
    store = tempfile.mkdtemp(dir=lab.directory)
    job = lab.start(lab.on_all(gloo.program, store, peers.nic_list(lab), f"{BYTES}:for:{end_s}"))
    operations, begin, text = [], None, ""
    deadline = time.monotonic() + 30
    other = []
    while time.monotonic() < deadline:
        ready, _, _ = select.select([job.stdout], [], [], 0.02)
        if ready:
            line = job.stdout.readline()
            if not line:
                break
            words = line.split()
            if len(words) != 2 or not words[0][0].isdigit():
                other.append(line.strip())
                continue
            start, end = map(float, words)
            if begin is None:
                begin = start
                deadline = begin + end_s
                progress("the first operation has ended")
            operations.append((start - begin, end - begin))
        while begin is not None and steps and time.monotonic() - begin >= steps[0][0]:
            at, nics, fault = steps.pop(0)
            progress(f"{at} s: {nics} {fault or 'mended'}")
            for nic in nics:
                if fault:
                    lab.fault(VICTIM, nic, *fault)
                else:
                    lab.fix(VICTIM, nic)
    ended = job.poll() if job.poll() is not None else "running"
    stopped_s = time.monotonic() - (begin or 0)
    lab_module.stop(job)
    return operations, end_s, ended, stopped_s, other


def bins(operations, end_s):
    """Returns bus MB/s for each tenth of a second; the bytes of an operation are spread over its
    duration."""
    rates = [0.0] * round(end_s / BIN_S)
    for start, end in operations:
        per_s = BYTES * BUS_FACTOR / max(end - start, 1e-9) / 1e6
        first = int(start / BIN_S)
        for i in range(first, min(int(end / BIN_S) + 1, len(rates))):
            share = min(end, (i + 1) * BIN_S) - max(start, i * BIN_S)
            rates[i] += per_s * max(share, 0) / BIN_S
    return rates


def day_of(version):
    """Returns 2022-05-18 for 0.0~git20220518.5b14351-3."""
    digits = version.partition("git")[2][:8]
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}" if digits.isdigit() else version


def source(rates, where, versions, outcome):
    rows = []
    for i in range(0, len(rates), 16):
        rows.append("    " + ", ".join(f"{rate:.0f}" for rate in rates[i:i + 16]) + ",")
    return f"""// AllReduce of 4 MB under Gloo {versions['Gloo']}, one context per NIC, in a lab of
// 4 hosts x 4 NICs x 250 Mbit/s, with the demo's faults at the demo's times: bus MB/s in each
// tenth of a second.
//
// Written by `{where['command']}` on {where['date']},
// {where['cores']} cores {where['cpu']}, Linux {where['kernel']}.
// {outcome}
#include "demo_gloo.h"

namespace r2ccl::tools {{

std::span<const float> demo_gloo_mbps() {{
  // clang-format off
  static constexpr float kMbps[] = {{
{chr(10).join(rows)}
  }};
  // clang-format on
  return kMbps;
}}

const char* demo_gloo_source() {{
  return "Gloo of {day_of(versions['Gloo'])}, measured {where['date'][:10]}";
}}

}}  // namespace r2ccl::tools
"""


def main():
    args = lab_module.parser(__doc__).parse_args()
    peers.install()
    with Lab(args.r2ccl, args.name) as lab:
        operations, end_s, ended, stopped_s, other = run(lab)
    if not operations:
        sys.exit("no operation ended: " + " ".join(other[-5:]))
    last = operations[-1][1]
    state = "was still running" if ended == "running" else f"had ended with status {ended}"
    outcome = (f"{len(operations)} operations, the last of which ended after {last:.1f} s; after "
               f"{stopped_s:.0f} s the job {state}.")
    progress(outcome)
    for line in other[-5:]:
        progress(line)
    OUTPUT.write_text(source(bins(operations, end_s), machine(), peers.versions(), outcome))
    progress(f"wrote {OUTPUT}")


if __name__ == "__main__":
    main()
