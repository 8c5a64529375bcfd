# The gateway: text, limits and routing. No torch.
#
#   docker build -f deploy/docker/gateway.Dockerfile -t outrider-gateway:0.1.0 .
#
# BASE_IMAGE is any Debian or Ubuntu; Python 3.11 or later is installed where it has none.
ARG BASE_IMAGE=docker.io/library/python:3.12-slim-bookworm

# hadolint ignore=DL3006
FROM ${BASE_IMAGE} AS python
SHELL ["/bin/sh", "-eu", "-c"]
# tini: a process that is number 1 ignores SIGTERM until it has a handler of its own.
# Versions are the distribution's: a pinned one is gone with its next security update.
# hadolint ignore=DL3008
RUN apt-get update; \
    apt-get install -y --no-install-recommends tini; \
    command -v python3 >/dev/null \
    || apt-get install -y --no-install-recommends python3 python3-venv; \
    rm -rf /var/lib/apt/lists/*

FROM python AS build
WORKDIR /src
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python3 -m venv /opt/outrider
COPY constraints constraints
COPY pyproject.toml README.md LICENSE ./
COPY protos protos
COPY outrider outrider
COPY gateway gateway
COPY draft_service draft_service
COPY verify_service verify_service
RUN /opt/outrider/bin/python -m pip wheel -q --no-deps --wheel-dir /wheels . \
 && /opt/outrider/bin/python -m pip install -q -c constraints/cpu.txt /wheels/outrider-*.whl \
 && /opt/outrider/bin/python -m pip uninstall -q -y pip

FROM python
COPY --from=build /opt/outrider /opt/outrider
ENV PATH=/opt/outrider/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp \
    OUTRIDER_GATEWAY_PROBE_PORT=8081 \
    OUTRIDER_HEALTH_ADDRESS=http://127.0.0.1:8081
# Nothing below / is written; a name for the number is not needed.
USER 10001:10001
WORKDIR /tmp
EXPOSE 50051 8080 8081
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-m", "outrider.health"]
ENTRYPOINT ["tini", "--"]
CMD ["python", "-m", "gateway"]
