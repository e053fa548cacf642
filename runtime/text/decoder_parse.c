/* decoder_parse.c - builds stages from the "decoder" of a tokenizer.json. */
#include <stdlib.h>
#include <string.h>

#include "text/decoder.h"
#include "text/decoder_stage.h"

static const char *const SUPPORTED = "ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Strip, Sequence";

static yk_status add_stage(yk_decoder *decoder, const char *file, int kind, yk_decoder_stage **added, yk_err *err)
{
  if (decoder->n_stages == YK_COMPONENT_MAX_STEPS) return yk_component_too_many(file, "decoder", err);
  *added = &decoder->stages[decoder->n_stages++];
  (*added)->kind = kind;
  return YK_OK;
}

static yk_status parse_replace(yk_decoder_stage *stage, const char *file, yk_json value, yk_err *err)
{
  const char *content;
  YK_TRY(yk_component_pattern(file, value, &stage->pattern, err));
  YK_TRY(yk_component_text(file, value, "content", &content, &stage->content_bytes, err));
  stage->content = malloc(stage->content_bytes + 1);
  if (!stage->content) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for a decoder", file);
  memcpy(stage->content, content, stage->content_bytes + 1);
  return YK_OK;
}

static yk_status parse_strip(yk_decoder_stage *stage, const char *file, yk_json value, yk_err *err)
{
  const char *character;
  YK_TRY(yk_component_character(file, value, "content", &character, &stage->character_bytes, err));
  memcpy(stage->character, character, stage->character_bytes);
  YK_TRY(yk_json_get_i64(value, file, "start", true, 0, INT32_MAX, &stage->n_front, err));
  return yk_json_get_i64(value, file, "stop", true, 0, INT32_MAX, &stage->n_back, err);
}

static yk_status parse_metaspace(yk_decoder_stage *stage, const char *file, yk_json value, yk_err *err)
{
  yk_metaspace metaspace;
  YK_TRY(yk_component_metaspace(file, value, &metaspace, err));
  memcpy(stage->character, metaspace.replacement, sizeof stage->character);
  stage->character_bytes = metaspace.replacement_bytes;
  stage->keeps_first = metaspace.scheme == YK_PREPEND_NEVER;
  return YK_OK;
}

static yk_status parse(yk_decoder *decoder, const char *file, yk_json value, int depth, yk_err *err)
{
  static const char *const TYPES[] = {[YK_DECODE_BYTE_LEVEL] = "ByteLevel",
                                      [YK_DECODE_BYTE_FALLBACK] = "ByteFallback",
                                      [YK_DECODE_FUSE] = "Fuse",
                                      [YK_DECODE_STRIP] = "Strip",
                                      [YK_DECODE_REPLACE] = "Replace",
                                      [YK_DECODE_METASPACE] = "Metaspace"};
  const char *type;
  YK_TRY(yk_component_type(file, "decoder", value, &type, err));
  if (strcmp(type, "Sequence") == 0) {
    yk_json list;
    YK_TRY(yk_component_list(file, "decoder", value, "decoders", depth, &list, err));
    YK_JSON_EACH(part, list) YK_TRY(parse(decoder, file, part, depth + 1, err));
    return YK_OK;
  }
  int kind = 0, n_kinds = sizeof TYPES / sizeof *TYPES;
  while (kind < n_kinds && strcmp(type, TYPES[kind]) != 0) kind++;
  if (kind == n_kinds) return yk_component_unsupported(file, "decoder", type, SUPPORTED, err);
  yk_decoder_stage *stage;
  YK_TRY(add_stage(decoder, file, kind, &stage, err));
  if (kind == YK_DECODE_REPLACE) return parse_replace(stage, file, value, err);
  if (kind == YK_DECODE_STRIP) return parse_strip(stage, file, value, err);
  if (kind == YK_DECODE_METASPACE) return parse_metaspace(stage, file, value, err);
  return YK_OK;
}

yk_status yk_decoder_parse(yk_decoder *decoder, const char *file, yk_json value, yk_err *err)
{
  *decoder = (yk_decoder){0};
  decoder->stages = calloc(YK_COMPONENT_MAX_STEPS, sizeof *decoder->stages);
  if (!decoder->stages) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for a decoder", file);
  yk_decoder_stage *join;
  bool none = !yk_json_is_given(value);
  yk_status status = none ? add_stage(decoder, file, YK_DECODE_JOIN, &join, err) : parse(decoder, file, value, 0, err);
  if (status != YK_OK) yk_decoder_free(decoder);
  return status;
}

void yk_decoder_free(yk_decoder *decoder)
{
  for (size_t i = 0; i < decoder->n_stages; i++) {
    yk_regex_free(decoder->stages[i].pattern);
    free(decoder->stages[i].content);
  }
  free(decoder->stages);
  *decoder = (yk_decoder){0};
}
