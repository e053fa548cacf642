/* pre_tokenizer_parse.c - builds steps from the "pre_tokenizer" of a tokenizer.json. */
#include <stdlib.h>
#include <string.h>

#include "text/component.h"
#include "text/pre_tokenizer.h"
#include "text/pre_tokenizer_step.h"

static const char *const SUPPORTED = "ByteLevel, Digits, Metaspace, Split, Whitespace, WhitespaceSplit, Sequence";

/* A type that is a split on a fixed pattern. */
typedef struct fixed_split {
  const char *pattern;
  yk_split_behavior behavior;
  bool invert;
} fixed_split;

/* \w here is Rust's, not Oniguruma's. */
static const fixed_split WHITESPACE = {"[" YK_REGEX_RUST_WORD "]+|[^" YK_REGEX_RUST_WORD "\\s]+", YK_SPLIT_REMOVED,
                                       true};
static const fixed_split WHITESPACE_SPLIT = {"\\s", YK_SPLIT_REMOVED, false};
static const fixed_split EACH_DIGIT = {"[" YK_REGEX_RUST_NUMBER "]", YK_SPLIT_ISOLATED, false};
static const fixed_split NUMBERS = {"[" YK_REGEX_RUST_NUMBER "]", YK_SPLIT_CONTIGUOUS, false};
/* GPT-2's cutting of text into words (Radford et al., encoder.py). */
static const fixed_split GPT2_WORDS = {
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", YK_SPLIT_ISOLATED, false};

static yk_status add_step(yk_pre_tokenizer *pre_tokenizer, const char *file, yk_pre_tokenizer_step **added, yk_err *err)
{
  if (pre_tokenizer->n_steps == YK_COMPONENT_MAX_STEPS) return yk_component_too_many(file, "pre_tokenizer", err);
  *added = &pre_tokenizer->steps[pre_tokenizer->n_steps++];
  return YK_OK;
}

static yk_status add_split(yk_pre_tokenizer *pre_tokenizer, const char *file, const fixed_split *fixed, yk_err *err)
{
  yk_pre_tokenizer_step *step;
  YK_TRY(add_step(pre_tokenizer, file, &step, err));
  step->kind = YK_STEP_SPLIT;
  step->behavior = fixed->behavior;
  step->invert = fixed->invert;
  return yk_regex_compile(file, fixed->pattern, strlen(fixed->pattern), false, &step->pattern, err);
}

static yk_status read_behavior(const char *file, yk_json value, yk_split_behavior *behavior, yk_err *err)
{
  static const char *const NAMES[] = {[YK_SPLIT_REMOVED] = "Removed",
                                      [YK_SPLIT_ISOLATED] = "Isolated",
                                      [YK_SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
                                      [YK_SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
                                      [YK_SPLIT_CONTIGUOUS] = "Contiguous"};
  const char *name;
  YK_TRY(yk_json_get_str(value, file, "behavior", true, &name, err));
  for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
    if (strcmp(name, NAMES[i]) == 0) {
      *behavior = (yk_split_behavior)i;
      return YK_OK;
    }
  return yk_err_set(err, YK_E_FORMAT,
                    "%s: Split: expected behavior Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous, "
                    "found \"%.48s\"",
                    file, name);
}

static yk_status parse_split(yk_pre_tokenizer *pre_tokenizer, const char *file, yk_json value, yk_err *err)
{
  yk_pre_tokenizer_step *step;
  YK_TRY(add_step(pre_tokenizer, file, &step, err));
  step->kind = YK_STEP_SPLIT;
  YK_TRY(read_behavior(file, value, &step->behavior, err));
  YK_TRY(yk_json_get_bool(value, file, "invert", false, &step->invert, err));
  return yk_component_pattern(file, value, &step->pattern, err);
}

static yk_status parse_byte_level(yk_pre_tokenizer *pre_tokenizer, const char *file, yk_json value, yk_err *err)
{
  bool add_prefix_space = true, use_regex = true;
  yk_pre_tokenizer_step *step;
  YK_TRY(yk_json_get_bool(value, file, "add_prefix_space", false, &add_prefix_space, err));
  YK_TRY(yk_json_get_bool(value, file, "use_regex", false, &use_regex, err));
  for (size_t i = 0; i < pre_tokenizer->n_steps; i++) /* each of these can double the text */
    if (pre_tokenizer->steps[i].kind == YK_STEP_BYTE_MAP)
      return yk_err_set(err, YK_E_UNSUPPORTED, "%s: pre_tokenizer: more than one ByteLevel is not supported", file);
  if (add_prefix_space) {
    YK_TRY(add_step(pre_tokenizer, file, &step, err));
    step->kind = YK_STEP_PREFIX;
    step->prefix = (yk_metaspace){.replacement = " ", .replacement_bytes = 1, .scheme = YK_PREPEND_ALWAYS};
  }
  if (use_regex) YK_TRY(add_split(pre_tokenizer, file, &GPT2_WORDS, err));
  YK_TRY(add_step(pre_tokenizer, file, &step, err));
  step->kind = YK_STEP_BYTE_MAP;
  return YK_OK;
}

static yk_status parse_metaspace(yk_pre_tokenizer *pre_tokenizer, const char *file, yk_json value, yk_err *err)
{
  yk_pre_tokenizer_step *step;
  yk_metaspace metaspace;
  YK_TRY(yk_component_metaspace(file, value, &metaspace, err));
  YK_TRY(add_step(pre_tokenizer, file, &step, err));
  step->kind = YK_STEP_PREFIX;
  step->prefix = metaspace;
  if (!metaspace.split) return YK_OK;
  YK_TRY(add_step(pre_tokenizer, file, &step, err));
  step->kind = YK_STEP_SPLIT;
  step->behavior = YK_SPLIT_MERGED_WITH_NEXT;
  return yk_regex_compile(file, metaspace.replacement, metaspace.replacement_bytes, true, &step->pattern, err);
}

static yk_status parse_digits(yk_pre_tokenizer *pre_tokenizer, const char *file, yk_json value, yk_err *err)
{
  bool individual = false;
  YK_TRY(yk_json_get_bool(value, file, "individual_digits", true, &individual, err));
  return add_split(pre_tokenizer, file, individual ? &EACH_DIGIT : &NUMBERS, err);
}

static yk_status parse(yk_pre_tokenizer *pre_tokenizer, const char *file, yk_json value, int depth, yk_err *err)
{
  const char *type;
  YK_TRY(yk_component_type(file, "pre_tokenizer", value, &type, err));
  if (strcmp(type, "Split") == 0) return parse_split(pre_tokenizer, file, value, err);
  if (strcmp(type, "ByteLevel") == 0) return parse_byte_level(pre_tokenizer, file, value, err);
  if (strcmp(type, "Metaspace") == 0) return parse_metaspace(pre_tokenizer, file, value, err);
  if (strcmp(type, "Digits") == 0) return parse_digits(pre_tokenizer, file, value, err);
  if (strcmp(type, "Whitespace") == 0) return add_split(pre_tokenizer, file, &WHITESPACE, err);
  if (strcmp(type, "WhitespaceSplit") == 0) return add_split(pre_tokenizer, file, &WHITESPACE_SPLIT, err);
  if (strcmp(type, "Sequence") != 0) return yk_component_unsupported(file, "pre_tokenizer", type, SUPPORTED, err);
  yk_json list;
  YK_TRY(yk_component_list(file, "pre_tokenizer", value, "pretokenizers", depth, &list, err));
  YK_JSON_EACH(part, list) YK_TRY(parse(pre_tokenizer, file, part, depth + 1, err));
  return YK_OK;
}

yk_status yk_pre_tokenizer_parse(yk_pre_tokenizer *pre_tokenizer, const char *file, yk_json value, yk_err *err)
{
  *pre_tokenizer = (yk_pre_tokenizer){0};
  if (!yk_json_is_given(value)) return YK_OK;
  pre_tokenizer->steps = calloc(YK_COMPONENT_MAX_STEPS, sizeof *pre_tokenizer->steps);
  if (!pre_tokenizer->steps) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for a pre_tokenizer", file);
  yk_status status = parse(pre_tokenizer, file, value, 0, err);
  if (status != YK_OK) yk_pre_tokenizer_free(pre_tokenizer);
  return status;
}

void yk_pre_tokenizer_free(yk_pre_tokenizer *pre_tokenizer)
{
  for (size_t i = 0; i < pre_tokenizer->n_steps; i++) yk_regex_free(pre_tokenizer->steps[i].pattern);
  free(pre_tokenizer->steps);
  *pre_tokenizer = (yk_pre_tokenizer){0};
}
