"""The tutorials for PgBouncer, RabbitMQ and S3, followed to the letter with these servers."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.acceptance.conftest import make_environment, make_warm_environment, wheel
from tests.acceptance.documented_project import Follow, database_of_shop, follow, read_project
from tests.private_servers import ROOT
from tests.services.conftest import need
from tests.services.pgbouncer import PgBouncer
from tests.services.rabbitmq import RabbitMQ
from tests.services.test_rabbitmq import rabbitmq

__all__ = ("follow", "make_environment", "make_warm_environment", "rabbitmq", "read_project", "wheel")


@pytest.fixture
def shop() -> Iterator[dict[str, str]]:
    with database_of_shop() as variables:
        yield variables


def test_the_tutorial_for_pgbouncer_does_what_it_says(follow: Follow, shop: dict[str, str]) -> None:
    pooler = PgBouncer(need("pgbouncer", "pgbouncer"), ROOT / "pgbouncer-documented", "transaction")
    pooler.start()
    past_it = {"SERVER_HOST": shop["PGHOST"], "SERVER_PORT": shop["PGPORT"]}
    try:
        follow("pgbouncer.md", "postgres", **{**shop, **past_it, "PGPORT": str(pooler.port)})
    finally:
        pooler.kill()


def test_the_tutorial_for_rabbitmq_does_what_it_says(
    follow: Follow, shop: dict[str, str], rabbitmq: RabbitMQ
) -> None:
    follow("rabbitmq.md", "postgres", BROKER_URL=rabbitmq.url, **shop)


@pytest.mark.skipif(not find_spec("moto") or not find_spec("storages"), reason="make test installs them")
def test_the_tutorial_for_s3_does_what_it_says(follow: Follow, tmp_path: Path) -> None:
    import boto3

    from tests.services.test_object_store import ObjectStore

    store = ObjectStore(tmp_path / "moto.log")
    keys = {"AWS_ACCESS_KEY_ID": "letters", "AWS_SECRET_ACCESS_KEY": "secret"}
    try:
        client = boto3.client(
            "s3", endpoint_url=store.url, region_name="us-east-1",
            aws_access_key_id="letters", aws_secret_access_key="secret",
        )  # fmt: skip
        client.create_bucket(Bucket="letters")
        follow("s3.md", packages=("django-storages[s3]",), S3_URL=store.url, **keys)
    finally:
        store.stop()
