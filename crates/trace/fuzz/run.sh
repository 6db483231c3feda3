#!/bin/sh
# Runs one fuzz target: ./run.sh TARGET SECONDS   (targets: any tracedat perfdata text perfetto pages schedbt export)
# Needs a nightly compiler and a C++ compiler; no cargo-fuzz. The corpus grows in corpus/TARGET, crashes go to artifacts/TARGET.
set -eu
cd "$(dirname "$0")"
target=$1
seconds=${2:-60}
seeds=$PWD/target/seeds
OPPLAB_FUZZ_SEEDS=$seeds cargo test -q --manifest-path ../Cargo.toml --test all hostile::write_seeds >/dev/null
mkdir -p "corpus/$target" "artifacts/$target"
RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Zsanitizer=address --cfg fuzzing -Cdebug-assertions" \
  cargo +nightly build -q --release --target x86_64-unknown-linux-gnu --bin "$target"
exec "target/x86_64-unknown-linux-gnu/release/$target" "corpus/$target" "$seeds" -artifact_prefix="artifacts/$target/" \
  -max_total_time="$seconds" -rss_limit_mb=512 -max_len=65536 -print_final_stats=1
