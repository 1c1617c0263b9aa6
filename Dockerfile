# One controller of a kraftd quorum. The image holds the daemon and kraftctl; Spark stays outside, beside the exports.

# A Python with PGO and LTO: its CONFIG_ARGS have --enable-optimizations and --with-lto. One without needs a tenth more CPU.
FROM python:3.11-slim-bookworm AS build
WORKDIR /build
COPY requirements/build.lock requirements/runtime.lock requirements/
RUN python3 -m venv /opt/kraftd \
 && python3 -m venv tools && tools/bin/pip install --no-cache-dir --require-hashes -r requirements/build.lock \
 && /opt/kraftd/bin/pip install --no-cache-dir --require-hashes -r requirements/runtime.lock
COPY pyproject.toml README.md LICENSE ./
COPY kraftd kraftd
RUN tools/bin/pip wheel --no-deps --no-build-isolation --wheel-dir wheels . \
 && /opt/kraftd/bin/pip install --no-deps --no-index wheels/kraftd-*.whl

FROM python:3.11-slim-bookworm
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/kraftd kraftd
COPY --from=build /opt/kraftd /opt/kraftd
COPY config/compose-*.properties /etc/kraftd/
COPY scripts/container-entrypoint /usr/local/bin/
ENV PATH=/opt/kraftd/bin:$PATH
USER 10001
WORKDIR /var/lib/kraftd
VOLUME /var/lib/kraftd
EXPOSE 9093 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
  CMD ["kraftctl", "--bootstrap-controller", "127.0.0.1:9093", "health"]
ENTRYPOINT ["container-entrypoint"]
