#!/bin/sh
# Fills /models once: target/ and head/, then the mark that all pods wait for.
set -eu
cd /models
if [ -e .complete ]; then
  echo "the model is there already: $(cat .complete)"
  exit 0
fi
if [ "$TARGET" = embedded ]; then
  outrider pull
  ln -sfn models/SmolLM2-135M-Instruct target
else
  hf download "$TARGET" --local-dir target
fi
if [ "$HEAD" = embedded ]; then
  mkdir -p head
  packaged=$(python -c 'from outrider.embedded_model import EMBEDDED_HEAD; print(EMBEDDED_HEAD)')
  cp "$packaged"/* head/
elif [ -n "$HEAD" ]; then
  hf download "$HEAD" --local-dir head.fetched
  if ls head.fetched/*.safetensors > /dev/null 2>&1; then
    rm -rf head
    mv head.fetched head
  else
    # Pickled files are never read while serving.
    outrider convert head.fetched head --format "${HEAD_FORMAT:-safeailab}" --target target --force
  fi
fi
echo "$TARGET $HEAD" > .complete
