#include "loader/hf/config_changes.h"

#include <stdlib.h>
#include <string.h>

#include "loader/hf/json_edit.h"

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

static bool has(yk_json object, const char *key)
{
  return yk_json_kind_of(yk_json_get(object, key)) != YK_JSON_ABSENT;
}

/* Write rope_parameters of the file under the older names, except for members that the changes replace. */
static void append_older_rope(yk_strbuf *out, yk_json parameters, yk_json changes)
{
  yk_json theta = yk_json_get(parameters, "rope_theta");
  if (!has(changes, "rope_theta") && theta.doc) {
    yk_json_begin_member(out, "rope_theta");
    yk_json_append(out, theta, 0);
  }
  if (has(changes, "rope_scaling")) return;
  yk_json_begin_member(out, "rope_scaling");
  yk_strbuf_append_str(out, "{");
  YK_JSON_EACH_KEY(key, parameters)
  {
    if (!yk_json_equals(key, "rope_theta")) yk_json_append_member(out, key, yk_json_member(key));
  }
  yk_strbuf_append_str(out, "}");
}

/* Write root's members that changes does not replace, then those of changes. keeps: which members of root to keep;
 * NULL: all. */
static void merge(yk_strbuf *out, yk_json root, yk_json changes, bool (*keeps)(const char *key))
{
  bool has_newer = has(changes, "rope_parameters"),
       has_older = has(changes, "rope_scaling") || has(changes, "rope_theta");
  yk_strbuf_append_str(out, "{");
  YK_JSON_EACH_KEY(key, root)
  {
    const char *name = yk_json_string(key);
    yk_json value = yk_json_member(key);
    if (has(changes, name) || (keeps && !keeps(name))) continue;
    bool is_older = strcmp(name, "rope_scaling") == 0 || strcmp(name, "rope_theta") == 0;
    if (has_newer && !has_older && is_older) continue;
    if (has_older && !has_newer && strcmp(name, "rope_parameters") == 0 && yk_json_is(value, YK_JSON_OBJECT))
      append_older_rope(out, value, changes);
    else
      yk_json_append_member(out, key, value);
  }
  YK_JSON_EACH_KEY(key, changes)
  {
    yk_json_append_member(out, key, yk_json_member(key));
  }
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

yk_status yk_config_changes_apply_config(const yk_config_changes *changes, char **text, size_t *n_bytes, yk_err *err)
{
  static const char name[] = "config.json";
  yk_json_doc *root, *overrides;
  yk_strbuf out = YK_STRBUF_INIT;
  YK_TRY(parse_changes("hf_overrides", changes->config, &overrides, err));
  if (!overrides) return YK_OK;
  yk_status status = parse_object(name, *text, *n_bytes, YK_E_FORMAT, &root, err);
  if (status == YK_OK) {
    merge(&out, yk_json_root(root), yk_json_root(overrides), NULL);
    status = replace(&out, name, text, n_bytes, err);
    yk_json_free(root);
  }
  yk_json_free(overrides);
  return status;
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
  YK_TRY(parse_changes("override_generation_config", changes->generation, &overrides, err));
  if (!overrides && !(changes->has_plain_sampling && *text)) return YK_OK;
  yk_status status = *text ? parse_object(name, *text, *n_bytes, YK_E_FORMAT, &root, err) : YK_OK;
  if (status == YK_OK) {
    bool samples = has(yk_json_root(overrides), "temperature");
    merge(&out, yk_json_root(root), yk_json_root(overrides),
          changes->has_plain_sampling ? is_id
          : samples                   ? is_no_choice_to_sample
                                      : NULL);
    status = replace(&out, name, text, n_bytes, err);
  }
  yk_json_free(root);
  yk_json_free(overrides);
  return status;
}
