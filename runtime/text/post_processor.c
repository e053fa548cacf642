#include "text/post_processor.h"

#include <string.h>

#include "text/component.h"

static const char *const SUPPORTED = "ByteLevel, TemplateProcessing, Sequence";

/* The ids of one special token of the template; it may stand for several. */
static yk_status append_special(yk_post_processor *post, const char *file, const json_t *special_tokens,
                                const json_t *piece, int32_t id_limit, yk_err *err)
{
  const char *name;
  YK_TRY(yk_tree_get_str(piece, file, "id", true, &name, err));
  const json_t *token = json_object_get(special_tokens, name), *ids = json_object_get(token, "ids");
  if (!json_is_array(ids))
    return yk_err_set(err, YK_E_FORMAT, "%s: TemplateProcessing: special_tokens has no ids for \"%.48s\"", file, name);
  const json_t *id;
  size_t i;
  json_array_foreach(ids, i, id)
  {
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= id_limit)
      return yk_err_set(err, YK_E_FORMAT, "%s: TemplateProcessing: ids of \"%.48s\": expected integers from 0 to %d",
                        file, name, id_limit - 1);
    yk_ids_append(&post->parts, (int32_t)json_integer_value(id));
  }
  return YK_OK;
}

static yk_status parse_template(yk_post_processor *post, const char *file, const json_t *value, int32_t id_limit,
                                yk_err *err)
{
  const json_t *single = json_object_get(value, "single"), *piece;
  size_t i;
  if (post->parts.n > 0)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: post_processor: more than one TemplateProcessing is not supported",
                      file);
  if (!json_is_array(single) || json_array_size(single) == 0)
    return yk_err_set(err, YK_E_FORMAT, "%s: TemplateProcessing: key \"single\": expected a non-empty array, found %s",
                      file, yk_tree_type_name(single));
  json_array_foreach(single, i, piece)
  {
    const json_t *special = json_object_get(piece, "SpecialToken"), *sequence = json_object_get(piece, "Sequence");
    const char *which;
    if (special) {
      YK_TRY(append_special(post, file, json_object_get(value, "special_tokens"), special, id_limit, err));
      continue;
    }
    if (!sequence)
      return yk_err_set(err, YK_E_FORMAT, "%s: TemplateProcessing: single[%zu]: expected SpecialToken or Sequence",
                        file, i);
    YK_TRY(yk_tree_get_str(sequence, file, "id", true, &which, err));
    if (strcmp(which, "A") != 0)
      return yk_err_set(err, YK_E_FORMAT, "%s: TemplateProcessing: single[%zu]: expected Sequence A, found \"%.48s\"",
                        file, i, which);
    yk_ids_append(&post->parts, YK_POST_TEXT);
  }
  if (post->parts.failed) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for a post_processor", file);
  return YK_OK;
}

static yk_status parse(yk_post_processor *post, const char *file, const json_t *value, int32_t id_limit, int depth,
                       yk_err *err)
{
  const char *type;
  YK_TRY(yk_component_type(file, "post_processor", value, &type, err));
  if (strcmp(type, "ByteLevel") == 0) return YK_OK; /* it trims offsets, which nobody asks for here */
  if (strcmp(type, "TemplateProcessing") == 0) return parse_template(post, file, value, id_limit, err);
  if (strcmp(type, "Sequence") != 0) return yk_component_unsupported(file, "post_processor", type, SUPPORTED, err);
  const json_t *list, *part;
  size_t i;
  YK_TRY(yk_component_list(file, "post_processor", value, "processors", depth, &list, err));
  json_array_foreach(list, i, part) YK_TRY(parse(post, file, part, id_limit, depth + 1, err));
  return YK_OK;
}

yk_status yk_post_processor_parse(yk_post_processor *post, const char *file, const json_t *value, int32_t id_limit,
                                  yk_err *err)
{
  *post = (yk_post_processor){0};
  if (!value || json_is_null(value)) return YK_OK;
  yk_status status = parse(post, file, value, id_limit, 0, err);
  if (status != YK_OK) yk_post_processor_free(post);
  return status;
}

void yk_post_processor_free(yk_post_processor *post)
{
  free(post->parts.data);
  *post = (yk_post_processor){0};
}

static void append_all(yk_ids *out, const yk_ids *ids)
{
  for (size_t i = 0; i < ids->n; i++) yk_ids_append(out, ids->data[i]);
}

void yk_post_processor_apply(const yk_post_processor *post, const yk_ids *text, bool add_special_tokens, yk_ids *out)
{
  if (post->parts.n == 0) append_all(out, text);
  for (size_t i = 0; i < post->parts.n; i++) {
    int32_t part = post->parts.data[i];
    if (part == YK_POST_TEXT)
      append_all(out, text);
    else if (add_special_tokens)
      yk_ids_append(out, part);
  }
}
