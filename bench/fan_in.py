#!/usr/bin/env python3
"""Fan-in: 8 hosts x 4 NICs x 100 Mbit/s, all ranks send 1 MB to each rank at the same time (8 MB in
all, by Send and Recv), so that seven senders share each receiving NIC. No path may become suspect.

The line is the TCP payload that the NICs of one host carry; every element is checked in a run of
its own.
"""
import sys

from lab import Lab, PAYLOAD_SHARE, machine, parser, progress, save, spread

HOSTS, NICS, NIC_MBIT = 8, 4, 100
BYTES = 8 << 20
LINE_MBPS = NICS * NIC_MBIT / 8 * PAYLOAD_SHARE


def summary(run):
    result = run.result["results"][0]
    return {"busbw_MBps": result["busbw_MBps"],
            "line_percent": 100 * result["busbw_MBps"] / LINE_MBPS,
            **{name: run.result[name] for name in (
                "op_ms", "checked_elements", "wrong_elements", "suspicions", "mirrored_bytes",
                "verdicts")}}


def main():
    p = parser(__doc__)
    p.add_argument("--repetitions", type=int, default=5)
    p.add_argument("--iters", type=int, default=20)
    options = p.parse_args()
    if options.quick:
        options.repetitions, options.iters = 1, 3
    document = {"what": "fan_in", "machine": machine(), "line_MBps": LINE_MBPS, "runs": []}
    with Lab(options.r2ccl, options.name, HOSTS, NICS, NIC_MBIT) as lab:
        common = ("--collective", "alltoall", "-b", BYTES, "-w", 2, "--iters", options.iters)
        for number in range(options.repetitions):
            run = lab.bench(*common, "-c", 0)
            document["bench"] = run.text
            document["runs"].append(summary(run))
            progress(f"{number + 1}/{options.repetitions}: "
                     f"{document['runs'][-1]['line_percent']:.1f} % of line")
        document["checked"] = summary(lab.bench(*common, "-c", 1))
    runs = document["runs"] + [document["checked"]]
    document["line_percent"] = spread([run["line_percent"] for run in document["runs"]])
    for name in ("suspicions", "mirrored_bytes"):
        document[name] = sum(run[name] for run in runs)
    document["wrong_elements"] = document["checked"]["wrong_elements"]
    document["verdicts"] = sum(len(run["verdicts"]) for run in runs)
    share = document["line_percent"]
    print(f"{share['median']:.1f} % of line ({share['min']:.1f} to {share['max']:.1f}, "
          f"{share['runs']} runs), {document['suspicions']} suspicions, {document['verdicts']} "
          f"verdicts, {document['wrong_elements']} of "
          f"{document['checked']['checked_elements']} elements wrong")
    save(options.json, document)
    return 0 if document["wrong_elements"] == 0 and document["verdicts"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
