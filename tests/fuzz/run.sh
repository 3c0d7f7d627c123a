#!/usr/bin/env bash
# Unit tests of the parsers, the hostile folders and every fuzz target, under address and undefined-behaviour sanitizers.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${FUZZ_SECONDS:-60}
# A folder of a former set-up may name tools that are gone.
cmake --preset sanitize > /dev/null 2>&1 || cmake --fresh --preset sanitize > /dev/null
ninja -C build-sanitize -j "$(nproc)"
# libtorch's own threads and allocator leave memory to the system at exit.
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1
ctest --test-dir build-sanitize --output-on-failure
failed=0
for target in build-sanitize/*_fuzz; do
  name=$(basename "$target" _fuzz)
  echo "fuzz $name for $seconds s"
  "$target" "tests/hostile/$name" "$seconds" || failed=1
done
exit $failed
