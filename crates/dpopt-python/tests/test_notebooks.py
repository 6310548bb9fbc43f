"""Notebooks of the docs run, say what they said, and are the pages of the book."""

import json
import re

import notebooks
import pytest

#: What they need beside the package. That of both tools is the environment of `cargo xtask bench-peers-setup`.
NEEDED = {"model": [], "comparison": ["diffprivlib", "opacus"]}


def rounded(outputs):
    """With six digits of each number: other processors have other last ones."""
    return re.sub(r"\d+\.\d{6,}", lambda number: f"{float(number[0]):.6g}", json.dumps(outputs, sort_keys=True))


def page(name):
    path = notebooks.FOLDER / f"{name}.ipynb"
    notebook = notebooks.read(path)
    assert path.with_suffix(".md").read_text(encoding="utf-8") == notebooks.page(notebook, name), "write the page anew: python notebooks.py"


def check(name):
    notebook, compared = notebooks.read(notebooks.FOLDER / f"{name}.ipynb"), 0
    for cell, count, outputs in notebooks.ran(notebook):
        assert cell["execution_count"] == count
        kinds = [(of["output_type"], sorted(of.get("data", {}))) for of in outputs]
        assert kinds == [(of["output_type"], sorted(of.get("data", {}))) for of in cell["outputs"]]
        if not notebooks.is_noise(cell):
            assert rounded(outputs) == rounded(cell["outputs"]), f"cell {count}"
            compared += bool(outputs)
    assert compared


@pytest.mark.parametrize("name", sorted(NEEDED))
def test_a_notebook_says_what_it_said(name):
    page(name)
    for needed in NEEDED[name]:
        pytest.importorskip(needed, exc_type=ImportError)
    check(name)


def test_every_notebook_is_known():
    assert {path.stem for path in notebooks.FOLDER.iterdir()} == set(NEEDED)


def test_a_notebook_that_says_something_else_is_caught():
    cell = {"cell_type": "code", "metadata": {}, "source": ["1 + 1"], "execution_count": 1, "outputs": []}
    (_, count, outputs), = notebooks.ran({"cells": [cell]})
    assert count == 1 and outputs[0]["data"] == {"text/plain": ["2"]} and outputs != cell["outputs"]
