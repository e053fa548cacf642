/* Any bytes are an adapter's configuration with usable numbers or an error. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "loader/adapter/adapter_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void require(bool condition)
{
  if (!condition) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
  static const char module[] = "model.layers.3.self_attn.q_proj";
  yk_adapter_config config;
  yk_err err = YK_ERR_INIT;
  if (yk_adapter_config_parse("adapter_config.json", data ? (const char *)data : "", n_bytes, &config, &err) != YK_OK) {
    require(err.code != YK_OK && err.message[0]);
  } else {
    const int32_t rank = yk_adapter_config_rank(&config, module);
    require(err.code == YK_OK && config.rank >= 1 && config.rank <= YK_ADAPTER_MAX_RANK);
    require(rank >= 0 && rank <= YK_ADAPTER_MAX_RANK && isfinite(config.alpha));
    if (rank > 0) require(!isnan(yk_adapter_config_scale(&config, module, rank)));
  }
  yk_adapter_config_free(&config);
  return 0;
}
