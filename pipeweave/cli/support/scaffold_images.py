"""Define the image of a new project, and its deployment on one Docker host, for `pipeweave init --full`.

Both are those of PipeWeave's own repository, with the project's code in the image and a volume in place of
the bucket. A test compares them.
"""

from __future__ import annotations

DOCKERFILE = """# syntax=docker/dockerfile:1
# One image for every process: api, worker, beat and the migration. Which one is the command's choice.

# By digest, nothing changes between two builds: --build-arg PYTHON_IMAGE=python:3.13-slim@sha256:...
ARG PYTHON_IMAGE=python:3.13-slim

FROM ${PYTHON_IMAGE} AS builder
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
RUN python -m venv /opt/pipeweave
COPY . .
RUN /opt/pipeweave/bin/pip install .


FROM ${PYTHON_IMAGE}
RUN groupadd --gid 10001 pipeweave \\
    && useradd --uid 10001 --gid pipeweave --create-home --shell /usr/sbin/nologin pipeweave \\
    && install --directory --owner pipeweave --group pipeweave /data
COPY --from=builder /opt/pipeweave /opt/pipeweave
ENV PATH=/opt/pipeweave/bin:$PATH \\
    PYTHONUNBUFFERED=1 \\
    PIPEWEAVE_DATA_DIR=/data \\
    PIPEWEAVE_HOST=0.0.0.0 \\
    PORT=3000
USER pipeweave
WORKDIR /home/pipeweave
VOLUME /data
EXPOSE 3000
STOPSIGNAL SIGTERM
CMD ["pipeweave", "api"]
"""

DOCKER_IGNORED = """# Everything stays out of the image but the code.
*
!pyproject.toml
!*.py
test_*.py
"""

COMPOSE = """# @NAME@ on one Docker host. Put the secrets into .env first:
#   umask 077; for name in POSTGRES_ADMIN_PASSWORD POSTGRES_PASSWORD VALKEY_PASSWORD PIPEWEAVE_SECRET_KEY; do \\
#     echo "$name=$(openssl rand -hex 32)"; done > .env
#   docker compose up --build --wait
#   docker compose exec api pipeweave token create me --scope admin

name: @IMAGE@

x-pipeweave: &pipeweave
  image: @IMAGE@:${IMAGE_VERSION:-latest}
  build:
    context: .
    args: {PYTHON_IMAGE: "${PYTHON_IMAGE:-python:3.13-slim}"}
  restart: unless-stopped
  init: true
  read_only: true
  tmpfs: [/tmp]
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]
  stop_grace_period: 30s
  mem_limit: ${PROCESS_MEMORY:-2g}
  # Values too large for a row: every process must find the same ones. On several hosts, this is a bucket.
  volumes: ["data:/data"]
  environment: &environment
    DATABASE_URL: postgresql://pipeweave:${POSTGRES_PASSWORD:?set it in .env}@postgres:5432/pipeweave
    BROKER_URL: redis://:${VALKEY_PASSWORD:?set it in .env}@valkey:6379/0
    PIPEWEAVE_SECRET_KEY: ${PIPEWEAVE_SECRET_KEY:?set it in .env}
    MAX_CONCURRENCY: ${MAX_CONCURRENCY:-4}
    LOG_LEVEL: ${LOG_LEVEL:-normal}
  depends_on: &after_migration
    migrate: {condition: service_completed_successfully}
    valkey: {condition: service_healthy}
  logging: &logging
    driver: json-file
    options: {max-size: 10m, max-file: "10"}

services:
  migrate:
    <<: *pipeweave
    command: [pipeweave, db, migrate]
    restart: "no"
    healthcheck: {disable: true}
    depends_on:
      postgres: {condition: service_healthy}

  api:
    <<: *pipeweave
    command: [pipeweave, api]
    environment:
      <<: *environment
      PIPEWEAVE_HOST: 0.0.0.0
      PORT: "3000"
    ports: ["127.0.0.1:${PORT:-3000}:3000"]
    healthcheck:
      test: [CMD, python, -c, "import urllib.request as r; r.urlopen('http://127.0.0.1:3000/health', timeout=2)"]
      interval: 5s
      timeout: 3s
      start_period: 20s
      retries: 3

  worker:
    <<: *pipeweave
    command: [pipeweave, worker, --app, tasks, --name, worker]
    # Longer than the worker's own grace (30 s): what runs longer than that is given back first.
    stop_grace_period: 40s
    healthcheck:
      test: [CMD-SHELL, 'celery --app pipeweave.workers.app --quiet inspect ping --timeout 5 --destination "worker@$$(hostname)"']
      interval: 30s
      timeout: 15s
      start_period: 20s
      retries: 3

  beat:
    <<: *pipeweave
    command: [pipeweave, beat]
    healthcheck:
      test: [CMD, pipeweave, db, status]
      interval: 30s
      timeout: 15s
      start_period: 20s
      retries: 3

  postgres:
    image: ${POSTGRES_IMAGE:-postgres:18}
    restart: unless-stopped
    # What its start needs, and no more: it changes to the account postgres itself.
    cap_drop: [ALL]
    cap_add: [CHOWN, DAC_OVERRIDE, FOWNER, SETGID, SETUID]
    security_opt: ["no-new-privileges:true"]
    mem_limit: ${POSTGRES_MEMORY:-2g}
    environment:
      POSTGRES_PASSWORD: ${POSTGRES_ADMIN_PASSWORD:?set it in .env}
      PIPEWEAVE_PASSWORD: ${POSTGRES_PASSWORD:?set it in .env}
    volumes:
      - postgres:/var/lib/postgresql
      - ./docker/create-database.sh:/docker-entrypoint-initdb.d/create-database.sh:ro
    stop_grace_period: 30s
    logging: *logging
    healthcheck:
      # By TCP: the server that runs the script above listens on a socket only.
      test: [CMD, pg_isready, --host, 127.0.0.1, --username, pipeweave, --dbname, pipeweave]
      interval: 5s
      timeout: 3s
      retries: 10

  valkey:
    image: ${VALKEY_IMAGE:-valkey/valkey:9}
    restart: unless-stopped
    cap_drop: [ALL]
    cap_add: [CHOWN, DAC_OVERRIDE, SETGID, SETUID]
    security_opt: ["no-new-privileges:true"]
    mem_limit: ${VALKEY_MEMORY:-1g}
    environment:
      VALKEY_PASSWORD: ${VALKEY_PASSWORD:?set it in .env}
    # Messages are only wake-ups: whatever is lost here, the tick sends again.
    command: [sh, -c, 'exec valkey-server --requirepass "$$VALKEY_PASSWORD" --appendonly yes --maxmemory-policy noeviction']
    volumes: [valkey:/data]
    logging: *logging
    healthcheck:
      test: [CMD-SHELL, 'REDISCLI_AUTH="$$VALKEY_PASSWORD" valkey-cli ping | grep -q PONG']
      interval: 5s
      timeout: 3s
      retries: 10

volumes:
  data:
  postgres:
  valkey:
"""  # noqa: E501

CREATE_DATABASE = """#!/bin/sh
# Creates PipeWeave's role and its database when the container of PostgreSQL starts for the first time. The role owns its
# database and nothing else: the code of tasks connects as this role, and a superuser could run programs.
set -eu
psql --no-psqlrc --set ON_ERROR_STOP=1 --set password="$PIPEWEAVE_PASSWORD" --username "${POSTGRES_USER:-postgres}" \\
  --dbname "${POSTGRES_DB:-postgres}" <<'SQL'
CREATE ROLE pipeweave LOGIN PASSWORD :'password';
CREATE DATABASE pipeweave OWNER pipeweave;
SQL
"""  # noqa: E501
