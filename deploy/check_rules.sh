#!/bin/sh
# Checks what Prometheus reads: rules, their tests, scrape configurations, and the queries of the
# dashboard. Needs promtool (Debian: prometheus); says loudly what it could not check.
set -eu

monitoring=$(cd -- "$(dirname -- "$0")" && pwd)/kustomize/components/monitoring
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

skip() {
    echo "SKIP check_rules: $1" >&2
}

if ! command -v promtool >/dev/null 2>&1; then
    skip "promtool is not installed; rules, their tests and scrape configurations are NOT checked"
    exit 0
fi

promtool check rules "$monitoring"/rules/*.yaml
promtool test rules "$monitoring"/rules/tests/*.yaml

# Without the files that only a running Prometheus has.
promtool check config --syntax-only "$monitoring/prometheus.yaml"
pods=$monitoring/prometheus-pods.yaml
if ! promtool check config --syntax-only "$pods" >"$work/out" 2>&1; then
    if ! grep -q 'kubernetes_sd_configs not found' "$work/out"; then
        cat "$work/out" >&2
        exit 1
    fi
    # Debian's promtool is built without it: the rest is checked all the same.
    skip "this promtool knows no kubernetes_sd_configs; that part of prometheus-pods.yaml is NOT checked"
    sed -e 's/^    kubernetes_sd_configs:$/    static_configs: [{targets: ["pod:1"]}]/' \
        -e '/^      - role: pod$/d' -e '/^        namespaces: {own_namespace/d' "$pods" >"$work/pods.yaml"
    promtool check config --syntax-only "$work/pods.yaml"
fi

# The dashboard's queries, as rules: promtool reads JSON, which is YAML, and so can say if one is bad.
python=$(command -v python3 || command -v python || true)
if [ -z "$python" ]; then
    skip "there is no python; the queries of dashboard.json are NOT checked"
    exit 0
fi
"$python" - "$monitoring/dashboard.json" >"$work/dashboard.yaml" <<'PYTHON'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    panels = json.load(file)["panels"]
queries = [target["expr"] for panel in panels for target in panel.get("targets", [])]
rules = [
    {"record": f"dashboard:query:{number}", "expr": query.replace("$__rate_interval", "5m")}
    for number, query in enumerate(queries)
]
json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, sys.stdout)
PYTHON
promtool check rules "$work/dashboard.yaml"
