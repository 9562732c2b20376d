# Laneway's images, one target each: operator, device-plugin, node-agent, client, board, examples.
#
#   docker build --target operator --tag ghcr.io/laneway/operator:0.1.0 .
#
# `python -m hack.images build` builds them all, with Docker or Podman if one runs. Otherwise it uses buildah, with Debian root file systems in
# place of the base images and wheels from a mounted folder. The build arguments PIP_NO_INDEX and PIP_FIND_LINKS name that folder. Without them
# pip uses its index. The secret `pip` passes your own pip configuration, which stays out of the images:
#
#   docker build --secret id=pip,src=/etc/pip.conf …
ARG BASE=python:3.13-slim
ARG BUILD_BASE=${BASE}
ARG EXAMPLES_BASE=examples-base
# Docker knows it anyway. buildah and Podman otherwise take the builder's platform in FROM, or that of the stage before.
ARG TARGETPLATFORM

# ---- Build stages. Third-party packages have their own layer, so that a change of Laneway's code does not rebuild the large
# one. An ARG is valid in its own stage only.
#
# They run on the builder's platform, for the image's: without emulation, since Python code does not depend on it. Byte code holds no times
# of files, so that equal sources give equal layers.

FROM --platform=$BUILDPLATFORM ${BUILD_BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore PYTHONHASHSEED=0
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS
RUN python3 -m venv /build && python3 -m venv --without-pip /opt/venv
COPY requirements/build.txt /requirements/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    /build/bin/pip install --quiet --require-hashes --requirement /requirements/build.txt

FROM build AS operator-dependencies
ARG TARGETARCH
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS
COPY requirements/install.sh requirements/operator.txt /requirements/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    sh /requirements/install.sh /requirements/operator.txt

FROM build AS device-plugin-dependencies
ARG TARGETARCH
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS
COPY requirements/install.sh requirements/device-plugin.txt /requirements/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    sh /requirements/install.sh /requirements/device-plugin.txt

FROM build AS node-agent-dependencies
ARG TARGETARCH
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS
COPY requirements/install.sh requirements/node-agent.txt /requirements/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    sh /requirements/install.sh /requirements/node-agent.txt

FROM build AS board-dependencies
ARG TARGETARCH
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS
COPY requirements/install.sh requirements/board.txt /requirements/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    sh /requirements/install.sh /requirements/board.txt

FROM build AS core-wheel
COPY core/pyproject.toml core/PACKAGE.md core/LICENSE /source/core/
COPY core/src /source/core/src
RUN /build/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /wheels /source/core

FROM core-wheel AS operator-own
COPY operator/pyproject.toml operator/PACKAGE.md operator/LICENSE /source/operator/
COPY operator/src /source/operator/src
RUN /build/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /wheels /source/operator \
    && /build/bin/pip --python /opt/venv/bin/python install --quiet --no-deps --no-index --no-compile --root /own /wheels/*.whl \
    && /opt/venv/bin/python -m compileall -q --invalidation-mode unchecked-hash -s /own -p / /own

FROM core-wheel AS device-plugin-own
COPY device_plugin/pyproject.toml device_plugin/PACKAGE.md device_plugin/LICENSE /source/device_plugin/
COPY device_plugin/src /source/device_plugin/src
RUN /build/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /wheels /source/device_plugin \
    && /build/bin/pip --python /opt/venv/bin/python install --quiet --no-deps --no-index --no-compile --root /own /wheels/*.whl \
    && /opt/venv/bin/python -m compileall -q --invalidation-mode unchecked-hash -s /own -p / /own

FROM core-wheel AS node-agent-own
COPY node_agent/pyproject.toml node_agent/PACKAGE.md node_agent/LICENSE /source/node_agent/
COPY node_agent/src /source/node_agent/src
RUN /build/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /wheels /source/node_agent \
    && /build/bin/pip --python /opt/venv/bin/python install --quiet --no-deps --no-index --no-compile --root /own /wheels/*.whl \
    && /opt/venv/bin/python -m compileall -q --invalidation-mode unchecked-hash -s /own -p / /own

FROM core-wheel AS board-own
COPY board/pyproject.toml board/PACKAGE.md board/LICENSE /source/board/
COPY board/src /source/board/src
RUN /build/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /wheels /source/board \
    && /build/bin/pip --python /opt/venv/bin/python install --quiet --no-deps --no-index --no-compile --root /own /wheels/*.whl \
    && /opt/venv/bin/python -m compileall -q --invalidation-mode unchecked-hash -s /own -p / /own

# No byte code: the user's Python imports the client.
FROM build AS client-own
COPY client/pyproject.toml client/PACKAGE.md client/LICENSE /source/client/
COPY client/src /source/client/src
RUN /build/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /wheels /source/client \
    && /build/bin/pip install --quiet --no-deps --no-index --no-compile --target /client /wheels/*.whl \
    && rm -r /client/*.dist-info && cp /source/client/src/sitecustomize.py /client/

# For glibc 2.17 and newer, whatever the user's image has.
FROM build AS interposer
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS
COPY requirements/interposer.txt /requirements/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    /build/bin/pip install --quiet --require-hashes --only-binary=:all: --requirement /requirements/interposer.txt
COPY node_agent/interposer /source/interposer
ARG TARGETARCH
RUN PYTHON=/build/bin/python sh /source/interposer/build.sh /interposer

# ---- The images.

# Its user has no entry in /etc/passwd, so libraries read LOGNAME.
FROM --platform=$TARGETPLATFORM ${BASE} AS operator
LABEL org.opencontainers.image.licenses=Apache-2.0 org.opencontainers.image.source=https://github.com/laneway/laneway
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 LOGNAME=laneway
COPY --from=operator-dependencies /opt/venv /opt/venv
COPY --from=operator-own /own/opt/venv /opt/venv
USER 65532:65532
ENTRYPOINT ["/opt/venv/bin/laneway-operator"]

# Root on the node, because root owns the kubelet's device-plugin folder and PodResources socket. The chart drops every capability.
FROM --platform=$TARGETPLATFORM ${BASE} AS device-plugin
LABEL org.opencontainers.image.licenses=Apache-2.0 org.opencontainers.image.source=https://github.com/laneway/laneway
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
COPY --from=device-plugin-dependencies /opt/venv /opt/venv
COPY --from=device-plugin-own /own/opt/venv /opt/venv
ENTRYPOINT ["/opt/venv/bin/laneway-device-plugin"]

# Root on the node, to read to which pod any user's process belongs.
FROM --platform=$TARGETPLATFORM ${BASE} AS node-agent
LABEL org.opencontainers.image.licenses=Apache-2.0 org.opencontainers.image.source=https://github.com/laneway/laneway
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
COPY --from=node-agent-dependencies /opt/venv /opt/venv
COPY --from=node-agent-own /own/opt/venv /opt/venv
ENTRYPOINT ["/opt/venv/bin/laneway-node-agent"]

FROM --platform=$TARGETPLATFORM ${BASE} AS board
LABEL org.opencontainers.image.licenses=Apache-2.0 org.opencontainers.image.source=https://github.com/laneway/laneway
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 LOGNAME=laneway
COPY --from=board-dependencies /opt/venv /opt/venv
COPY --from=board-own /own/opt/venv /opt/venv
USER 65532:65532
ENTRYPOINT ["/opt/venv/bin/laneway-board"]

FROM --platform=$TARGETPLATFORM ${BASE} AS client
LABEL org.opencontainers.image.licenses=Apache-2.0 org.opencontainers.image.source=https://github.com/laneway/laneway
COPY client/LICENSE /usr/share/doc/laneway/
COPY client/image/install_client.py /usr/local/bin/
COPY --from=client-own /client /client
COPY --from=interposer /interposer /client
ENTRYPOINT ["python3", "/usr/local/bin/install_client.py"]

FROM --platform=$TARGETPLATFORM debian:trixie-slim AS examples-base
RUN apt-get update -q && apt-get install -q -y --no-install-recommends python3-sklearn python3-torch && rm -rf /var/lib/apt/lists/*

# A user's image, as a user would write it: PyTorch, scikit-learn and scripts, without Laneway.
FROM --platform=$TARGETPLATFORM ${EXAMPLES_BASE} AS examples
LABEL org.opencontainers.image.licenses=Apache-2.0 org.opencontainers.image.source=https://github.com/laneway/laneway
ENV PYTHONUNBUFFERED=1
COPY examples /opt/examples
WORKDIR /opt/examples
CMD ["python3"]
