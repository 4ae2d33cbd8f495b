# syntax=docker/dockerfile:1
# One image for every process: api, worker, beat, flower and the migration. Which one is the command's choice.

# By digest, nothing changes between two builds: --build-arg PYTHON_IMAGE=python:3.13-slim@sha256:...
ARG PYTHON_IMAGE=python:3.13-slim

FROM ${PYTHON_IMAGE} AS builder
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
RUN python -m venv /opt/pipeweave
COPY requirements-image.lock .
RUN /opt/pipeweave/bin/pip install --require-hashes -r requirements-image.lock
COPY . .
RUN pip wheel --no-deps --wheel-dir /wheels . \
    && /opt/pipeweave/bin/pip install --no-deps /wheels/*.whl


FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="PipeWeave" \
    org.opencontainers.image.description="Durable, observable pipelines on Celery." \
    org.opencontainers.image.licenses="Apache-2.0 AND ISC AND MIT"
RUN groupadd --gid 10001 pipeweave \
    && useradd --uid 10001 --gid pipeweave --create-home --shell /usr/sbin/nologin pipeweave \
    && install --directory --owner pipeweave --group pipeweave /data
COPY --from=builder /opt/pipeweave /opt/pipeweave
ENV PATH=/opt/pipeweave/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PIPEWEAVE_DATA_DIR=/data \
    PIPEWEAVE_HOST=0.0.0.0 \
    PORT=3000
USER pipeweave
WORKDIR /home/pipeweave
VOLUME /data
EXPOSE 3000
STOPSIGNAL SIGTERM
# Right for the default command; docker-compose.yml gives every other process its own.
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f'http://127.0.0.1:{os.environ[\"PORT\"]}/health', timeout=2)"]
CMD ["pipeweave", "api"]
