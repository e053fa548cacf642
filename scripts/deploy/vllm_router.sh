#!/bin/sh
# vllm_router.sh - vllm-router (pip install vllm-router) in front of replicas of `yoke serve`.
set -eu

if [ "${1:-}" = --help ]; then
  cat <<'EOF'
Usage: vllm_router.sh [URL ...]

Starts vllm-router on 127.0.0.1:8000 in front of these replicas, http://127.0.0.1:8001 and 8002 without any:

  yoke serve MODEL --served-model-name m --devices 0 --port 8001
  yoke serve MODEL --served-model-name m --devices 1 --port 8002

HOST, PORT and POLICY (cache_aware, round_robin, power_of_two, consistent_hash ...) of the environment replace the
defaults. cache_aware sends prompts with equal beginnings to the same replica, which has them computed.
EOF
  exit 0
fi
[ $# -gt 0 ] || set -- http://127.0.0.1:8001 http://127.0.0.1:8002

exec vllm-router --host "${HOST:-127.0.0.1}" --port "${PORT:-8000}" --policy "${POLICY:-cache_aware}" \
  --health-check-interval-secs 1 --health-failure-threshold 1 --retry-max-retries 10 --request-timeout-secs 3600 \
  --worker-urls "$@"
