#!/bin/bash
# check_install.sh BUILD_DIR CONSUMER_DIR: installs into a folder of its own, moves
# it, and builds a consumer in C and C++ against it, with find_package() and with pkg-config.
set -euo pipefail
build=$(realpath "${1:?build folder}") consumer=$(realpath "${2:?consumer folder}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cmake --install "$build" --prefix "$scratch/first" >/dev/null
mv "$scratch/first" "$scratch/prefix" # nothing may remember where it was
prefix=$scratch/prefix

run() { # a world of one, whatever the environment says
    env -u RANK -u WORLD_SIZE "$@" | tee /dev/stderr | grep -q '^rank 0 of 1 adds 2.5 and 0: 2.5$'
}

echo "find_package(plait)"
cmake -S "$consumer" -B "$scratch/build" -DCMAKE_PREFIX_PATH="$prefix" >"$scratch/log" 2>&1 &&
    cmake --build "$scratch/build" >>"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
run "$scratch/build/consumer"
run "$scratch/build/consumer_cxx"

echo "pkg-config plait"
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name plait.pc)")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir plait)
flags=$(pkg-config --cflags plait) libraries=$(pkg-config --libs plait)
cp "$consumer/consumer.c" "$scratch/consumer.cc"
${CC:-cc} -std=c99 -pedantic-errors -Wall -Wextra -Werror $flags "$consumer/consumer.c" -o "$scratch/c" $libraries
${CXX:-c++} -std=c++11 -pedantic-errors -Wall -Wextra -Werror $flags "$scratch/consumer.cc" -o "$scratch/cxx" $libraries
LD_LIBRARY_PATH=$libdir run "$scratch/c"
LD_LIBRARY_PATH=$libdir run "$scratch/cxx"

echo "a function that throws"
${CXX:-c++} -std=c++11 -pedantic-errors -Wall -Wextra -Werror -pthread $flags "$consumer/thrower.cc" -o "$scratch/thrower" \
    $libraries
LD_LIBRARY_PATH=$libdir env -u RANK -u WORLD_SIZE "$scratch/thrower"
