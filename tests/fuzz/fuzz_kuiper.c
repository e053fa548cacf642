/* Any bytes are a KuiperLLama model file or an error. An accepted file has a configuration, and its tensors can be read
 * through their views. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "loader/foreign/kuiper_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void require(bool condition)
{
  if (!condition) abort();
}

/* Tensors are consecutive from the header to the file's end. */
static void check_tensors(const yk_kuiper *file, const uint8_t *data, size_t n_bytes)
{
  yk_err err = YK_ERR_INIT;
  yk_shards *shards;
  require(yk_kuiper_shards(file, &shards, &err) == YK_OK);
  size_t total = YK_KUIPER_HEADER_BYTES;
  unsigned sum = 0;
  for (size_t i = 0; i < yk_shards_count(shards); i++) {
    const yk_tensor *tensor = yk_shards_at(shards, i);
    const uint8_t *bytes = tensor->data;
    require(bytes >= data + YK_KUIPER_HEADER_BYTES && tensor->n_bytes > 0);
    require((size_t)(bytes - data) + tensor->n_bytes <= n_bytes);
    sum += bytes[0] + bytes[tensor->n_bytes - 1];
    total += tensor->n_bytes;
  }
  require(total == n_bytes && sum < UINT32_MAX);
  yk_shards_close(shards);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
  yk_err err = YK_ERR_INIT;
  yk_kuiper *file = NULL;
  if (yk_kuiper_parse("input", data, n_bytes, &file, &err) != YK_OK) {
    require(!file && err.code != YK_OK && err.message[0]);
    return 0;
  }
  check_tensors(file, data, n_bytes);
  yk_model_config config;
  require(yk_kuiper_config_load(file, NULL, NULL, &config, &err) == YK_OK && err.code == YK_OK);
  require(config.hidden_size == yk_kuiper_header_of(file)->dim && config.family == YK_FAMILY_QWEN3);
  yk_model_config_free(&config);
  yk_kuiper_close(file);
  return 0;
}
