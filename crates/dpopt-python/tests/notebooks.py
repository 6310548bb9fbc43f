"""Notebooks of the docs: run as a reader would run them, and written as the pages of the book.

``python notebooks.py`` in an environment with the package runs them all, and writes outputs and pages anew.
"""

import ast
import contextlib
import io
import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).parents[3] / "docs" / "notebooks"


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def is_noise(cell):
    """Whether what it prints hangs on noise, and differs in each run."""
    return bool(cell["metadata"].get("noise"))


def _lines(text):
    return text.splitlines(keepends=True)


def ran(notebook):
    """The outputs of its code cells, one after another in one session."""
    names, count = {"__name__": "__main__"}, 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        count += 1
        body = ast.parse("".join(cell["source"]))
        last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
        said, value = io.StringIO(), None
        with contextlib.redirect_stdout(said):
            exec(compile(body, f"cell {count}", "exec"), names)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), f"cell {count}", "eval"), names)
        outputs = [{"name": "stdout", "output_type": "stream", "text": _lines(said.getvalue())}] if said.getvalue() else []
        if value is not None:
            data = {"text/plain": _lines(repr(value))}
            if hasattr(value, "_repr_html_"):
                data["text/html"] = _lines(value._repr_html_())
            outputs.append({"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"})
        yield cell, count, outputs


def page(notebook, name):
    """The notebook as Markdown."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        said = "".join("".join(of.get("text", of.get("data", {}).get("text/plain", ""))) for of in cell["outputs"])
        if said:
            parts.append(f"```text\n{said.rstrip()}\n```")
    where = "crates/dpopt-python/tests/notebooks.py"
    parts.append(f"*This page is the notebook `docs/notebooks/{name}.ipynb`, run and written by `{where}`.*")
    return "\n\n".join(parts) + "\n"


def write(path):
    notebook = read(path)
    for cell, count, outputs in ran(notebook):
        cell["execution_count"], cell["outputs"] = count, outputs
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(page(notebook, path.stem), encoding="utf-8")


if __name__ == "__main__":
    for one in [pathlib.Path(name) for name in sys.argv[1:]] or sorted(FOLDER.glob("*.ipynb")):
        write(one)
