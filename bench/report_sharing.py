"""The pages of bench/results on what a job costs others: two communicators, and a job that is idle."""
from report_text import Target, find, num, origin, table

SHARE = (0.45, 0.55)
TAIL_FACTOR = 3
IDLE_SHAPE = (16, 8)
IDLE_PERCENT, LINK_KB = 0.05, 40


def tail_factor(case):
    """Returns how many times as long the slow operations of the first communicator take beside the
    second one."""
    together, alone = (find(case, f"first_{state}_ms", "p99") for state in ("together", "alone"))
    return together / alone if together and alone else None


def communicator_targets(document):
    yield Target("Two communicators, equal work: share of the first", "45 to 55 %",
                 find(document, "cases", "equal", "share_of_first"),
                 lambda v: SHARE[0] <= v <= SHARE[1], lambda v: f"{num(100 * v)} %")
    yield Target("64 KB beside 64 MB: p99 over p99 alone", f"under {TAIL_FACTOR}",
                 tail_factor(find(document, "cases", "unequal")),
                 lambda v: v < TAIL_FACTOR, lambda v: num(v, 1))


def communicators(document):
    rate = document["rate_mbit"]
    lines = ["Two communicators of the same ranks, each used by a thread of its own: both with 1 MB, "
             "and one with 64 KB beside one with 64 MB. NICs of "
             f"{f'{rate} Mbit/s' if rate else 'unbounded rate'}.", ""] + origin(document["machine"])
    rows = []
    for name, case in document["cases"].items():
        for which in ("first", "second"):
            for state in ("alone", "together"):
                spent = case[f"{which}_{state}_ms"]
                rows.append([name, which, state, num(spent["operations"], 0),
                             num(spent["median"], 2), num(spent["p99"], 2)])
    return lines + table(["case", "communicator", "", "operations", "median ms", "p99 ms"], rows)


def link_kb(jobs):
    """Returns the memory of a link that has carried nothing: the difference between the jobs with
    most and fewest ranks on as many NICs, for each of their links."""
    same = sorted((job["ranks"], job["ready_kb_median"]) for job in jobs
                  if job["nics"] == IDLE_SHAPE[1])
    if len(same) < 2:
        return None
    (few, less), (many, more) = same[0], same[-1]
    return (more - less) / (many - few)


def idle_targets(document):
    jobs = find(document, "jobs") or []
    job = next((job for job in jobs if (job["ranks"], job["nics"]) == IDLE_SHAPE), None)
    yield Target("Idle, 16 ranks x 8 NICs, processor of a rank", f"at most {IDLE_PERCENT} % of a core",
                 find(job, "core_percent_median"), lambda v: v <= IDLE_PERCENT,
                 lambda v: f"{num(v, 3)} %")
    yield Target("Memory of a link with 8 NICs that has carried nothing", f"at most {LINK_KB} KB", link_kb(jobs),
                 lambda v: v <= LINK_KB, lambda v: f"{num(v, 1)} KB")


def idle(document):
    lines = [f"Each host runs one rank, which does nothing for {document['seconds']:g} s. The memory is "
             "the growth of its resident set since before the communicator: when the communicator is "
             "ready, and after 20 AllReduces of 1 MB and the idle time.", ""]
    return lines + origin(document["machine"]) + table(
        ["ranks x NICs", "paths of a rank", "% of a core, median", "max", "wake-ups a second",
         "RSS KB when ready", "at the end"],
        [[f"{job['ranks']} x {job['nics']}", job["paths_of_a_rank"],
          num(job["core_percent_median"], 3), num(job["core_percent_max"], 3),
          num(job["wakeups_per_s"], 1), num(job["ready_kb_median"], 0),
          num(job["resident_kb_median"], 0)]
         for job in document["jobs"]])
