"""Steps that use a Celery application of your own: they publish its tasks, and wait for a result."""

from __future__ import annotations

import os

from celery import Celery

from pipeweave import pipeline, task

BROKER = os.environ.get("SHOP_BROKER_URL", "redis://localhost:6379/1")
shop = Celery("shop", broker=BROKER, backend=BROKER)


@shop.task
def price_of(article: str) -> int:
    """A task of the shop's own workers."""
    return 10 * len(article)


@shop.task
def remember_sale(article: str, price: int) -> None:
    """Another one, whose result nobody reads."""


@task(timeout=60)
def ask_price(article: str) -> int:
    """Wait for a result of the shop's worker, for less long than this step may take."""
    price: int = price_of.delay(article).get(timeout=50)
    return price


@task
def tell_shop(article: str, price: int) -> str:
    """Publish to the shop's broker and go on."""
    remember_sale.delay(article, price)
    return f"{article} for {price}"


@pipeline
def sell(article: str = "apples"):
    return tell_shop(article, ask_price(article))
