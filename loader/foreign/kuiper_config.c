#include "loader/foreign/kuiper_config.h"

#include <stdlib.h>
#include <string.h>

#include "loader/hf/json_edit.h"

static const char config_name[] = "config.json";
static const char generation_name[] = "generation_config.json";

/* "<|im_end|>" and "<|endoftext|>" of Qwen3's vocabulary. */
enum { QWEN3_TURN_END = 151645, QWEN3_TEXT_END = 151643 };

static void append_quantization(yk_strbuf *out, const yk_kuiper_header *h)
{
  yk_strbuf_append_fmt(out,
                       "{\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": %d, \"zero_point\": true, "
                       "\"version\": \"gemm\", \"modules_to_not_convert\": null}",
                       h->group_size);
}

/* Build a config.json from the header alone. */
static yk_status config_of(const yk_kuiper_header *h, yk_json_doc **out, yk_err *err)
{
  yk_strbuf text = YK_STRBUF_INIT;
  yk_strbuf_append_fmt(&text,
                       "{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\", "
                       "\"attention_bias\": false, \"head_dim\": %d, \"hidden_act\": \"silu\", \"hidden_size\": %d, "
                       "\"intermediate_size\": %d, \"max_position_embeddings\": %d, \"num_attention_heads\": %d, "
                       "\"num_hidden_layers\": %d, \"num_key_value_heads\": %d, \"rms_norm_eps\": %g, "
                       "\"rope_scaling\": null, \"rope_theta\": %.1f, \"tie_word_embeddings\": %s, "
                       "\"torch_dtype\": \"float16\", \"vocab_size\": %d",
                       h->head_dim, h->dim, h->hidden_dim, h->max_seq_len, h->n_heads, h->n_layers, h->n_kv_heads,
                       YK_KUIPER_RMS_NORM_EPS, YK_KUIPER_ROPE_THETA, h->shared_classifier ? "true" : "false",
                       h->vocab_size);
  if (h->vocab_size > QWEN3_TURN_END)
    yk_strbuf_append_fmt(&text, ", \"eos_token_id\": [%d, %d]", QWEN3_TURN_END, QWEN3_TEXT_END);
  yk_strbuf_append_str(&text, "}");
  yk_status status = text.failed ? yk_err_set(err, YK_E_NOMEM, "%s: no memory", config_name)
                                 : yk_json_parse(config_name, text.data, text.length, NULL, out, err);
  yk_strbuf_free(&text);
  return status;
}

static yk_status read_hf_config(const char *dir, yk_json_doc **out, yk_err *err)
{
  char *text;
  size_t n_bytes;
  *out = NULL;
  if (!dir) return YK_OK;
  YK_TRY(yk_dir_read(dir, config_name, false, &text, &n_bytes, err));
  yk_status status = text ? yk_json_parse(config_name, text, n_bytes, NULL, out, err) : YK_OK;
  free(text);
  yk_json root = yk_json_root(*out);
  if (status != YK_OK || !*out || yk_json_is(root, YK_JSON_OBJECT)) return status;
  yk_err_set(err, YK_E_FORMAT, "%s: expected an object, found %s", config_name, yk_json_type_name(root));
  yk_json_free(*out);
  return YK_E_FORMAT;
}

yk_status yk_kuiper_config_text(const yk_kuiper *file, const char *dir, char **text, yk_err *err)
{
  const yk_kuiper_header *header = yk_kuiper_header_of(file);
  yk_json_doc *config, *edited = NULL;
  yk_strbuf changes = YK_STRBUF_INIT;
  YK_TRY(read_hf_config(dir, &config, err));
  if (!config) YK_TRY(config_of(header, &config, err));
  yk_strbuf_append_str(&changes, "{\"quantization_config\": ");
  append_quantization(&changes, header);
  if (header->shared_classifier) yk_strbuf_append_str(&changes, ", \"tie_word_embeddings\": true");
  yk_strbuf_append_str(&changes, "}");
  yk_status status = yk_json_edit(config_name, yk_json_root(config), &changes, "compression_config", &edited, err);
  yk_json_free(config);
  YK_TRY(status);
  *text = yk_json_to_text(yk_json_root(edited));
  yk_json_free(edited);
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
    return yk_err_set(err, YK_E_FORMAT, "%s holds a model of the family qwen3, but config.json in its folder has %s",
                      name, yk_model_family_name(config->family));
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (numbers[i].found != numbers[i].expected)
      return yk_err_set(err, YK_E_FORMAT, "%s: %s: expected %d as config.json's %s in its folder requires, found %d",
                        name, numbers[i].field, numbers[i].expected, numbers[i].key, numbers[i].found);
  if (h->shared_classifier || !config->tie_word_embeddings) return YK_OK;
  return yk_err_set(
      err, YK_E_FORMAT,
      "%s: shared_classifier: expected 1 as config.json's tie_word_embeddings in its folder requires, found 0", name);
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
