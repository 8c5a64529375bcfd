# Draft and verify workers, `outrider pull` and the rest of the command: everything with torch.
#
# On CPUs:
#   docker build -f deploy/docker/worker.Dockerfile -t outrider-worker:0.1.0-cpu .
# On NVIDIA GPUs (the driver comes from the host, CUDA's libraries with torch's own packages):
#   docker build -f deploy/docker/worker.Dockerfile -t outrider-worker:0.1.0-cuda \
#     --build-arg BASE_IMAGE=docker.io/nvidia/cuda:13.0.2-base-ubuntu24.04 \
#     --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu130 \
#     --build-arg EXTRAS=verify,spread,bitsandbytes,torchao .
ARG BASE_IMAGE=docker.io/library/python:3.12-slim-bookworm

# hadolint ignore=DL3006
FROM ${BASE_IMAGE} AS python
SHELL ["/bin/sh", "-eu", "-c"]
# tini: a process that is number 1 ignores SIGTERM until it has a handler of its own, and a verify
# worker gets one when its model is loaded.
# Versions are the distribution's: a pinned one is gone with its next security update.
# hadolint ignore=DL3008
RUN apt-get update; \
    apt-get install -y --no-install-recommends tini; \
    command -v python3 >/dev/null \
    || apt-get install -y --no-install-recommends python3 python3-venv; \
    rm -rf /var/lib/apt/lists/*

FROM python AS build
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG EXTRAS=verify,pull
WORKDIR /src
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python3 -m venv /opt/outrider
COPY constraints constraints
# Alone, so that a change of ours does not fetch it again.
RUN /opt/outrider/bin/python -m pip install -q -c constraints/cpu.txt \
    --extra-index-url "$TORCH_INDEX" torch
COPY pyproject.toml README.md LICENSE ./
COPY protos protos
COPY outrider outrider
COPY gateway gateway
COPY draft_service draft_service
COPY verify_service verify_service
RUN /opt/outrider/bin/python -m pip wheel -q --no-deps --wheel-dir /wheels . \
 && wheel=$(echo /wheels/outrider-*.whl) \
 && /opt/outrider/bin/python -m pip install -q -c constraints/cpu.txt \
    --extra-index-url "$TORCH_INDEX" "${wheel}[${EXTRAS}]" \
 && /opt/outrider/bin/python -m pip uninstall -q -y pip

FROM python
COPY --from=build /opt/outrider /opt/outrider
# Owned by the user, so that a new volume in their place is too.
RUN install -d -o 10001 -g 10001 -m 0755 /models \
 && install -d -o 10001 -g 10001 -m 0700 /keys
ENV PATH=/opt/outrider/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp \
    HF_HOME=/tmp/huggingface \
    TRITON_CACHE_DIR=/tmp/triton \
    TORCHINDUCTOR_CACHE_DIR=/tmp/inductor \
    OUTRIDER_CACHE=/models \
    OUTRIDER_DRAFT_HEALTH_PORT=50062 \
    OUTRIDER_VERIFY_HEALTH_PORT=50063 \
    OUTRIDER_HEALTH_ADDRESS=127.0.0.1:50063 \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 10001:10001
WORKDIR /tmp
EXPOSE 50052 50053 50062 50063 9101 9102
# Of a verify worker; a draft worker sets OUTRIDER_HEALTH_ADDRESS=127.0.0.1:50062.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10m --retries=3 \
    CMD ["python", "-m", "outrider.health", "--service", "live"]
ENTRYPOINT ["tini", "--"]
CMD ["python", "-m", "verify_service"]
