# What ./quickstart and ./test share: talking, stamps, packages, the virtual
# environment, builds. Sourced by bash; expects the repository's root as the current folder.

set -euo pipefail

STARTED=$SECONDS
LOGS=build/logs
VENV=.venv
TORCH=2.13.0 # the PyTorch that the process group is tested with
export CMAKE_GENERATOR=Ninja # there may be no make

mkdir -p "$LOGS" && touch "$LOGS" && [ -w . ] || {
    echo "${0##*/}: $(id -un) can't write to $PWD and $LOGS; was it run by another user before? chown -R helps" >&2
    exit 1
}

# ---------------------------------------------------------------- talking

clock() { printf '%d:%02d' $(((SECONDS - STARTED) / 60)) $(((SECONDS - STARTED) % 60)); }
say() { printf '[%s] %s\n' "$(clock)" "$*"; }
die() {
    printf '[%s] %s: stopped: %s\n' "$(clock)" "${0##*/}" "$*" >&2
    exit 1
}

CHILD=
end_child() { # the process group of the step that is running
    [ -z "$CHILD" ] || kill -TERM -- "-$CHILD" 2>/dev/null || true
}
trap end_child EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

latest_line() { # LOG; a carriage return begins a new one
    tail -c 8000 "$1" 2>/dev/null | tr '\r' '\n' | tr -cd '[:print:]\n' | grep -v '^ *$' | tail -1 || true
}

# step TITLE LOG COMMAND...: says what it does, runs it with its output in a log, shows that log's
# latest line while it runs (on a terminal in place, elsewhere every 15 s) and its end if it fails.
step() {
    local title=$1 log=$LOGS/$2.log began=$SECONDS told=$SECONDS
    shift 2
    say "$title"
    set -m # a process group of its own, so that all of it can be ended
    "$@" >"$log" 2>&1 </dev/null &
    CHILD=$!
    set +m
    while kill -0 "$CHILD" 2>/dev/null; do
        sleep 0.2
        if [ -t 1 ] && [ "${TERM:-dumb}" != dumb ]; then
            printf '\r\033[K        %.*s' $((${COLUMNS:-80} - 10)) "$(latest_line "$log")"
        elif [ $((SECONDS - told)) -ge 15 ]; then
            told=$SECONDS
            printf '        %d s: %.100s\n' $((SECONDS - began)) "$(latest_line "$log")"
        fi
    done
    [ ! -t 1 ] || [ "${TERM:-dumb}" = dumb ] || printf '\r\033[K'
    local result=0
    wait "$CHILD" || result=$?
    CHILD=
    if [ "$result" -ne 0 ]; then
        echo "---------------- the first errors in $log"
        grep -n -i -m 10 'error\b' "$log" | cut -c1-200 || true
        echo "---------------- its end"
        tail -40 "$log"
        echo "----------------"
        die "$title (exit status $result; all of its output: $log)"
    fi
}

# ----------------------------------------------------------------- stamps

# hash_of WORD-OR-PATH...: one hash over words, files and all files below folders.
hash_of() {
    local item
    for item in "$@"; do
        if [ -d "$item" ]; then
            find "$item" -type f ! -path '*/__pycache__/*' ! -path '*/build/*' ! -path '*.egg-info/*' -print0 |
                LC_ALL=C sort -z | xargs -0r sha256sum
        elif [ -f "$item" ]; then
            sha256sum "$item"
        else
            echo "$item"
        fi
    done | sha256sum | cut -d' ' -f1
}
is_done() { [ "$(cat "$VENV/stamps/$1" 2>/dev/null)" = "$2" ]; } # NAME HASH
set_done() { mkdir -p "$VENV/stamps" && echo "$2" >"$VENV/stamps/$1"; }

# --------------------------------------------------------------- packages

is_installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

apt_install() {
    export DEBIAN_FRONTEND=noninteractive
    local options=(-y --no-install-recommends -o DPkg::Lock::Timeout=120 -o APT::Color=0)
    apt-get update -o APT::Color=0 && apt-get install "${options[@]}" "$@"
}

# need_packages PACKAGE...: installs the missing ones as root; otherwise says how to.
need_packages() {
    local package missing=()
    if ! command -v dpkg-query >/dev/null; then
        say "This is no Debian, so I can't install packages; the build needs the likes of: $*"
        return
    fi
    for package in "$@"; do
        is_installed "$package" || missing+=("$package")
    done
    if [ ${#missing[@]} -eq 0 ]; then
        say "Debian packages: all $# are there"
    elif [ "$(id -u)" -eq 0 ]; then
        step "Debian packages: installing ${missing[*]}" apt apt_install "${missing[@]}"
    else
        echo "These Debian packages are missing, and only root can install them. Run this, then start me again:" >&2
        echo "    apt-get update && apt-get install -y --no-install-recommends ${missing[*]}" >&2
        die "missing packages: ${missing[*]}"
    fi
}

# The packages of Python that python3 on the PATH lacks: none for one that was built by hand.
python_packages() {
    command -v python3 >/dev/null || { echo python3 python3-venv python3-dev; return; }
    python3 -c 'import venv, ensurepip' 2>/dev/null || echo python3-venv
    python3 -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' || echo python3-dev
}

# The package with clang's runtimes (sanitizers, libFuzzer), which is named after clang's version.
clang_runtime_package() {
    local version
    version=$(apt-cache show clang 2>/dev/null | sed -n 's/^Version: 1:\([0-9]*\).*/\1/p' | head -1)
    if [ -z "$version" ]; then # no package lists yet
        case $(. /etc/os-release && echo "${VERSION_ID:-}") in
        12) version=14 ;;
        *) version=19 ;;
        esac
    fi
    echo "libclang-rt-$version-dev"
}

# --------------------------------------------------------------- building

# build_preset PRESET [OPTIONS...] [-- TARGETS...]: configures and builds it; quick when nothing has changed.
build_preset() {
    local preset=$1 options=()
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    step "Configuring build/$preset" "configure-$preset" cmake --preset "$preset" "${options[@]}"
    grep -h 'PLAIT_WITH_\|PLAIT_TESTS:' "$LOGS/configure-$preset.log" >"$LOGS/features.log" || true
    step "Building build/$preset" "build-$preset" cmake --build --preset "$preset" ${2:+--target "${@:2}"}
}

# ----------------------------------------------------------------- Python

setup_venv() {
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
        die "$(python3 --version) is too old for PyTorch $TORCH: Python 3.10 and later will do"
    local python
    python=$(python3 -c 'import sys; print(sys.version, sys.base_prefix)')
    if ! is_done python "$(hash_of "$python")" || ! "$VENV/bin/python" -c 'import pip' 2>/dev/null; then
        rm -rf "$VENV"
        step "Virtual environment: making $VENV with $(python3 --version)" venv python3 -m venv "$VENV"
        set_done python "$(hash_of "$python")"
    fi
}

# PyTorch, from where pip is set up to look. Where that offers 2.13.0+cpu beside 2.13.0, pip prefers the former.
# The other one for x86-64 is the CUDA build, which doesn't load without all of its CUDA packages: nothing to be
# saved by leaving some out.
setup_torch() {
    local free
    if "$VENV/bin/python" -c 'import torch' 2>/dev/null; then
        return # also one that you have put there yourself
    fi
    say "PyTorch: where pip's index has no CPU build for x86-64, CUDA comes along: 2.5 GB to fetch, 5 GB on disk."
    say "         It runs without a GPU just as well; PIP_EXTRA_INDEX_URL can name an index that has CPU builds"
    free=$(df -Pk . | awk 'NR == 2 { print int($4 / 1048576) }')
    [ "$free" -ge 8 ] || say "         There are only $free GB free here: that may not be enough"
    step "PyTorch: installing torch $TORCH" torch \
        "$VENV/bin/pip" install --disable-pip-version-check --no-compile --progress-bar off "torch==$TORCH"
}

setup_python_packages() {
    local hash
    hash=$(hash_of scripts/requirements.txt)
    if ! is_done requirements "$hash"; then
        step "Python packages: installing $(grep -v '^#' scripts/requirements.txt | tr '\n' ' ')" requirements \
            "$VENV/bin/pip" install --disable-pip-version-check --no-compile --progress-bar off \
            -r scripts/requirements.txt
        set_done requirements "$hash"
    fi
}

# The process group, built again when its sources, the library's header, or torch have changed.
setup_shim() {
    local hash torch
    torch=$("$VENV/bin/python" -c 'import torch; print(torch.__version__)')
    hash=$(hash_of python include/plait.h src "$torch")
    if is_done shim "$hash" && "$VENV/bin/python" -c 'import plait' 2>/dev/null; then
        return
    fi
    step "PyTorch process group: pip install ./python (torch $torch)" shim \
        "$VENV/bin/pip" install -v --disable-pip-version-check --no-build-isolation --force-reinstall --no-deps ./python
    set_done shim "$hash"
}

setup_python() {
    setup_venv
    setup_torch
    setup_python_packages
    setup_shim
    local versions='import sys, torch; print(f"{sys.version.split()[0]}, torch {torch.__version__}")'
    say "Python: $("$VENV/bin/python" -c "$versions") in $VENV"
}
