#!/usr/bin/env bash
set -euo pipefail

usage() {
  echo "usage: deploy.sh ENV" >&2
  exit 64
}

function build_image {
  docker build -t shop:"$1" .
}

[ $# -eq 1 ] || usage
build_image "$1"
for host in web1 web2; do
  ssh "$host" "docker pull shop:$1"
done
