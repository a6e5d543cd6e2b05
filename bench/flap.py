#!/usr/bin/env python3
"""A path that flaps: one cable is out for 1.5 s every 3 s, 20 times, under AllReduce of 1 MB with every
element checked, on 4 hosts x 4 NICs x 250 Mbit/s, with R2CCL_DAMPING=0.

The NIC has returned when it carries data in both directions, by the kernel's counters, before the
cable is pulled again. Nothing may be wrong.
"""
import sys
import time

from lab import Failed, Lab, machine, median, parser, progress, save

BYTES = 1 << 20
VICTIM = (1, 2)  # host, NIC


def flap(lab, run, times, period):
    """Seconds from each repair to the NIC's return; None where it did not."""
    returns = []
    for number in range(times):
        begin = time.monotonic()
        lab.fault(*VICTIM, "pull")
        time.sleep(max(0, begin + period / 2 - time.monotonic()))
        lab.fix(*VICTIM)
        fixed = time.monotonic()
        left = begin + period - fixed
        returned = run.wait_for_traffic(*VICTIM, timeout=left)
        returns.append(time.monotonic() - fixed if returned else None)
        if not run.running():
            break
        progress(f"pull {number + 1}/{times}: " + (f"back after {returns[-1]:.2f} s" if returned
                                                   else f"not back within {left:.2f} s"))
        time.sleep(max(0, begin + period - time.monotonic()))
    return returns


def main():
    p = parser(__doc__)
    p.add_argument("--times", type=int, default=20)
    p.add_argument("--period", type=float, default=3.0, help="seconds; the cable is out for half")
    options = p.parse_args()
    if options.quick:
        options.times = 2
    document = {"what": "flap", "machine": machine(), "times": options.times,
                "period_s": options.period, "error": None}
    with Lab(options.r2ccl, options.name) as lab:
        seconds = options.times * options.period + 2
        run = lab.start_bench("-b", BYTES, "-w", 5, "--duration", seconds, "-c", 1,
                              environment={"R2CCL_DAMPING": "0"})
        document["bench"] = run.text
        returns = []
        try:
            if run.wait_for_traffic(*VICTIM):
                returns = flap(lab, run, options.times, options.period)
            run.wait(seconds + 60)
            document.update(verdicts=run.result["verdicts"], op_ms=run.result["op_ms"],
                            operations=run.result["operations"],
                            checked_elements=run.result["checked_elements"],
                            wrong_elements=run.result["wrong_elements"])
        except Failed as error:
            document["error"] = str(error)
    back = [value for value in returns if value is not None]
    document.update(pulled=len(returns), returned=len(back), return_s=returns,
                    return_median_s=median(back), return_max_s=max(back, default=None))
    print(f"pulled {len(returns)} times, returned {len(back)} times"
          + (f" after {median(back):.2f} s (at most {max(back):.2f} s)" if back else "")
          + f", {document.get('operations')} operations, {document.get('checked_elements')} elements,"
          f" {document.get('wrong_elements')} wrong, {len(document.get('verdicts', []))} verdicts"
          + (f", error: {document['error']}" if document["error"] else ""))
    save(options.json, document)
    right = document.get("wrong_elements") == 0 and len(back) == options.times
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
