"""Stubs against the package, by mypy."""

import os
import pathlib
import subprocess
import sys

import dpopt

PACKAGE = pathlib.Path(dpopt.__file__).parent

PROGRAM = """
import numpy as np
import torch
from dpopt import Event, Ledger, Plan, PrivateClassifier, PrivateRegressor, PrivateSteps, Schema, account, delta, noise_multiplier
from dpopt.torch import make_private
from torch.utils.data import DataLoader, TensorDataset

statement: float = account(Event.gaussian(1.0).poisson_sampled(0.1).repeated(5), delta=1e-5, adjacency="add-remove").epsilon
curve = delta(Event.gaussian(1.0), epsilon=np.array([1.0, 2.0]), adjacency="add-remove")
reveal_type(curve)
model = PrivateClassifier(1.0, 1e-6, bounds=(0, 1), classes=["no", "yes"]).fit(np.zeros((3, 2)), ["no", "yes", "no"])
reveal_type(model)
plan: Plan = model.plan(100, 2)
of_file = PrivateRegressor(1.0, 1e-6, schema=Schema("format = 1")).fit("table.parquet").guarantee_.epsilon
with PrivateSteps(records=3, dim=2, clip=1.0, steps=1, adjacency="zero-out", noise_multiplier=1.0) as private:
    for positions in private:
        private.add(np.zeros((len(positions), 2)))
net, optimizer, loader = make_private(
    torch.nn.Linear(2, 2), torch.optim.SGD([], lr=0.1), DataLoader(TensorDataset(torch.zeros(3, 2))), torch.nn.CrossEntropyLoss(),
    max_grad_norm=1.0, adjacency="add-remove", epochs=1, noise_multiplier=1.0, public_records=3)
reveal_type(net)
for sample in loader:
    optimizer.step()
noise_multiplier(epsilon=1.0, delta=1e-5, adjacency="add-remove", steps=10, noise_over="batch")
PrivateClassifier(1.0, sigma=2.0)
"""


def checked(*arguments):
    environment = {**os.environ, "MYPYPATH": str(PACKAGE.parent)}
    return subprocess.run([sys.executable, "-m", *arguments], env=environment, capture_output=True, text=True)


def test_the_stubs_are_those_of_the_package(tmp_path):
    allowed, settings = tmp_path / "allowed", tmp_path / "mypy.ini"
    # What a fit sets is there after a fit; what the estimators share has no stub of its own.
    allowed.write_text("dpopt\\._tables\\.\\w+\\.\\w+_\ndpopt\\._base\\..*\n")
    settings.write_text("[mypy]\ndisable_error_code = no-redef\n[mypy-sklearn.*]\nignore_missing_imports = True\n")
    how = ["--ignore-missing-stub", "--concise", "--mypy-config-file", str(settings), "--allowlist", str(allowed), "--ignore-unused-allowlist"]
    done = checked("mypy.stubtest", "dpopt", *how)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_program_is_checked(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = checked("mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(program))
    said = done.stdout
    errors = [line for line in said.splitlines() if ": error:" in line]
    assert len(errors) == 2 and "noise_over" in errors[0] and "sigma" in errors[1], said + done.stderr
    for revealed in ["float64", '"dpopt._tables.PrivateClassifier"', "Linear"]:
        assert revealed in said
