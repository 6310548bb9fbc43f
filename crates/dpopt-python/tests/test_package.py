"""The package as a whole: its page, its imports, its stubs."""

import ast
import inspect
import os
import pathlib
import re
import subprocess
import sys

import dpopt
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[3]


def run(code):
    return subprocess.run([sys.executable, "-c", code], env=os.environ, capture_output=True, text=True)


@pytest.mark.skipif(not (ROOT / "docs/python.md").exists(), reason="not in a checkout")
def test_the_page_runs_as_printed():
    rng = np.random.default_rng(0)
    rows = rng.uniform(0, 1, (300, 3))
    scope = {"low": np.zeros(3), "high": np.ones(3), "X": rows, "y": np.where(rows[:, 0] > 0.5, "yes", "no"), "X_new": rows[:5]}
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/python.md").read_text(), re.S)
    # Networks are the long form's: tests_long/test_torch.py runs the whole page.
    plain = [block for block in blocks if "import torch" not in block]
    assert len(plain) == len(blocks) - 1 >= 3
    for block in plain:
        exec(block, scope)
    # What the page says is printed is printed.
    said = re.search(r"^# (\(.*)$", blocks[0], re.M).group(1)
    assert said == str(dpopt.account(scope["event"], delta=1e-5, adjacency="add-remove"))


@pytest.mark.skipif(not (ROOT / "docs/python.md").exists(), reason="not in a checkout")
def test_the_page_names_every_public_name():
    named = set(re.findall(r"`([A-Za-z_]+)`", (ROOT / "docs/python.md").read_text()))
    tree = ast.parse((ROOT / "crates/dpopt-python/python/dpopt/torch.py").read_text())
    torch = next(ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__")
    assert set(dpopt.__all__) - {"__version__"} | set(torch) <= named


def test_accounting_does_not_import_scikit_learn():
    done = run("import dpopt, sys; dpopt.Event.gaussian(1.0); assert 'sklearn' not in sys.modules")
    assert done.returncode == 0, done.stderr


def test_estimators_work_without_scikit_learn():
    done = run(
        "import sys; sys.modules['sklearn'] = None\n"
        "import dpopt, numpy as np\n"
        "rows = np.linspace(-1, 1, 200).reshape(100, 2)\n"
        "model = dpopt.PrivateClassifier(1.0, 1e-6, bounds=(-1, 1), classes=[0, 1], max_steps=2).fit(rows, rows[:, 0] > 0)\n"
        "assert model.set_params(max_steps=3).get_params()['max_steps'] == 3 and model.predict(rows).shape == (100,)\n"
    )
    assert done.returncode == 0, done.stderr


def test_two_forked_children_draw_their_own_noise():
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    # Each fit makes a curator of its own.
    code = (
        "import os, dpopt, numpy as np\n"
        "rows = np.linspace(-1, 1, 200).reshape(100, 2)\n"
        "for _ in range(2):\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        of = dpopt.PrivateClassifier(1.0, 1e-6, bounds=(-1, 1), classes=[0, 1], max_steps=2, threads=1)\n"
        "        print(of.fit(rows, rows[:, 0] > 0).coef_.ravel().tolist(), flush=True)\n"
        "        os._exit(0)\n"
        "    os.waitpid(pid, 0)\n"
    )
    done = run(code)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first != second


def test_a_forked_child_can_not_go_on_with_the_steps_of_its_parent():
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    # Both would draw the same noise.
    code = (
        "import os, dpopt, numpy as np\n"
        "of = dpopt.PrivateSteps(records=3, dim=1, clip=1.0, steps=2, adjacency='zero-out', noise_multiplier=1.0)\n"
        "of.draw()\n"
        "pid = os.fork()\n"
        "try:\n"
        "    said = f\"{'parent' if pid else 'child'} {len(of.release())}\"\n"
        "except dpopt.BudgetError:\n"
        "    said = 'refused'\n"
        # One write: both have this pipe.
        "os.write(1, (said + '\\n').encode())\n"
        "if pid == 0:\n"
        "    os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
    )
    done = run(code)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["parent 1", "refused"]


def test_the_stubs_name_what_there_is():
    stubs = pathlib.Path(dpopt.__file__).with_name("_dpopt.pyi").read_text()
    named = {node.name for node in ast.parse(stubs).body if hasattr(node, "name")}
    native = {name for name, value in vars(dpopt._dpopt).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert named == native
    assert set(dpopt.__all__) == {name for name in dir(dpopt) if getattr(dpopt, name) is not None}


def test_what_is_public_is_logged(caplog):
    caplog.set_level("INFO", logger="dpopt")
    rows = np.linspace(-1, 1, 200).reshape(100, 2)
    model = dpopt.PrivateClassifier(1.0, 1e-6, bounds=(-1, 1), classes=[0, 1], max_steps=2).fit(rows, rows[:, 0] > 0)
    dpopt.PrivateSteps(records=5, dim=1, clip=1.0, steps=4, adjacency="zero-out", noise_multiplier=2.0).settle()
    said = caplog.text
    for words in [str(model.guarantee_), model.plan_["solver"], "reserved 4 steps", "noise multiplier 2", "settled"]:
        assert words in said
    assert all(record.name == "dpopt" for record in caplog.records)
