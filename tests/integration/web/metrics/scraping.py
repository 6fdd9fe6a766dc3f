"""Reading `/metrics` as Prometheus does: by name and labels."""

from __future__ import annotations

from typing import Any

from django.test import Client
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"

Key = tuple[str, frozenset[tuple[str, str]]]


class Scrape:
    """The samples of one answer: `scrape("sluicegate_queue_due", queue="prep.high")`."""

    def __init__(self, text: str, *, openly: bool = False) -> None:
        self.text = text
        self.families = list((parse_open if openly else parse)(text))
        self.samples: dict[Key, float] = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families
            for sample in family.samples
        }

    def __call__(self, name: str, **labels: Any) -> float:
        return self.samples[name, frozenset(labels.items())]

    def has(self, name: str) -> bool:
        return any(found == name for found, _ in self.samples)

    def total(self, name: str, **labels: Any) -> float:
        """The sum of all series of this name with these labels."""
        selected = set(labels.items())
        return sum(v for (found, has), v in self.samples.items() if found == name and selected <= has)


def scrape(**headers: str) -> Scrape:
    """Ask for the metrics, from this machine."""
    answer = Client().get("/metrics", headers=headers)
    assert answer.status_code == 200, answer.content
    return Scrape(answer.content.decode(), openly="openmetrics" in headers.get("accept", ""))
