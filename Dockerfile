# The service as a container; docs/install.md has the command that runs it with a read-only root and no privileges.

FROM python:3.12-slim-bookworm AS build
WORKDIR /build
RUN python -m venv /opt/reconciler
# What is pinned changes less often than the sources, so it has a layer of its own.
COPY constraints.txt ./
RUN sed '/^# For development/,$d' constraints.txt > runtime.txt \
    && /opt/reconciler/bin/pip install --no-cache-dir --require-hashes -r runtime.txt
COPY LICENSE README.md pyproject.toml ./
COPY api api
COPY examples examples
COPY reconciler reconciler
COPY schemas schemas
COPY systemd systemd
RUN /opt/reconciler/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.12-slim-bookworm
# git always; the rest for ssh URLs and signed heads.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates git openssh-client \
    && rm -rf /var/lib/apt/lists/*
# A number, so that an orchestrator sees that it is not root's.
RUN groupadd --gid 10001 reconciler \
    && useradd --uid 10001 --gid 10001 --home-dir /var/lib/reconciler --no-create-home --shell /usr/sbin/nologin reconciler \
    && install -d -m 755 /etc/reconciler \
    && install -d -m 700 -o 10001 -g 10001 /var/lib/reconciler
COPY --from=build /opt/reconciler /opt/reconciler
ENV PATH=/opt/reconciler/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    SERVICE_STATE_DIR=/var/lib/reconciler
USER 10001:10001
WORKDIR /var/lib/reconciler
VOLUME /var/lib/reconciler
EXPOSE 3001
# With TLS or another port, give another one: it asks whether the process answers, not whether remotes do.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:3001/livez', timeout=4)"]
ENTRYPOINT ["reconciler"]
CMD ["serve"]
