/* Any bytes are msmodelslim's description of a small model or an error; an accepted description has a supported kind
 * for each module. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "loader/hf/hf_config.h"
#include "loader/model/quant_rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static const char config_text[] =
    "{\"architectures\": [\"Qwen2ForCausalLM\"], \"hidden_size\": 64, \"intermediate_size\": 96, \"num_hidden_layers\":"
    " 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 200, \"max_position_embeddings\": 64}";

static void require(bool condition)
{
  if (!condition) abort();
}

static void check(const yk_model_config *config)
{
  static const char *const modules[] = {"model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj", "lm_head"};
  for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
    const yk_quant_scheme *scheme;
    yk_err err = YK_ERR_INIT;
    require(yk_quant_scheme_of(&config->quant, modules[i], &scheme, &err) == YK_OK);
    if (!scheme) continue;
    require(scheme->format == YK_WEIGHT_INT8 && (scheme->group_size == -1 || scheme->group_size >= 16));
    require(scheme->inputs == YK_INPUTS_FLOAT || scheme->group_size == -1);
    require((scheme->inputs == YK_INPUTS_STATIC) == (scheme->packing == YK_PACKING_PRODUCTS));
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
  const yk_config_texts texts = {.config = config_text,
                                 .config_bytes = sizeof config_text - 1,
                                 .description = data ? (const char *)data : "",
                                 .description_bytes = n_bytes,
                                 .description_file = "quant_model_description.json"};
  yk_model_config config;
  yk_err err = YK_ERR_INIT;
  if (yk_model_config_parse(&texts, NULL, &config, &err) != YK_OK) {
    require(err.code != YK_OK && err.message[0]);
    return 0;
  }
  require(err.code == YK_OK);
  check(&config);
  yk_model_config_free(&config);
  return 0;
}
