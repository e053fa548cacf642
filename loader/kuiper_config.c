#include "loader/kuiper_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_tree.h"

static const char config_name[] = "config.json";
static const char generation_name[] = "generation_config.json";

/* "<|im_end|>" and "<|endoftext|>" of Qwen3's vocabulary. */
enum { QWEN3_TURN_END = 151645, QWEN3_TEXT_END = 151643 };

static json_t *quantization_of(const yk_kuiper_header *h)
{
  return json_pack("{s:s, s:i, s:i, s:b, s:s, s:n}", "quant_method", "awq", "bits", 4, "group_size", h->group_size,
                   "zero_point", 1, "version", "gemm", "modules_to_not_convert");
}

/* A config.json out of the header alone. */
static json_t *config_of(const yk_kuiper_header *h)
{
  json_t *config = json_pack(
      "{s:[s], s:s, s:b, s:i, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:n, s:f, s:b, s:s, s:i}", "architectures",
      "Qwen3ForCausalLM", "model_type", "qwen3", "attention_bias", 0, "head_dim", h->head_dim, "hidden_act", "silu",
      "hidden_size", h->dim, "intermediate_size", h->hidden_dim, "max_position_embeddings", h->max_seq_len,
      "num_attention_heads", h->n_heads, "num_hidden_layers", h->n_layers, "num_key_value_heads", h->n_kv_heads,
      "rms_norm_eps", YK_KUIPER_RMS_NORM_EPS, "rope_scaling", "rope_theta", YK_KUIPER_ROPE_THETA, "tie_word_embeddings",
      h->shared_classifier, "torch_dtype", "float16", "vocab_size", h->vocab_size);
  if (h->vocab_size <= QWEN3_TURN_END) return config;
  json_t *ends = json_pack("[i, i]", QWEN3_TURN_END, QWEN3_TEXT_END);
  if (json_object_set_new(config, "eos_token_id", ends) == 0) return config;
  json_decref(config);
  return NULL;
}

static yk_status read_beside(const char *dir, json_t **out, yk_err *err)
{
  char *text;
  size_t n_bytes;
  *out = NULL;
  if (!dir) return YK_OK;
  YK_TRY(yk_dir_read(dir, config_name, false, &text, &n_bytes, err));
  yk_status status = text ? yk_tree_parse(config_name, text, n_bytes, out, err) : YK_OK;
  free(text);
  if (status != YK_OK || !*out || json_is_object(*out)) return status;
  yk_err_set(err, YK_E_FORMAT, "%s: expected an object, found %s", config_name, yk_tree_type_name(*out));
  json_decref(*out);
  return YK_E_FORMAT;
}

yk_status yk_kuiper_config_text(const yk_kuiper *file, const char *dir, char **text, yk_err *err)
{
  const yk_kuiper_header *header = yk_kuiper_header_of(file);
  json_t *config;
  YK_TRY(read_beside(dir, &config, err));
  if (!config) config = config_of(header);
  json_object_del(config, "compression_config");
  int failed = json_object_set_new(config, "quantization_config", quantization_of(header));
  if (header->shared_classifier) failed |= json_object_set_new(config, "tie_word_embeddings", json_true());
  *text = failed ? NULL : yk_tree_dump_same(config);
  json_decref(config);
  if (*text) return YK_OK;
  return yk_err_set(err, YK_E_NOMEM, "%s: no memory for its configuration", yk_kuiper_name(file));
}

static yk_status check_agreement(const yk_kuiper *file, const yk_model_config *config, yk_err *err)
{
  const yk_kuiper_header *h = yk_kuiper_header_of(file);
  const char *name = yk_kuiper_name(file);
  const struct {
    const char *field, *key;
    int32_t found, expected;
  } numbers[] = {{"dim", "hidden_size", h->dim, config->hidden_size},
                 {"hidden_dim", "intermediate_size", h->hidden_dim, config->ffn_size},
                 {"n_layers", "num_hidden_layers", h->n_layers, config->n_layers},
                 {"n_heads", "num_attention_heads", h->n_heads, config->n_heads},
                 {"n_kv_heads", "num_key_value_heads", h->n_kv_heads, config->n_kv_heads},
                 {"vocab_size", "vocab_size", h->vocab_size, config->vocab_size},
                 {"max_seq_len", "max_position_embeddings", h->max_seq_len, config->max_position_embeddings},
                 {"head_dim", "head_dim", h->head_dim, config->head_dim}};
  if (config->family != YK_FAMILY_QWEN3)
    return yk_err_set(err, YK_E_FORMAT, "%s holds a model of the family qwen3, but config.json beside it says %s", name,
                      yk_model_family_name(config->family));
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (numbers[i].found != numbers[i].expected)
      return yk_err_set(err, YK_E_FORMAT, "%s: %s: expected %d as config.json's %s beside it says, found %d", name,
                        numbers[i].field, numbers[i].expected, numbers[i].key, numbers[i].found);
  if (h->shared_classifier || !config->tie_word_embeddings) return YK_OK;
  return yk_err_set(err, YK_E_FORMAT,
                    "%s: shared_classifier: expected 1 as config.json's tie_word_embeddings beside it says, found 0",
                    name);
}

yk_status yk_kuiper_config_load(const yk_kuiper *file, const char *dir, const yk_log *log, yk_model_config *out,
                                yk_err *err)
{
  char *config = NULL, *generation = NULL;
  yk_config_texts texts = {0};
  yk_status status = yk_kuiper_config_text(file, dir, &config, err);
  if (status == YK_OK && dir)
    status = yk_dir_read(dir, generation_name, false, &generation, &texts.generation_bytes, err);
  if (status == YK_OK) {
    texts.config = config;
    texts.config_bytes = strlen(config);
    texts.generation = generation;
    status = yk_model_config_parse(&texts, log, out, err);
  }
  free(config);
  free(generation);
  if (status != YK_OK) return status;
  status = check_agreement(file, out, err);
  if (status != YK_OK) yk_model_config_free(out);
  return status;
}
