#!/usr/bin/env python3
"""PyTorch jobs (examples/pytorch) in the lab, while NICs are pulled, black-holed, slowed and
restored: the bits of losses and weights, the cost of a lost NIC, the latency of requests, Gloo
beside it, and recovery beside a restart from a checkpoint.

Needs root, and a Python with torch (--python). A whole run takes about 40 minutes on 2 cores, and
wants a quiet machine. With --quick it runs `digits` alone, unless --only names sections.
With --only the other sections of the --json file stay as they are.
"""
import json
import pathlib
import signal
import sys

import lab as lab_module
import torch_sections as sections
import torch_svg
from lab import Failed, machine, progress, save

SECTIONS = {
    "digits": sections.digits,
    "picture": sections.picture,
    "bits": sections.bits,
    "cost4": lambda bench: sections.cost(bench, 4, *bench.count((20, 40), (2, 12)),
                                         *sections.MEDIUM),
    "overhead": sections.overhead,
    "serving": sections.serving,
    "restart": sections.restart,
    "cost8": lambda bench: sections.cost(bench, 8, *bench.count((150, 50), (2, 12)),
                                         *sections.MEDIUM, "--bucket-mb", 0.5),
    "gloo1": lambda bench: sections.against_gloo(bench, 1, *sections.MEDIUM, "--batch", 8),
    "gloo4": lambda bench: sections.against_gloo(bench, 4, "--batch", 1, "--width", 256),
    "libraries": sections.libraries,
}


def earlier(options):
    """Returns the sections of an earlier run that --only leaves as they are."""
    if not options.only or not options.json or not options.json.exists():
        return {}
    return json.loads(options.json.read_text())


def main():
    p = lab_module.parser(__doc__)
    p.add_argument("--python", default=sys.executable, help="a Python with torch")
    p.add_argument("--only", nargs="+", choices=SECTIONS, metavar="SECTION",
                   help=f"of {', '.join(SECTIONS)}")
    p.add_argument("--svg", type=pathlib.Path, help="draw the picture's run here")
    options = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # takes the lab down
    before = machine()
    document = {**earlier(options), "what": "torch_faults", "machine": before, "errors": []}
    bench = sections.Bench(options)
    for name in options.only or (["digits"] if options.quick else SECTIONS):
        # The load before the first section: the later ones would count the load of earlier ones.
        document.setdefault("measured", {})[name] = {**machine(),
                                                     "load_before": before["load_before"]}
        try:
            document[name] = SECTIONS[name](bench)
        except Failed as error:
            progress(f"{name}: {error}")
            document["errors"].append(f"{name}: {error}"[:400])
        if name == "picture" and options.svg and name in document:
            options.svg.write_text(torch_svg.draw(document[name]))
        save(options.json, document)  # what is measured is kept, however the rest ends
    return 1 if document["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
