#!/bin/sh
# Installs the wheels of a requirement file into /opt/venv of an image, on a builder of any platform: install.sh FILE
#
# TARGETARCH is the image's architecture (amd64, arm64; else the builder's). pip installs for another platform only with --target, which puts
# programs into a folder bin beside the modules; nothing calls them. Byte code holds no times of files: equal wheels give an equal layer.
set -eu
case ${TARGETARCH:-} in amd64) machine=x86_64 ;; arm64) machine=aarch64 ;; *) machine=$(uname -m) ;; esac
site=$(/opt/venv/bin/python -c 'import site; print(site.getsitepackages()[0])')
/build/bin/pip install --quiet --require-hashes --no-deps --no-compile --only-binary=:all: --target "$site" --requirement "$1" \
    --platform "manylinux_2_28_$machine" --platform "manylinux_2_17_$machine" --platform "manylinux2014_$machine"
rm -rf "$site/bin"
/opt/venv/bin/python -m compileall -q --invalidation-mode unchecked-hash "$site"
