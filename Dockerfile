# The service as a container; docs/how-to/container.md runs it with a read-only root and no privileges.

FROM python:3.12-slim-bookworm AS build
WORKDIR /build
# pip works on it from outside, so that the image has none of its own.
RUN python -m venv --without-pip /opt/reconciler
# What is pinned changes less often than the sources, so it has a layer of its own.
COPY constraints.txt ./
RUN sed '/^# For development/,$d' constraints.txt > runtime.txt \
    && pip --python /opt/reconciler/bin/python install --no-cache-dir --require-hashes -r runtime.txt
COPY CHANGELOG.md LICENSE README.md SECURITY.md pyproject.toml ./
COPY api api
COPY docs docs
COPY examples examples
COPY reconciler reconciler
COPY schemas schemas
COPY systemd systemd
# What only the build needed goes; the check says when that was too much.
RUN pip --python /opt/reconciler/bin/python install --no-cache-dir --no-deps --no-build-isolation . \
    && pip --python /opt/reconciler/bin/python uninstall --yes \
       hatchling editables packaging pathspec pluggy tomlkit trove-classifiers \
    && pip --python /opt/reconciler/bin/python check

FROM python:3.12-slim-bookworm
# git always; ssh for ssh URLs and signed heads; tini passes signals on and takes up what a git that was ended leaves.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates git openssh-client tini \
    && rm -rf /var/lib/apt/lists/*
# A number, so that an orchestrator sees that it is not root's.
RUN groupadd --gid 10001 reconciler \
    && useradd --uid 10001 --gid 10001 --home-dir /var/lib/reconciler --no-create-home --shell /usr/sbin/nologin reconciler \
    && install -d -m 755 /etc/reconciler \
    && install -d -m 700 -o 10001 -g 10001 /var/lib/reconciler
COPY --from=build /opt/reconciler /opt/reconciler
# It listens at every address of the container: at its loopback nobody could reach it. It starts so only with TLS, or when
# SERVICE_INSECURE=true says aloud that something else protects it.
ENV PATH=/opt/reconciler/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    SERVICE_LISTEN=0.0.0.0:3001 \
    SERVICE_STATE_DIR=/var/lib/reconciler \
    HEALTH_URL=http://127.0.0.1:3001/livez
USER 10001:10001
WORKDIR /var/lib/reconciler
VOLUME /var/lib/reconciler
EXPOSE 3001
# Whether the process answers, not whether remotes do; the certificate is for other names, and no proxy is in between.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-I", "-c", "import os, ssl, urllib.request as ask; tls = ssl.create_default_context(); tls.check_hostname = False; tls.verify_mode = ssl.CERT_NONE; ask.build_opener(ask.ProxyHandler({}), ask.HTTPSHandler(context=tls)).open(os.environ['HEALTH_URL'], timeout=4)"]
ENTRYPOINT ["tini", "--", "reconciler"]
CMD ["serve"]
