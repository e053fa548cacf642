#include "loader/hf/config_changes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/hf/json_edit.h"
#include "loader/hf/rope_changes.h"

static yk_status parse_object(const char *name, const char *text, size_t n_bytes, yk_status if_other, yk_json_doc **out,
                              yk_err *err)
{
  YK_TRY(yk_json_parse(name, text, n_bytes, NULL, out, err));
  yk_json root = yk_json_root(*out);
  if (yk_json_is(root, YK_JSON_OBJECT)) return YK_OK;
  yk_err_set(err, if_other, "%s: expected a JSON object, found %s", name, yk_json_type_name(root));
  yk_json_free(*out);
  *out = NULL;
  return if_other;
}

static const char config_file[] = "config.json", text_key[] = "text_config";
static const char config_name[] = "hf_overrides", generation_name[] = "override_generation_config";

static bool has(yk_json object, const char *key)
{
  return yk_json_kind_of(yk_json_get(object, key)) != YK_JSON_ABSENT;
}

/* A key that decides nothing in a file with another key. */
typedef struct voided_key {
  const char *changed, *dropped; /* the file's, if the first is changed and the second is not */
} voided_key;

static bool is_voided(const char *name, yk_json changes)
{
  static const voided_key keys[] = {{"dtype", "torch_dtype"},
                                    {"torch_dtype", "dtype"},
                                    {"quantization_config", "compression_config"},
                                    {"compression_config", "quantization_config"},
                                    {"use_sliding_window", "layer_types"},
                                    {"max_window_layers", "layer_types"},
                                    {"sliding_window_pattern", "layer_types"},
                                    {"full_attention_interval", "layer_types"},
                                    {"first_k_dense_replace", "mlp_layer_types"},
                                    {"moe_layer_freq", "mlp_layer_types"}};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (strcmp(name, keys[i].dropped) == 0 && has(changes, keys[i].changed)) return true;
  return false;
}

static void append_all(yk_strbuf *out, yk_json changes, const char *but)
{
  YK_JSON_EACH_KEY(key, changes)
  {
    if (!but || !yk_json_equals(key, but)) yk_json_append_member(out, key, yk_json_member(key));
  }
}

/* Writes the members of root that changes does not replace, then the members of changes; omits the given key in both.
 * keeps: which members of root to keep; NULL: all. */
static void merge(yk_strbuf *out, yk_json root, yk_json changes, const char *but, bool (*keeps)(const char *key))
{
  const bool has_rope = yk_rope_changes_concern(changes);
  YK_JSON_EACH_KEY(key, root)
  {
    const char *name = yk_json_string(key);
    bool is_replaced = has(changes, name) || is_voided(name, changes) || (has_rope && yk_rope_changes_replace(name));
    if (is_replaced || (but && strcmp(name, but) == 0) || (keeps && !keeps(name))) continue;
    yk_json_append_member(out, key, yk_json_member(key));
  }
  if (has_rope) yk_rope_changes_append(out, root, changes);
  append_all(out, changes, but);
}

/* Write root and its language model's keys, both merged with changes: each key has its effect where it is read. */
static void merge_twice(yk_strbuf *out, yk_json root, yk_json changes)
{
  merge(out, root, changes, text_key, NULL);
  yk_json_begin_member(out, text_key);
  yk_strbuf_append_str(out, "{");
  merge(out, yk_json_get(root, text_key), changes, text_key, NULL);
  yk_strbuf_append_str(out, "}");
}

/* Write root with changes merged into its language model's keys alone. */
static void merge_into_text(yk_strbuf *out, yk_json root, yk_json changes)
{
  append_all(out, root, text_key);
  yk_json_begin_member(out, text_key);
  yk_strbuf_append_str(out, "{");
  merge(out, yk_json_get(root, text_key), changes, NULL, NULL);
  yk_strbuf_append_str(out, "}");
}

/* End the object and replace *text by it. */
static yk_status replace(yk_strbuf *out, const char *name, char **text, size_t *n_bytes, yk_err *err)
{
  yk_strbuf_append_str(out, "}");
  if (out->failed) {
    yk_strbuf_free(out);
    return yk_err_set(err, YK_E_NOMEM, "%s: no memory", name);
  }
  free(*text);
  *text = out->data;
  *n_bytes = out->length;
  return YK_OK;
}

static yk_status parse_changes(const char *name, const char *text, yk_json_doc **out, yk_err *err)
{
  *out = NULL;
  if (!text) return YK_OK;
  yk_status status = parse_object(name, text, strlen(text), YK_E_INVAL, out, err);
  if (status == YK_E_FORMAT && err) err->code = status = YK_E_INVAL; /* the text is the caller's, not a file's */
  return status;
}

static void merge_everywhere(yk_strbuf *out, yk_json root, yk_json changes)
{
  merge(out, root, changes, NULL, NULL);
}

/* Replace *text by root with changes merged. */
static yk_status rewrite(void (*write)(yk_strbuf *out, yk_json root, yk_json changes), yk_json root, yk_json changes,
                         char **text, size_t *n_bytes, yk_err *err)
{
  yk_strbuf out = YK_STRBUF_INIT;
  yk_strbuf_append_str(&out, "{");
  write(&out, root, changes);
  return replace(&out, config_file, text, n_bytes, err);
}

static yk_status apply(yk_json changes, char **text, size_t *n_bytes, yk_err *err)
{
  yk_json_doc *file;
  yk_json inner = yk_json_get(changes, text_key);
  YK_TRY(parse_object(config_file, *text, *n_bytes, YK_E_FORMAT, &file, err));
  bool has_text = yk_json_is(yk_json_get(yk_json_root(file), text_key), YK_JSON_OBJECT) &&
                  (!inner.doc || yk_json_is(inner, YK_JSON_OBJECT));
  yk_status status =
      rewrite(has_text ? merge_twice : merge_everywhere, yk_json_root(file), changes, text, n_bytes, err);
  yk_json_free(file);
  if (status != YK_OK || !has_text || !inner.doc) return status;
  YK_TRY(parse_object(config_file, *text, *n_bytes, YK_E_FORMAT, &file, err));
  status = rewrite(merge_into_text, yk_json_root(file), inner, text, n_bytes, err);
  yk_json_free(file);
  return status;
}

yk_status yk_config_changes_apply_config(const yk_config_changes *changes, char **text, size_t *n_bytes, yk_err *err)
{
  yk_json_doc *overrides;
  YK_TRY(parse_changes(config_name, changes->config, &overrides, err));
  if (!overrides) return YK_OK;
  yk_status status = apply(yk_json_root(overrides), text, n_bytes, err);
  yk_json_free(overrides);
  return status;
}

/* Whether an object's members are read individually. */
static bool has_read_members(yk_json key)
{
  static const char *const keys[] = {"text_config", "rope_scaling", "rope_parameters", "full_attention",
                                     "sliding_attention"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (yk_json_equals(key, keys[i])) return true;
  return false;
}

/* Positions of images, which are equal for text. */
static bool is_without_meaning_for_text(yk_json key)
{
  return yk_json_equals(key, "mrope_section") || yk_json_equals(key, "mrope_interleaved");
}

/* Refuses the first member of changes that no reader has read in any of the objects. name: of changes; path: of the
 * object. */
static yk_status check_members(const char *name, const char *path, yk_json changes, const yk_json places[2],
                               yk_err *err)
{
  YK_JSON_EACH_KEY(key, changes)
  {
    const char *text = yk_json_string(key);
    yk_json inner[2] = {yk_json_get_quietly(places[0], text), yk_json_get_quietly(places[1], text)};
    if (!yk_json_was_read(inner[0]) && !yk_json_was_read(inner[1]) && !is_without_meaning_for_text(key))
      return yk_err_set(
          err, YK_E_INVAL,
          "%s: key \"%s%.200s\" would be without effect: nothing reads the key for this model; remove the "
          "key, or check its name",
          name, path, text);
    if (!has_read_members(key) || !yk_json_is(yk_json_member(key), YK_JSON_OBJECT)) continue;
    char longer[256];
    snprintf(longer, sizeof longer, "%s%s.", path, text);
    YK_TRY(check_members(name, longer, yk_json_member(key), inner, err));
  }
  return YK_OK;
}

/* The same for an object of a caller, text, and the document in which its members were to be read. */
static yk_status check_effect(const char *name, const char *text, yk_json root, yk_err *err)
{
  yk_json_doc *changes;
  YK_TRY(parse_changes(name, text, &changes, err));
  if (!changes) return YK_OK;
  const yk_json places[2] = {root, yk_json_get_quietly(root, text_key)};
  yk_status status = check_members(name, "", yk_json_root(changes), places, err);
  yk_json_free(changes);
  return status;
}

yk_status yk_config_changes_check(const yk_config_changes *changes, yk_json config, yk_json generation, yk_err *err)
{
  YK_TRY(check_effect(config_name, changes->config, config, err));
  return check_effect(generation_name, changes->generation, generation, err);
}

static bool is_id(const char *key)
{
  return strcmp(key, "eos_token_id") == 0 || strcmp(key, "bos_token_id") == 0;
}

static bool is_no_choice_to_sample(const char *key)
{
  return strcmp(key, "do_sample") != 0;
}

yk_status yk_config_changes_apply_generation(const yk_config_changes *changes, char **text, size_t *n_bytes,
                                             yk_err *err)
{
  static const char name[] = "generation_config.json";
  yk_json_doc *root = NULL, *overrides;
  yk_strbuf out = YK_STRBUF_INIT;
  YK_TRY(parse_changes(generation_name, changes->generation, &overrides, err));
  if (!overrides && !(changes->has_plain_sampling && *text)) return YK_OK;
  yk_status status = *text ? parse_object(name, *text, *n_bytes, YK_E_FORMAT, &root, err) : YK_OK;
  if (status == YK_OK) {
    bool samples = has(yk_json_root(overrides), "temperature");
    yk_strbuf_append_str(&out, "{");
    merge(&out, yk_json_root(root), yk_json_root(overrides), NULL,
          changes->has_plain_sampling ? is_id
          : samples                   ? is_no_choice_to_sample
                                      : NULL);
    status = replace(&out, name, text, n_bytes, err);
  }
  yk_json_free(root);
  yk_json_free(overrides);
  return status;
}
