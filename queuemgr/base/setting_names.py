"""The names of settings in what is said to a person: those that this project has.

Sentences name the environment variables of the reference application, which states that it reads them by
`SLUICE_DATABASE_VARIABLE` and `SLUICE_BROKER_VARIABLE`. Any other project has Django's and Celery's settings.
"""

from __future__ import annotations

import re

from django.conf import settings

WITHOUT_PRIVATE_BROKER = re.compile(r",? or unset BROKER_URL for a private one")


def as_named_here(sentence: str) -> str:
    if not getattr(settings, "SLUICE_DATABASE_VARIABLE", ""):
        sentence = re.sub(r"\bDATABASE_URL\b", "DATABASES", sentence)
    if not getattr(settings, "SLUICE_BROKER_VARIABLE", ""):
        sentence = WITHOUT_PRIVATE_BROKER.sub("", sentence)
        sentence = re.sub(r"\bBROKER_URL\b", "CELERY_BROKER_URL", sentence)
    return sentence
