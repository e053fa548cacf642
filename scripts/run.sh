#!/bin/sh
# Builds Yoke and demonstrates it: see --help.
set -eu
caller=$PWD
cd "$(dirname "$0")/.."
root=$PWD
. scripts/setup.sh

if [ "${1:-}" = --help ] || [ "${1:-}" = -h ]; then
  cat <<'HELP'
Usage: scripts/run.sh [options of yoke generate]

Installs what is missing (with apt), builds the program alone and runs the demo model on two ranks over several prompts
at once. Where nvidia-smi shows GPUs and nvcc is there, the build is for those GPUs, in build/run-gpu; otherwise for CPU
ranks only, in build/run-cpu (with CUDA_VISIBLE_DEVICES= as well). build/release, for every kind of GPU, is built by
cmake --preset release && cmake --build --preset release

Options are handed on to `yoke generate` and win over the demo's; with prompts of your own the demo's are left out.

Examples:
  scripts/run.sh
  scripts/run.sh --tp 4
  scripts/run.sh --prompt "17+25="
  scripts/run.sh --model ~/models/Qwen3-8B-AWQ --tp 1 --prompt "Once upon a time"
HELP
  exit 0
fi

choose_gpus
echo "$gpu_note" >&2
install_for_program
install_grammar_library >&2
if [ -n "$gpu_architectures" ]; then
  preset=run-gpu
  configure $preset "-DCMAKE_CUDA_ARCHITECTURES=$gpu_architectures" >&2
else
  preset=run-cpu
  configure $preset >&2
fi
build $preset >&2

own_prompts=no
for argument; do
  case $argument in
  -p | -f | -p=* | -f=* | --prompt* | --token-ids*) own_prompts=yes ;;
  esac
done
[ $own_prompts = yes ] ||
  set -- --prompt "348+275=" --prompt "Sort: k b z a ->" --prompt "The capital of Norway is" \
    --prompt "Tell a story: Mia the fox, a red kite, the garden." "$@"
yoke=$root/build/$preset/bin/yoke
echo "The program: build/$preset/bin/yoke" >&2
demo=$root/tests/models/demo
ranks=2 # 1 if two ranks cannot run, for instance on a machine with one GPU
"$yoke" plan --model "$demo" --tp 2 --format json 2>/dev/null | grep -q '"fits":true' || ranks=1
cd "$caller" # paths among the options are the caller's
exec "$yoke" generate --model "$demo" --tp $ranks --temperature 0 --max-tokens 128 "$@"
