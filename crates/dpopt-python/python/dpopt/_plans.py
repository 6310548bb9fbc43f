"""What a training would be, before any record: to be read in a terminal or a notebook."""

import json
from collections.abc import Mapping
from functools import cached_property
from html import escape

from .accounting import account


class Plan(Mapping):
    """A plan: public numbers, by name as of a dict. Nothing was read, and nothing is charged."""

    def __init__(self, facts, *, delta, adjacency, records=None):
        self._facts = dict(facts)
        self._delta, self._adjacency, self._records = delta, adjacency, records

    def __getitem__(self, name):
        return self._facts[name]

    def __iter__(self):
        return iter(self._facts)

    def __len__(self):
        return len(self._facts)

    def __reduce__(self):
        return _again, (self._facts, self._delta, self._adjacency, self._records)

    @cached_property
    def guarantee(self):
        """What it would spend, as a :class:`dpopt.Statement`."""
        return account(self["event"], delta=self._delta, adjacency=self._adjacency)

    def lines(self):
        """Names and values, as they are shown."""
        bound = self["bound"]
        shown = [
            ("guarantee", str(self.guarantee)),
            ("solver", f"{self['solver']}: {self['reason']}" if self["reason"] else self["solver"]),
            ("records", f"{self._records:,}" if self._records else None),
            ("parameters", f"{self['dim']:,}"),
            ("steps", f"{self['steps']:,}, which read the records {self['passes']:.4g} times"),
            ("releases", repr(self["event"])[len("<dpopt.Event: ") : -1]),
            ("clip", f"{self['clip']:.6g}"),
            ("bound", _bound(bound, self["trivial_bound"]) if bound else "none is stated"),
            ("warning", self["warning"]),
        ]
        return [(name, value) for name, value in shown if value]

    def __repr__(self):
        return "\n".join(["dpopt plan", *(f"  {name:<11}{value}" for name, value in self.lines())])

    def _repr_html_(self):
        # Colours are those of the page, so that it reads in light and in dark.
        cell = "text-align:left;vertical-align:top;padding:.15em 1em .15em 0;color:inherit;background:transparent"
        rows = "".join(
            f'<tr><th scope="row" style="{cell}">{escape(name)}</th><td style="{cell}">{escape(value)}</td></tr>' for name, value in self.lines()
        )
        return f'<table style="border-collapse:collapse;color:inherit;background:transparent"><caption style="{cell};font-weight:bold">dpopt plan</caption>{rows}</table>'


def _again(facts, delta, adjacency, records):
    return Plan(facts, delta=delta, adjacency=adjacency, records=records)


def _bound(bound, trivial):
    found = json.loads(bound)
    said = f"{found['quantity'].replace('-', ' ')} at most {found['value']:.4g} ({found['sense'].replace('-', ' ')})"
    extra = [f"{name} {found[name]:.4g}" for name in ("radius", "smoothing", "curvature") if found.get(name) is not None]
    return ", ".join([said, *extra, f"{trivial:.4g} without training"])
