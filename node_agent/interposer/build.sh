#!/bin/sh
# Builds liblaneway-interposer.so for glibc 2.17 and newer, and the file that /etc/ld.so.preload is to be in a container.
#
#   build.sh FOLDER [COMPILER OPTION]…    (the default compiler is zig's, from the Python package ziglang)
#
# TARGETARCH is the architecture for which zig compiles (amd64, arm64; else this machine's).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
shift
case ${TARGETARCH:-} in amd64) machine=x86_64 ;; arm64) machine=aarch64 ;; *) machine=$(uname -m) ;; esac
[ $# -gt 0 ] || set -- "${PYTHON:-python3}" -m ziglang cc -target "$machine-linux-gnu.2.17" -s
mkdir -p "$folder"
partial=$folder/.liblaneway-interposer.so.$$
"$@" -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -shared -Wl,-soname,liblaneway-interposer.so -Wl,-z,now -Wl,-Bsymbolic \
    -o "$partial" "$here"/*.c
mv "$partial" "$folder/liblaneway-interposer.so"
echo /opt/laneway/liblaneway-interposer.so >"$folder/ld.so.preload"
