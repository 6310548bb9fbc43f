"""Other tools on the lines of `cargo xtask bench --peers VENV`.

usage: peers.py THREADS

Reads a JSON object a line and answers with one. `xtask/src/bench/lines.rs` has the list of lines and which tools are beside which; here is how each
of them does it. Requests:

- {"open": TASK, "words": [...], "names": [[NAME, PACKAGE]...], "folder": F}: makes the problem of our side (the same numbers), builds each tool and
  compares its answer with ours, which lies in F. Answers for each name a version, or why it was skipped or failed.
- {"time": NAME, "kind": KIND}: seconds of one call, and its value.
- {"close": true}

Kinds: `sum`, one sum of clipped gradients without noise; `step`, with the noise that users of the tool get by default (where a tool has none of its own,
that of the array library in single precision). Everything is bound to the first THREADS processors. Row norms are computed before.
"""

import gc
import importlib.metadata
import json
import os
import sys
import time
import warnings

# What the tools print must not mix with the answers.
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
warnings.simplefilter("ignore")


def bind(threads):
    """Before any numerical package is imported: they look once. `cargo xtask bench` sets what NumPy reads."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    try:
        import torch

        torch.set_num_threads(threads)
    except ImportError:
        pass


def opened(request, tasks):
    problem = tasks[request["open"]](request["words"], request["folder"])
    found, calls = {}, {}
    for name, package in request["names"]:
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[name] = {"skipped": f"{package} is not installed"}
            continue
        try:
            calls[name] = problem.build(name)
            note = problem.check(name, calls[name])
            kinds = list(calls[name])
            found[name] = {"version": f"{package} {version}", "note": note or "", "kinds": kinds}
        except Exception as error:  # a tool that can't do this must not end the others
            calls.pop(name, None)
            found[name] = {"failed": f"{type(error).__name__}: {error}"[:200]}
    return {"peers": found}, calls


def timed(call, again):
    if again:  # right after some that are not timed, 20 ms of them
        start = time.perf_counter()
        while time.perf_counter() < start + 0.02:
            call()
    start = time.perf_counter()
    value = call()
    seconds = time.perf_counter() - start
    scale = getattr(call, "times", 1.0)
    answer = {"seconds": seconds * scale}
    if isinstance(value, (int, float)):
        answer["value"] = float(value)
    return answer


def main():
    bind(int(sys.argv[1]))
    import accounts
    import gradients
    import income
    import noise

    tasks = {**gradients.TASKS, **noise.TASKS, **accounts.TASKS, **income.TASKS}
    calls = {}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "open" in request:
                calls = {}
                gc.collect()
                answer, calls = opened(request, tasks)
            elif "time" in request:
                answer = timed(calls[request["time"]][request["kind"]], request["again"])
            else:
                calls = {}
                gc.collect()
                answer = {"closed": True}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        ANSWERS.write(json.dumps(answer) + "\n")
        ANSWERS.flush()


if __name__ == "__main__":
    main()
