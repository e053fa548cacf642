#include "openai/request_fields.h"

#include <stdio.h>
#include <string.h>

#include "base/name_nearest.h"
#include "openai/chat_fields.h"
#include "openai/constraint_fields.h"
#include "openai/request_lists.h"
#include "openai/values.h"

/* ---- Fields ------------------------------------------------------------------------------------------------------ */

typedef enum field_kind {
  FIELD_F32, /* a member at offset; the engine checks the range */
  FIELD_I32,
  FIELD_FLAG,
  FIELD_TEXT,
  FIELD_MAX_TOKENS,
  FIELD_SEED,
  FIELD_SALT,
  FIELD_STOP,
  FIELD_BAD_WORDS,
  FIELD_STOP_IDS,
  FIELD_LOGPROB_IDS,
  FIELD_BIAS,
  FIELD_PROMPT,
  FIELD_DIMENSIONS,
  FIELD_ENCODING,
  FIELD_SAMPLES,
  FIELD_STREAM,
  FIELD_MESSAGES,
  FIELD_TOOLS,
  FIELD_DOCUMENTS,
  FIELD_TEMPLATE_KWARGS,
  FIELD_RESPONSE_FORMAT,
  FIELD_STRUCTURED_OUTPUTS,
  FIELD_GUIDED,
  FIELD_ALLOWED_IDS,
  FIELD_MODALITIES,
  FIELD_LATER, /* depends on other fields, and is read after them */
  FIELD_REQUEST_ID,
  FIELD_INTERVAL,
  FIELD_BUDGET,
  FIELD_TRUNCATE,
  FIELD_SIDE,
  FIELD_PASSED_TEXT, /* these are checked and ignored: no visible effect on the answer */
  FIELD_PASSED_FLAG,
  FIELD_PASSED_OBJECT,
  FIELD_ONLY_ZERO, /* other values are not supported */
  FIELD_ONLY_TRUE, /* the other value is not supported */
  FIELD_OFF        /* only false, or an empty string, array or object: the feature is not supported */
} field_kind;

enum {
  PLAIN = YK_FORM_PLAIN,
  COMPLETION = YK_FORM_COMPLETION,
  CHAT = YK_FORM_CHAT,
  EMBEDDING = YK_FORM_EMBEDDING,
  BOTH = COMPLETION | CHAT,
  ALL = PLAIN | BOTH,
  BODIES = BOTH | EMBEDDING
};

#define SAMPLING(member) offsetof(yk_openai_request, sampling.member)
#define REQUEST(member)  offsetof(yk_openai_request, member)

typedef struct field {
  const char *name;
  field_kind kind;
  int forms;
  size_t offset;
} field;

static const field fields[] = {
    {"prompt", FIELD_PROMPT, PLAIN | COMPLETION, 0},
    {"input", FIELD_PROMPT, EMBEDDING, 0},
    {"dimensions", FIELD_DIMENSIONS, EMBEDDING, 0},
    {"encoding_format", FIELD_ENCODING, EMBEDDING, 0},
    {"messages", FIELD_MESSAGES, CHAT, 0},
    {"model", FIELD_TEXT, BODIES, REQUEST(model)},
    {"max_tokens", FIELD_MAX_TOKENS, ALL, 0},
    {"max_completion_tokens", FIELD_LATER, CHAT, 0},
    {"temperature", FIELD_F32, ALL, SAMPLING(temperature)},
    {"top_p", FIELD_F32, ALL, SAMPLING(top_p)},
    {"min_p", FIELD_F32, ALL, SAMPLING(min_p)},
    {"top_k", FIELD_I32, ALL, SAMPLING(top_k)},
    {"n", FIELD_SAMPLES, ALL, 0},
    {"best_of", FIELD_LATER, BOTH, 0},
    {"stop", FIELD_STOP, ALL, 0},
    {"seed", FIELD_SEED, ALL, 0},
    {"logprobs", FIELD_I32, PLAIN | COMPLETION, SAMPLING(n_logprobs)},
    {"logprobs", FIELD_LATER, CHAT, 0},
    {"top_logprobs", FIELD_LATER, CHAT, 0},
    {"prompt_logprobs", FIELD_I32, ALL, SAMPLING(n_prompt_logprobs)},
    {"logit_bias", FIELD_BIAS, ALL, 0},
    {"repetition_penalty", FIELD_F32, ALL, SAMPLING(repetition_penalty)},
    {"presence_penalty", FIELD_F32, ALL, SAMPLING(presence_penalty)},
    {"frequency_penalty", FIELD_F32, ALL, SAMPLING(frequency_penalty)},
    {"min_tokens", FIELD_I32, ALL, SAMPLING(min_tokens)},
    {"ignore_eos", FIELD_FLAG, ALL, SAMPLING(ignore_eos)},
    {"stop_token_ids", FIELD_STOP_IDS, ALL, 0},
    {"include_stop_str_in_output", FIELD_FLAG, BOTH, SAMPLING(include_stop)},
    {"id", FIELD_LATER, PLAIN, 0}, /* read by the batch */
    {"custom_id", FIELD_LATER, PLAIN, 0},
    {"stream", FIELD_STREAM, BOTH, 0},
    {"stream", FIELD_OFF, EMBEDDING, 0},
    {"stream_options", FIELD_LATER, BOTH, 0},
    {"echo", FIELD_FLAG, COMPLETION, REQUEST(echo)},
    {"echo", FIELD_OFF, CHAT, 0},
    {"return_token_ids", FIELD_FLAG, BOTH, REQUEST(return_token_ids)},
    {"return_tokens_as_token_ids", FIELD_FLAG, BOTH, REQUEST(names_token_ids)},
    {"add_special_tokens", FIELD_FLAG, COMPLETION | EMBEDDING, REQUEST(add_special_tokens)},
    {"add_special_tokens", FIELD_FLAG, CHAT, REQUEST(chat.add_special_tokens)},
    {"skip_special_tokens", FIELD_FLAG, BOTH, SAMPLING(skip_special_tokens)},
    {"detokenize", FIELD_ONLY_TRUE, BOTH, 0},
    {"stream_interval", FIELD_INTERVAL, BOTH, 0},
    {"request_id", FIELD_REQUEST_ID, BODIES, 0},
    {"priority", FIELD_ONLY_ZERO, BODIES, 0},
    {"user", FIELD_PASSED_TEXT, BODIES, 0},
    {"metadata", FIELD_PASSED_OBJECT, BOTH, 0},
    {"store", FIELD_PASSED_FLAG, BOTH, 0},
    {"service_tier", FIELD_PASSED_TEXT, BOTH, 0},
    {"safety_identifier", FIELD_PASSED_TEXT, BOTH, 0},
    {"prompt_cache_key", FIELD_PASSED_TEXT, BOTH, 0},
    {"prompt_cache_retention", FIELD_PASSED_TEXT, BOTH, 0},
    {"prompt_cache_options", FIELD_PASSED_OBJECT, BOTH, 0},
    {"prediction", FIELD_PASSED_OBJECT, CHAT, 0},
    {"verbosity", FIELD_PASSED_TEXT, CHAT, 0},
    {"include_reasoning", FIELD_FLAG, CHAT, REQUEST(include_reasoning)},
    {"spaces_between_special_tokens", FIELD_PASSED_FLAG, BOTH, 0},
    {"vllm_xargs", FIELD_OFF, BOTH, 0},
    {"return_token_offsets", FIELD_OFF, BOTH, 0},
    {"return_prompt_text", FIELD_OFF, BOTH, 0},
    {"add_generation_prompt", FIELD_FLAG, CHAT, REQUEST(chat.add_generation_prompt)},
    {"continue_final_message", FIELD_FLAG, CHAT, REQUEST(chat.continue_final_message)},
    {"chat_template_kwargs", FIELD_TEMPLATE_KWARGS, CHAT, 0},
    {"reasoning_effort", FIELD_TEXT, CHAT, REQUEST(chat.reasoning_effort)},
    {"documents", FIELD_DOCUMENTS, CHAT, 0},
    {"tools", FIELD_TOOLS, CHAT, 0},
    {"tool_choice", FIELD_LATER, CHAT, 0},
    {"parallel_tool_calls", FIELD_FLAG, CHAT, REQUEST(chat.parallel_tool_calls)},
    {"response_format", FIELD_RESPONSE_FORMAT, ALL, 0},
    {"modalities", FIELD_MODALITIES, CHAT, 0},
    {"functions", FIELD_OFF, CHAT, 0},
    {"function_call", FIELD_OFF, CHAT, 0},
    {"audio", FIELD_OFF, CHAT, 0},
    {"web_search_options", FIELD_OFF, CHAT, 0},
    {"chat_template", FIELD_OFF, CHAT, 0},
    {"suffix", FIELD_OFF, COMPLETION, 0},
    {"prompt_embeds", FIELD_OFF, COMPLETION, 0},
    {"structured_outputs", FIELD_STRUCTURED_OUTPUTS, ALL, 0},
    {"guided_json", FIELD_GUIDED, ALL, 0},
    {"guided_regex", FIELD_GUIDED, ALL, 0},
    {"guided_choice", FIELD_GUIDED, ALL, 0},
    {"guided_grammar", FIELD_GUIDED, ALL, 0},
    {"guided_whitespace_pattern", FIELD_OFF, ALL, 0},
    {"structural_tag", FIELD_GUIDED, ALL, 0},
    {"use_beam_search", FIELD_OFF, BOTH, 0},
    {"logits_processors", FIELD_OFF, BOTH, 0},
    {"bad_words", FIELD_BAD_WORDS, BOTH, 0},
    {"allowed_token_ids", FIELD_ALLOWED_IDS, ALL, 0},
    {"truncate_prompt_tokens", FIELD_TRUNCATE, BODIES, 0},
    {"truncation_side", FIELD_SIDE, BODIES, 0},
    {"logprob_token_ids", FIELD_LOGPROB_IDS, BOTH, 0},
    {"thinking_token_budget", FIELD_BUDGET, BOTH, 0},
    {"repetition_detection", FIELD_OFF, BOTH, 0},
    {"cache_salt", FIELD_SALT, BODIES, 0},
};

enum { N_FIELDS = sizeof fields / sizeof fields[0] };

static const field *find_field(const char *name, yk_openai_form form)
{
  for (const field *f = fields; f < fields + N_FIELDS; f++)
    if (f->forms & (int)form && strcmp(f->name, name) == 0) return f;
  return NULL;
}

static yk_status unknown_key(const char *name, yk_openai_form form, yk_err *err)
{
  const char *names[N_FIELDS];
  for (size_t i = 0; i < N_FIELDS; i++) names[i] = fields[i].forms & (int)form ? fields[i].name : NULL;
  const char *nearest = yk_name_nearest(name, names, N_FIELDS);
  if (nearest) return yk_err_set(err, YK_E_INVAL, "unknown key \"%.80s\"; did you mean \"%s\"?", name, nearest);
  return yk_err_set(err, YK_E_INVAL, "unknown key \"%.80s\"", name);
}

/* ---- Values ------------------------------------------------------------------------------------------------------ */

static yk_status unsupported(const char *name, yk_err *err)
{
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: not supported; leave it out", name);
}

static bool is_empty(yk_json value)
{
  switch (yk_json_kind_of(value)) {
  case YK_JSON_FALSE: return true;
  case YK_JSON_STRING: return yk_json_length(value) == 0;
  case YK_JSON_ARRAY:
  case YK_JSON_OBJECT: return yk_json_size(value) == 0;
  default: return false;
  }
}

static yk_status read_stream(yk_openai_request *request, const yk_openai_defaults *defaults, yk_json value, yk_err *err)
{
  YK_TRY(yk_json_read_bool(value, NULL, "stream", &request->stream, err));
  if (!request->stream || defaults->can_stream) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "stream: not available in a batch; leave it out");
}

static yk_status read_modalities(yk_json value, yk_err *err)
{
  if (!yk_json_is(value, YK_JSON_ARRAY))
    return yk_json_wrong_type(NULL, "modalities", "an array of strings", value, err);
  YK_JSON_EACH(name, value)
  {
    if (!yk_json_is(name, YK_JSON_STRING))
      return yk_json_wrong_type(NULL, "modalities", "an array of strings", name, err);
    if (!yk_json_equals(name, "text"))
      return yk_err_set(err, YK_E_UNSUPPORTED, "modalities: expected only \"text\", found \"%.40s\"",
                        yk_json_string(name));
  }
  return YK_OK;
}

yk_status yk_request_read_max_tokens(yk_openai_request *request, const char *name, yk_json value, yk_err *err)
{
  request->has_max_tokens = true;
  return yk_json_read_i32(value, NULL, name, -1, INT32_MAX, &request->sampling.max_tokens, err);
}

static yk_status read_salt(yk_openai_request *request, yk_json value, yk_err *err)
{
  YK_TRY(yk_json_read_str(value, NULL, "cache_salt", &request->cache_salt, err));
  request->cache_salt_bytes = yk_json_length(value);
  if (request->cache_salt_bytes >= 1 && request->cache_salt_bytes <= YK_OPENAI_MAX_SALT_BYTES) return YK_OK;
  return yk_err_set(err, YK_E_INVAL, "cache_salt: expected a text of 1 to %d bytes, found %zu",
                    YK_OPENAI_MAX_SALT_BYTES, request->cache_salt_bytes);
}

/* As with X-Request-Id, an unusable id counts as absent. */
static yk_status read_request_id(yk_openai_request *request, yk_json value, yk_err *err)
{
  const char *id;
  YK_TRY(yk_json_read_str(value, NULL, "request_id", &id, err));
  size_t n = yk_json_length(value);
  bool is_usable = n < sizeof request->request_id;
  for (size_t i = 0; i < n; i++) is_usable &= id[i] >= '!' && id[i] <= '~';
  if (is_usable) memcpy(request->request_id, id, n + 1);
  return YK_OK;
}

static yk_status read_truncation(yk_openai_request *request, yk_json value, yk_err *err)
{
  static const char name[] = "truncate_prompt_tokens";
  YK_TRY(yk_json_read_i32(value, NULL, name, -1, INT32_MAX, &request->truncate_tokens, err));
  return request->truncate_tokens ? YK_OK
                                  : yk_err_set(err, YK_E_INVAL, "%s: expected at least 1, or -1, found 0", name);
}

/* A chat without its end is no question. */
static yk_status read_truncation_side(yk_openai_request *request, yk_json value, yk_err *err)
{
  static const char name[] = "truncation_side";
  const char *side;
  YK_TRY(yk_json_read_str(value, NULL, name, &side, err));
  request->keeps_beginning = yk_json_equals(value, "right");
  if (!request->keeps_beginning && !yk_json_equals(value, "left"))
    return yk_err_set(err, YK_E_INVAL, "%s: expected \"left\" or \"right\", found \"%.40s\"", name, side);
  if (request->keeps_beginning && request->form == YK_FORM_CHAT)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: expected \"left\" in a chat, found \"right\"", name);
  return YK_OK;
}

static yk_status read_encoding(yk_openai_request *request, yk_json value, yk_err *err)
{
  static const char name[] = "encoding_format";
  const char *format;
  YK_TRY(yk_json_read_str(value, NULL, name, &format, err));
  request->is_base64 = yk_json_equals(value, "base64");
  if (request->is_base64 || yk_json_equals(value, "float")) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: expected \"float\" or \"base64\", found \"%.40s\"", name, format);
}

static yk_status read_only_zero(const char *name, yk_json value, yk_err *err)
{
  int32_t number;
  YK_TRY(yk_json_read_i32(value, NULL, name, INT32_MIN, INT32_MAX, &number, err));
  return number == 0 ? YK_OK
                     : yk_err_set(err, YK_E_UNSUPPORTED, "%s: expected 0, or to be left out, found %d", name, number);
}

static yk_status read_only_true(const char *name, yk_json value, yk_err *err)
{
  bool flag;
  YK_TRY(yk_json_read_bool(value, NULL, name, &flag, err));
  return flag ? YK_OK : yk_err_set(err, YK_E_UNSUPPORTED, "%s: expected true, or to be left out", name);
}

static yk_status check_kind(const char *name, yk_json value, yk_json_kind kind, const char *expected, yk_err *err)
{
  return yk_json_is(value, kind) ? YK_OK : yk_json_wrong_type(NULL, name, expected, value, err);
}

static yk_status read_field(yk_openai_request *request, const field *f, const yk_openai_defaults *defaults,
                            yk_json value, yk_err *err)
{
  void *member = (char *)request + f->offset;
  switch (f->kind) {
  case FIELD_F32: return yk_value_read_f32(f->name, value, member, err);
  case FIELD_I32: return yk_json_read_i32(value, NULL, f->name, INT32_MIN, INT32_MAX, member, err);
  case FIELD_FLAG: return yk_json_read_bool(value, NULL, f->name, member, err);
  case FIELD_TEXT: return yk_json_read_str(value, NULL, f->name, member, err);
  case FIELD_MAX_TOKENS: return yk_request_read_max_tokens(request, f->name, value, err);
  case FIELD_REQUEST_ID: return read_request_id(request, value, err);
  case FIELD_INTERVAL: return yk_json_read_i32(value, NULL, f->name, 1, INT32_MAX, &request->stream_interval, err);
  case FIELD_BUDGET:
    return yk_json_read_i32(value, NULL, f->name, -1, INT32_MAX, &request->sampling.max_reasoning_tokens, err);
  case FIELD_TRUNCATE: return read_truncation(request, value, err);
  case FIELD_SIDE: return read_truncation_side(request, value, err);
  case FIELD_PASSED_TEXT: return check_kind(f->name, value, YK_JSON_STRING, "a string", err);
  case FIELD_PASSED_FLAG:
    return yk_json_is_bool(value) ? YK_OK : check_kind(f->name, value, YK_JSON_TRUE, "true or false", err);
  case FIELD_PASSED_OBJECT: return check_kind(f->name, value, YK_JSON_OBJECT, "an object", err);
  case FIELD_ONLY_ZERO: return read_only_zero(f->name, value, err);
  case FIELD_SALT: return read_salt(request, value, err);
  case FIELD_SEED: return yk_request_read_seed(request, value, err);
  case FIELD_BAD_WORDS: return yk_request_read_bad_words(request, value, err);
  case FIELD_STOP: return yk_request_read_stop(request, value, err);
  case FIELD_STOP_IDS: return yk_request_read_stop_ids(request, value, err);
  case FIELD_LOGPROB_IDS: return yk_request_read_logprob_ids(request, value, err);
  case FIELD_BIAS: return yk_request_read_biases(request, value, err);
  case FIELD_PROMPT: return yk_request_read_prompts(request, f->name, value, err);
  case FIELD_DIMENSIONS: return yk_json_read_i32(value, NULL, f->name, 1, INT32_MAX, &request->n_dimensions, err);
  case FIELD_ENCODING: return read_encoding(request, value, err);
  case FIELD_SAMPLES: return yk_json_read_i32(value, NULL, f->name, 1, YK_OPENAI_MAX_SAMPLES, &request->n_samples, err);
  case FIELD_STREAM: return read_stream(request, defaults, value, err);
  case FIELD_MESSAGES: return yk_chat_read_messages(&request->chat, value, err);
  case FIELD_TOOLS: return yk_chat_read_tools(&request->chat, value, err);
  case FIELD_DOCUMENTS: return yk_chat_read_documents(&request->chat, value, err);
  case FIELD_TEMPLATE_KWARGS: return yk_chat_read_template_kwargs(&request->chat, value, err);
  case FIELD_RESPONSE_FORMAT: return yk_request_read_response_format(request, value, err);
  case FIELD_STRUCTURED_OUTPUTS: return yk_request_read_structured_outputs(request, value, err);
  case FIELD_GUIDED: return yk_request_read_guided(request, f->name, value, err);
  case FIELD_ALLOWED_IDS: return yk_request_read_allowed_ids(request, value, err);
  case FIELD_MODALITIES: return read_modalities(value, err);
  case FIELD_ONLY_TRUE: return read_only_true(f->name, value, err);
  case FIELD_OFF: return is_empty(value) ? YK_OK : unsupported(f->name, err);
  case FIELD_LATER: return YK_OK;
  }
  return yk_err_set(err, YK_E_INTERNAL, "%s: no reader", f->name);
}

yk_json yk_request_take_up(yk_openai_request *request, const char *name)
{
  snprintf(request->param, sizeof request->param, "%s", name);
  yk_json value = yk_json_get(request->object, name);
  return yk_json_is_given(value) ? value : YK_JSON_NONE;
}

yk_status yk_request_read_field(yk_openai_request *request, yk_json key, const yk_openai_defaults *defaults,
                                yk_err *err)
{
  const char *name = yk_json_text(key);
  yk_json value = yk_json_member(key);
  bool has_nul = strlen(name) != yk_json_length(key);
  const field *f = has_nul ? NULL : find_field(name, request->form);
  snprintf(request->param, sizeof request->param, "%s", name);
  if (!f && request->form == YK_FORM_PLAIN) return unknown_key(name, request->form, err);
  if (!f && defaults->pass_over && yk_json_is_given(value)) defaults->pass_over(defaults->user, "field", name);
  if (!f || !yk_json_is_given(value)) return YK_OK;
  return read_field(request, f, defaults, value, err);
}

/* ---- Fields that are kept of a body ------------------------------------------------------------------------------ */

static bool keeps_of_completion(const char *key)
{
  return find_field(key, YK_FORM_COMPLETION) != NULL;
}

static bool keeps_of_chat(const char *key)
{
  return find_field(key, YK_FORM_CHAT) != NULL;
}

static bool keeps_of_embedding(const char *key)
{
  return find_field(key, YK_FORM_EMBEDDING) != NULL;
}

yk_json_rules yk_openai_body_rules(yk_openai_form form, size_t max_bytes)
{
  enum { BYTES_A_VALUE = 4, FEWEST_VALUES = 1024 };
  yk_json_rules rules = {.max_depth = YK_OPENAI_MAX_DEPTH, .max_values = max_bytes / BYTES_A_VALUE + FEWEST_VALUES};
  if (form == YK_FORM_COMPLETION) rules.keeps = keeps_of_completion;
  if (form == YK_FORM_CHAT) rules.keeps = keeps_of_chat;
  if (form == YK_FORM_EMBEDDING) rules.keeps = keeps_of_embedding;
  return rules;
}
