"""Other tools on the rows of `cargo xtask bench --peers VENV`.

usage: peers.py FOLDER

FOLDER has a folder for each row: its words, and the arrays of our answer. The problem is made again from the same numbers, the answer of each tool
is compared with ours, and one step of it is timed on one and two threads: a step has the noise that users of the tool get by default (where a tool
has none of its own, that of the array library in single precision). Prints lines of tab-separated values as `xtask/src/bench.rs` does.
"""

import contextlib
import gc
import importlib.metadata
import os
import statistics
import subprocess
import sys
import time
import warnings

SECONDS, MOST = 2.0, 30
PACKAGES = {"prv_accountant": "prv-accountant", "dp_accounting": "dp-accounting"}


def bind(threads):
    """Before any numerical package is imported: they look once."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    with contextlib.suppress(ImportError):
        import torch

        torch.set_num_threads(threads)


def timed(call):
    times, start = [], time.perf_counter()
    while len(times) < 3 or (time.perf_counter() < start + SECONDS and len(times) < MOST):
        begun = time.perf_counter()
        value = call()
        times.append((time.perf_counter() - begun) * getattr(call, "times", 1.0))
    return sorted(times), value


def row(words, threads, problem, name):
    """A line of the table, with the reason if a tool has no time."""
    first = name.replace(",", "").split()[0]
    package = PACKAGES.get(first, first)
    try:
        tool = f"{name} ({package} {importlib.metadata.version(package)})"
        calls = problem.build(name)
        note = problem.check(name, calls) or ""
        times, value = timed(calls["step"])
        answer = f"{value:.5g}" if isinstance(value, float) else note
        numbers = [f"{x:.3e}" for x in (statistics.median(times), times[0], times[-1])]
    except importlib.metadata.PackageNotFoundError:
        tool, numbers, answer = name, ["", "", ""], f"{package} is not installed"
    except Exception as error:  # a tool that can't do this must not end the others
        numbers, answer = ["", "", ""], f"{type(error).__name__}: {error}"[:200].replace("\n", " ")
    return "\t".join([words, str(threads), tool, *numbers, "", answer])


def main(folder, threads):
    import accounts
    import gradients
    import noise

    tasks = {**gradients.TASKS, **noise.TASKS, **accounts.TASKS}
    # What the tools print must not mix with the table.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for name in sorted(os.listdir(folder)):
        place = os.path.join(folder, name)
        with open(os.path.join(place, "words"), encoding="utf-8") as file:
            words = file.read()
        task, *rest = words.split()
        problem = tasks[task](rest, place)
        for name in problem.names:
            print(row(words, threads, problem, name), file=out, flush=True)
            gc.collect()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if len(sys.argv) == 2:
        for threads in ("1", "2"):
            settings = {key: threads for key in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
            subprocess.run([sys.executable, __file__, sys.argv[1], threads], env={**os.environ, **settings}, check=True)
    else:
        bind(int(sys.argv[2]))
        main(sys.argv[1], int(sys.argv[2]))
