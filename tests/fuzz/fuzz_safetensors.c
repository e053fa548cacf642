/* Any bytes are a safetensors file that opens, or an error. A file that opens can be read through its views. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "loader/safetensors/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void require(bool condition)
{
  if (!condition) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
  yk_err err = YK_ERR_INIT;
  yk_safetensors *file = NULL;
  if (yk_safetensors_parse("input", data, n_bytes, &file, &err) != YK_OK) {
    require(!file && err.code != YK_OK && err.message[0]);
    return 0;
  }
  require(err.code == YK_OK);
  uint64_t total = 0;
  unsigned sum = 0;
  for (size_t i = 0; i < yk_safetensors_count(file); i++) {
    const yk_tensor *tensor = yk_safetensors_at(file, i);
    const uint8_t *bytes = tensor->data;
    require(i == 0 || strcmp(yk_safetensors_at(file, i - 1)->name, tensor->name) < 0);
    require(tensor->n_dims >= 0 && tensor->n_dims <= YK_TENSOR_MAX_DIMS);
    if (tensor->n_bytes) sum += bytes[0] + bytes[tensor->n_bytes - 1];
    total += tensor->n_bytes;
  }
  require(total < n_bytes && sum < UINT32_MAX);
  yk_safetensors_close(file);
  return 0;
}
