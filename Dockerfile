# syntax=docker/dockerfile:1
# The image holds the binary, the C and C++ runtime, and nothing else: no shell,
# no package manager. See deploy/README.md for how to run it.

FROM rust:1.95-bookworm AS chef
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
# RocksDB's bindings are generated through libclang. The release is pinned by
# the base image; a pinned package version would vanish with the next fix.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends libclang-dev \
    && rm -rf /var/lib/apt/lists/*
RUN cargo install cargo-chef --locked --version 0.1.78
WORKDIR /build

# What the dependencies are, without the sources: this changes when they do.
FROM chef AS plan
COPY . .
RUN cargo chef prepare --bin cuckood --recipe-path recipe.json

# Dependencies first: RocksDB is compiled again when they change, and not
# whenever the sources do.
FROM chef AS build
COPY --from=plan /build/recipe.json recipe.json
COPY .cargo .cargo
RUN cargo chef cook --release --locked --bin cuckood --recipe-path recipe.json
COPY . .
RUN cargo build --release --locked --bin cuckood \
    && find target -name '*.alone' -exec cat {} + \
    && install -D target/release/cuckood /image/usr/local/bin/cuckood \
    && install -d -m 0700 -o 65532 -g 65532 /image/data /image/backups

# The binary alone, for those who run no containers:
# docker build --target binary --output . .
FROM scratch AS binary
COPY --from=build /image/usr/local/bin/cuckood /

FROM gcr.io/distroless/cc-debian12:nonroot
LABEL org.opencontainers.image.title="cuckood" \
      org.opencontainers.image.description="Named cuckoo filters over HTTP, durable in RocksDB" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /image /
USER 65532:65532
# Loopback inside a container is reachable by nobody, so it listens on all
# addresses, and therefore refuses to start until it is given keys
# (CUCKOOD_KEYS_FILE) or told that anybody may use it
# (CUCKOOD_ALLOW_ANONYMOUS=true).
ENV CUCKOOD_LISTEN=0.0.0.0:8080 \
    CUCKOOD_DATA_DIR=/data
VOLUME ["/data"]
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
    CMD ["/usr/local/bin/cuckood", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/cuckood"]
CMD ["serve"]
