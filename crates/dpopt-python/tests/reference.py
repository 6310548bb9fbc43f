"""The reference of the package as a page of the book, from its signatures and docstrings.

``python reference.py`` in an environment with the package writes it anew.
"""

import ast
import inspect
import pathlib

import dpopt

FOLDER = pathlib.Path(__file__).parents[3] / "docs"
PAGE = FOLDER / "python-reference.md"
SOURCES = pathlib.Path(__file__).parents[1] / "python" / "dpopt"
#: Which names stand together.
PARTS = {
    "Accounting": ["Event", "Statement", "account", "epsilon", "delta", "attacker", "noise_multiplier", "steps", "from_dp_accounting", "to_dp_accounting"],
    "Estimators": ["PrivateClassifier", "PrivateMLPClassifier", "PrivateRegressor", "PrivateGroupDRO", "PrivateRanker", "Plan", "Unforeseen", "Certificate", "Schema", "losses", "solvers"],
    "Own gradients": ["PrivateSteps", "Rate", "verify_rate"],
    "Budgets": ["Ledger"],
    "Errors": ["Error", "DPUserError", "AccountingError", "PlanError", "BudgetError", "DataError", "WeakGuaranteeWarning"],
}


def _text(of):
    """A docstring, without the indent of its source and the marks of references."""
    text = inspect.cleandoc(of or "").replace("``", "`")
    for kind in ("class", "func", "meth"):
        text = text.replace(f":{kind}:", "")
    return text


def _paragraphs(text):
    """Markdown of a docstring: an indented block after two colons is code."""
    lines, code = [], False
    for line in text.splitlines():
        if line.startswith("    ") and not code:
            lines.append("```python")
            code = True
        elif code and line and not line.startswith("    "):
            while not lines[-1]:
                lines.pop()
            lines += ["```", ""]
            code = False
        lines.append(line[4:] if code else line)
    if code:
        lines.append("```")
    return "\n".join(lines).replace("::\n", ":\n")


def _signature(name, of):
    try:
        found = inspect.signature(of)
    except (TypeError, ValueError):
        # A class that is made by others, or an exception.
        return name
    plain = [one.replace(annotation=one.empty) for one in found.parameters.values()]
    text = str(found.replace(parameters=plain, return_annotation=found.empty))
    for none in ("self, ", "self", "/, ", ", /", "/"):
        text = text.replace(f"({none}", "(") if not none.startswith(",") else text.replace(none, "")
    return name + text


def _members(of):
    """Methods and values of a class that are documented, its own and inherited ones from the package."""
    for name in sorted(dir(of)):
        if name.startswith("_"):
            continue
        member = inspect.getattr_static(of, name)
        owner = next((base for base in of.__mro__ if name in vars(base)), of)
        if not owner.__module__.startswith("dpopt") or not inspect.getdoc(member):
            continue
        if isinstance(member, property) or inspect.isgetsetdescriptor(member):
            yield f"`{name}`", inspect.getdoc(member)
        elif isinstance(member, (staticmethod, classmethod)) or callable(member):
            yield f"`{_signature(name, getattr(of, name))}`", inspect.getdoc(getattr(of, name))


def _entry(name, of, kind="###"):
    is_error = inspect.isclass(of) and issubclass(of, Exception)
    shown = name if is_error or not callable(of) or name == "Event" else _signature(name, of)
    parts = [f"{kind} {name}", f"```python\n{shown}\n```", _paragraphs(_text(inspect.getdoc(of)))]
    if inspect.isclass(of) and not is_error:
        parts += [f"- {head}: {' '.join(_text(text).split())}" for head, text in _members(of)]
    return "\n\n".join(part for part in parts[:3] if part) + ("\n\n" + "\n".join(parts[3:]) if parts[3:] else "")


def _of_torch():
    """By the source: the page is made where there is no torch, too."""
    tree = ast.parse((SOURCES / "torch.py").read_text(encoding="utf-8"))
    names = next(ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__")
    known = {node.name: node for source in ("torch.py", "_estimate.py") for node in ast.parse((SOURCES / source).read_text(encoding="utf-8")).body if hasattr(node, "name")}
    for name in sorted(names, key=str.lower):
        node = known[name]
        made = node if isinstance(node, ast.FunctionDef) else next((of for of in node.body if getattr(of, "name", "") == "__init__"), None)
        arguments = ast.unparse(made.args).removeprefix("self, ").removeprefix("self") if made else ""
        secret = name in ("PrivateLoader", "PrivateOptimizer", "Sample")
        parts = [f"### dpopt.torch.{name}", f"```python\n{name}{'' if secret else f'({arguments})'}\n```", _paragraphs(_text(ast.get_docstring(node)))]
        methods = [of for of in getattr(node, "body", []) if isinstance(of, ast.FunctionDef) and not of.name.startswith("_") and ast.get_docstring(of)]
        listed = [f"- `{of.name}({ast.unparse(of.args).removeprefix('self, ').removeprefix('self')})`: {' '.join(_text(ast.get_docstring(of)).split())}" for of in methods]
        yield "\n\n".join(parts) + ("\n\n" + "\n".join(listed) if listed else "")


def page():
    """The whole of it."""
    parts = ["# Reference of the Python package", "Every public name of `dpopt` ([how it is used](python.md)). Defaults are shown in the signatures."]
    for title, names in PARTS.items():
        parts += [f"## {title}", *(_entry(name, getattr(dpopt, name)) for name in names)]
    parts += ["## PyTorch", *_of_torch()]
    parts.append("*Written by `crates/dpopt-python/tests/reference.py`.*")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
