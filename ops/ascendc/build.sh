#!/usr/bin/env bash
# Build the operators into a package for CANN, or the PyTorch extension. See README.md.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${here}/build

usage() {
    cat <<'TEXT'
build.sh [-n "op;op"] [-c "unit;unit"]   the operators: build/custom_opp_*.run
build.sh -t                              the PyTorch extension: tierkv_ascendc/_torch.so

  -n  folders of src/, all if left out
  -c  processors, "ascend910_93;ascend910b" if left out
  -h  this text
TEXT
}

fail() {
    printf 'build.sh: %s\n' "$@" >&2
    exit 1
}

known() {
    for folder in "${here}"/src/*/op_host; do basename "$(dirname "${folder}")"; done | grep -v '^common$' | paste -sd ';'
}

need_tools() {
    for tool in cmake python3 c++; do
        command -v "${tool}" >/dev/null || missing+=("${tool} is not on the PATH")
    done
}

# Everything that is missing is said at once.
need_cann() {
    if [[ -z ${ASCEND_HOME_PATH:-} ]]; then
        missing+=("ASCEND_HOME_PATH is not set: install CANN's toolkit and source its set_env.sh")
    elif [[ ! -d ${ASCEND_HOME_PATH} ]]; then
        missing+=("ASCEND_HOME_PATH names no folder: ${ASCEND_HOME_PATH}")
    elif [[ ! -d ${ASCEND_HOME_PATH}/compiler/tikcpp/ascendc_kernel_cmake ]]; then
        missing+=("this CANN has no compiler/tikcpp/ascendc_kernel_cmake, where find_package(ASC) looks: ${ASCEND_HOME_PATH}")
    fi
}

build_operators() {
    local operators=$1 units=$2 operator
    for operator in ${operators//;/ }; do
        [[ -d ${here}/src/${operator}/op_host ]] || fail "unknown operator, got ${operator}; known $(known)"
    done
    need_tools
    need_cann
    [[ ${#missing[@]} -eq 0 ]] || fail "cannot build the operators" "${missing[@]}"
    cmake -S "${here}" -B "${build}/operators" -DTIERKV_OPERATORS="${operators}" -DASCEND_COMPUTE_UNIT="${units}" \
        -DASCEND_CANN_PACKAGE_PATH="${ASCEND_HOME_PATH}"
    cmake --build "${build}/operators" --target binary package -j"$(nproc)"
    cp "${build}"/operators/custom_opp_*.run "${build}/"
}

build_torch() {
    need_tools
    python3 -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)' ||
        missing+=("python3 has no torch")
    [[ ${#missing[@]} -eq 0 ]] || fail "cannot build the extension" "${missing[@]}"
    cmake -S "${here}" -B "${build}/torch" -DTIERKV_TORCH=ON -DCMAKE_BUILD_TYPE=Release \
        -DPython3_EXECUTABLE="$(command -v python3)"
    cmake --build "${build}/torch"
    cmake --install "${build}/torch" --component torch --prefix "${here}/tierkv_ascendc"
}

missing=()
operators=$(known)
units="ascend910_93;ascend910b"
while getopts 'n:c:th' option; do
    case ${option} in
        n) operators=${OPTARG} ;;
        c) units=${OPTARG} ;;
        t) build_torch; exit ;;
        h) usage && exit ;;
        *) usage >&2 && exit 2 ;;
    esac
done
build_operators "${operators}" "${units}"
