#include "text/post_processor.h"

#include <string.h>

#include "text/component.h"

static const char *const SUPPORTED = "ByteLevel, TemplateProcessing, Sequence";

/* Appends the ids of one special token of the template, which may have several. */
static yk_status append_special(yk_post_processor *post, const char *file, yk_json special_tokens, yk_json piece,
                                int32_t id_limit, yk_err *err)
{
  const char *name;
  YK_TRY(yk_json_get_str(piece, file, "id", true, &name, err));
  yk_json ids = yk_json_get(yk_json_get(special_tokens, name), "ids");
  if (!yk_json_is(ids, YK_JSON_ARRAY))
    return yk_err_set(err, YK_E_FORMAT, "%s: TemplateProcessing: special_tokens has no ids for \"%.48s\"", file, name);
  YK_JSON_EACH(element, ids)
  {
    int64_t id;
    if (!yk_json_to_i64(element, &id) || id < 0 || id >= id_limit)
      return yk_err_set(err, YK_E_FORMAT, "%s: TemplateProcessing: ids of \"%.48s\": expected integers from 0 to %d",
                        file, name, id_limit - 1);
    yk_ids_append(&post->parts, (int32_t)id);
  }
  return YK_OK;
}

static yk_status parse_template(yk_post_processor *post, const char *file, yk_json value, int32_t id_limit, yk_err *err)
{
  yk_json single = yk_json_get(value, "single");
  size_t i = 0;
  if (post->parts.n > 0)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: post_processor: more than one TemplateProcessing is not supported",
                      file);
  if (!yk_json_is(single, YK_JSON_ARRAY) || yk_json_size(single) == 0)
    return yk_err_set(err, YK_E_FORMAT, "%s: TemplateProcessing: key \"single\": expected a non-empty array, found %s",
                      file, yk_json_type_name(single));
  YK_JSON_EACH(piece, single)
  {
    yk_json special = yk_json_get(piece, "SpecialToken"), sequence = yk_json_get(piece, "Sequence");
    const char *which;
    i++;
    if (special.doc) {
      YK_TRY(append_special(post, file, yk_json_get(value, "special_tokens"), special, id_limit, err));
      continue;
    }
    if (!sequence.doc)
      return yk_err_set(err, YK_E_FORMAT, "%s: TemplateProcessing: single[%zu]: expected SpecialToken or Sequence",
                        file, i - 1);
    YK_TRY(yk_json_get_str(sequence, file, "id", true, &which, err));
    if (strcmp(which, "A") != 0)
      return yk_err_set(err, YK_E_FORMAT, "%s: TemplateProcessing: single[%zu]: expected Sequence A, found \"%.48s\"",
                        file, i - 1, which);
    yk_ids_append(&post->parts, YK_POST_TEXT);
  }
  if (post->parts.failed) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for a post_processor", file);
  return YK_OK;
}

static yk_status parse(yk_post_processor *post, const char *file, yk_json value, int32_t id_limit, int depth,
                       yk_err *err)
{
  const char *type;
  YK_TRY(yk_component_type(file, "post_processor", value, &type, err));
  if (strcmp(type, "ByteLevel") == 0) return YK_OK; /* it only trims offsets, which are not used here */
  if (strcmp(type, "TemplateProcessing") == 0) return parse_template(post, file, value, id_limit, err);
  if (strcmp(type, "Sequence") != 0) return yk_component_unsupported(file, "post_processor", type, SUPPORTED, err);
  yk_json list;
  YK_TRY(yk_component_list(file, "post_processor", value, "processors", depth, &list, err));
  YK_JSON_EACH(part, list) YK_TRY(parse(post, file, part, id_limit, depth + 1, err));
  return YK_OK;
}

yk_status yk_post_processor_parse(yk_post_processor *post, const char *file, yk_json value, int32_t id_limit,
                                  yk_err *err)
{
  *post = (yk_post_processor){0};
  if (!yk_json_is_given(value)) return YK_OK;
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

size_t yk_post_processor_n_special(const yk_post_processor *post)
{
  size_t n = 0;
  for (size_t i = 0; i < post->parts.n; i++) n += post->parts.data[i] != YK_POST_TEXT;
  return n;
}
