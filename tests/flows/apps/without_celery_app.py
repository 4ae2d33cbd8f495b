"""A task whose code uses a shared task of Celery, without any app."""

from __future__ import annotations

from celery import shared_task

from pipeweave import task


@shared_task(name="legacy.mail")
def mail(to: str) -> str:
    return to


@task
def noop() -> None:
    pass


@task(retries=0)
def mails() -> None:
    mail.apply_async(["ann"], retry=False)
