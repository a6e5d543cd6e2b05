"""The page of bench/results on jobs of many ranks."""
from report_text import Target, num, origin, size_text, table

NAMES = {"ring": "ring", "hd": "halving-doubling"}
FEW, MANY = 16, 256


def growth(document, algorithm):
    """Returns by which factor the instructions and the steps of a rank's operation grow."""
    rows = {row["ranks"]: row for row in document["rows"] if row["algorithm"] == algorithm}
    if FEW not in rows or MANY not in rows:
        return None
    return tuple(rows[MANY][what] / rows[FEW][what] for what in ("instructions", "steps"))


def scale_targets(document):
    for algorithm, name in NAMES.items():
        yield Target(f"{MANY} ranks over {FEW}, {name}: instructions of a rank's operation",
                     "no more than the steps of the plan", growth(document, algorithm),
                     lambda v: v[0] <= v[1],
                     lambda v: f"{num(v[0], 2)} times as many; {num(v[1], 2)} times the steps")


def scale(document):
    lines = [f"AllReduce of {size_text(document['bytes'])} in a simulated job with {document['nics']} "
             "NICs a rank and a link between any two ranks. Instructions are the library's alone, for "
             "one rank and operation, without the start of the job. The processor time includes the "
             "simulator, and the start and the memory are those of the whole job in one process. There "
             "the ranks share the caches of one core, so the time grows with the memory of the job, "
             "too.", ""] + origin(document["machine"])
    lines += table(
        ["algorithm", "ranks", "steps", "instructions", "instructions a step", "processor us",
         "simulated ms", "start s", "memory MiB"],
        [[NAMES[row["algorithm"]], row["ranks"], row["steps"], num(row["instructions"], 0),
          num(row["instructions"] / row["steps"], 0), num(row["processor_us"], 0),
          num(row["simulated_ms"], 2), num(row["start_s"], 1), num(row["memory_mib"], 0)]
         for row in document["rows"]])
    checked = sum(row["checked_elements"] for row in document["rows"])
    return lines + [f"{num(checked, 0)} elements checked, none wrong."]
