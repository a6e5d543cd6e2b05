"""`r2ccl lab` under a name that is this test's own."""
import os

import program

NAME = f"labtest{os.getpid()}"


def lab(*words, check=True, **options):
    done = program.run("lab", "--name", NAME, *words, **options)
    if check and done.returncode != 0:
        raise AssertionError(f"lab {words}: status {done.returncode}: {done.stderr}")
    return done


def obstacle():
    probe = lab("up", 1, 1, 0, check=False)
    if probe.returncode != 0:
        return "no lab can be made here: " + probe.stderr.strip()
    lab("down")
    return None
