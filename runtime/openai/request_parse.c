#include "openai/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "openai/call_constraints.h"
#include "openai/chat_fields.h"
#include "openai/constraint_fields.h"
#include "openai/request_fields.h"
#include "openai/request_lists.h"

/* ---- Fields that depend on others -------------------------------------------------------------------------------- */

static yk_status check_choices(yk_openai_request *request, yk_err *err)
{
  yk_json best_of = request->form == YK_FORM_PLAIN ? YK_JSON_NONE : yk_request_take_up(request, "best_of");
  int32_t n_best = request->n_samples;
  if (best_of.doc) YK_TRY(yk_json_read_i32(best_of, NULL, "best_of", INT32_MIN, INT32_MAX, &n_best, err));
  if (n_best != request->n_samples)
    return yk_err_set(err, YK_E_UNSUPPORTED, "best_of: expected the same as n (%d), or to be left out, found %d",
                      request->n_samples, n_best);
  yk_request_take_up(request, "n");
  if (yk_openai_request_choices(request) > YK_OPENAI_MAX_CHOICES)
    return yk_err_set(err, YK_E_INVAL, "n times the number of prompts: expected at most %d, found %zu",
                      YK_OPENAI_MAX_CHOICES, yk_openai_request_choices(request));
  return YK_OK;
}

static yk_status read_stream_options(yk_openai_request *request, const yk_openai_defaults *defaults, yk_err *err)
{
  request->include_usage = request->stream && defaults->forces_usage;
  yk_json options = yk_request_take_up(request, "stream_options");
  if (!options.doc) return YK_OK;
  if (!yk_json_is(options, YK_JSON_OBJECT))
    return yk_json_wrong_type(NULL, "stream_options", "an object", options, err);
  if (!request->stream) return yk_err_set(err, YK_E_INVAL, "stream_options: expected \"stream\": true with it");
  bool includes = false;
  YK_TRY(yk_json_get_bool(options, "stream_options", "include_usage", false, &includes, err));
  request->include_usage |= includes;
  YK_TRY(yk_json_get_bool(options, "stream_options", "continuous_usage_stats", false, &request->continuous_usage, err));
  request->continuous_usage &= request->include_usage;
  return YK_OK;
}

/* Chat has a flag and a number. */
static yk_status read_chat_logprobs(yk_openai_request *request, yk_err *err)
{
  bool wanted = false;
  int32_t n_top = 0;
  yk_json flag = yk_request_take_up(request, "logprobs");
  if (flag.doc) YK_TRY(yk_json_read_bool(flag, NULL, "logprobs", &wanted, err));
  yk_json top = yk_request_take_up(request, "top_logprobs");
  if (top.doc) YK_TRY(yk_json_read_i32(top, NULL, "top_logprobs", 0, YK_MAX_LOGPROBS, &n_top, err));
  if (n_top > 0 && !wanted) return yk_err_set(err, YK_E_INVAL, "top_logprobs: expected \"logprobs\": true with it");
  request->sampling.n_logprobs = wanted ? n_top : -1;
  return YK_OK;
}

static yk_status read_tool_choice(yk_openai_request *request, const yk_openai_defaults *defaults, yk_err *err)
{
  yk_tool_choice choice = YK_TOOL_CHOICE_AUTO;
  const char *function = NULL;
  yk_json value = yk_request_take_up(request, "tool_choice");
  if (value.doc) YK_TRY(yk_chat_read_tool_choice(value, &choice, &function, err));
  if (choice == YK_TOOL_CHOICE_NONE) request->chat.tools = YK_JSON_NONE;
  yk_tool_format format = defaults->style.tools;
  yk_request_take_up(request, "tools");
  if (choice == YK_TOOL_CHOICE_AUTO && request->chat.tools.doc && format == YK_TOOLS_NONE)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "tools: the format of the model's calls is not set; start with --tool-call-parser and a name "
                      "that --help lists (hermes, llama3_json, ...)");
  /* Enforced calls need no knowledge of the model. */
  if (choice == YK_TOOL_CHOICE_REQUIRED && format == YK_TOOLS_NONE) format = YK_TOOLS_HERMES;
  request->tools = format;
  yk_request_take_up(request, "tool_choice");
  YK_TRY(yk_request_constrain_tools(request, choice, function, err));
  if (!request->chat.tools.doc) request->tools = YK_TOOLS_NONE;
  if (!request->chat.tools.doc || !yk_tool_format_is_typed(request->tools)) return YK_OK;
  return yk_tool_schemas_create(request->chat.tools, &request->schemas, err);
}

/* Tags may be special tokens, so that the parser of the answer gets these, and hides them from the client. */
static void keep_tags(yk_openai_request *request)
{
  if (request->tools == YK_TOOLS_NONE && !request->reasoning) return;
  request->hides_special = request->sampling.skip_special_tokens;
  request->sampling.skip_special_tokens = false;
}

static yk_status check_budget(yk_openai_request *request, yk_err *err)
{
  yk_request_take_up(request, "thinking_token_budget");
  if (request->sampling.max_reasoning_tokens < 0) return YK_OK;
  if (request->tags && request->tags->has_channels)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "thinking_token_budget: not supported for models whose reasoning is a message with a channel; "
                      "reasoning_effort limits it");
  if (request->tags) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED,
                    "thinking_token_budget: the tags of the model's reasoning are not set; start with "
                    "--reasoning-parser and a name that --help lists (qwen3, deepseek_r1, ...)");
}

static yk_status finish_chat(yk_openai_request *request, const yk_openai_defaults *defaults, yk_err *err)
{
  yk_request_take_up(request, "messages");
  if (!request->chat.messages.doc) return yk_err_set(err, YK_E_INVAL, "key \"messages\": expected, but missing");
  request->prompts = calloc(1, sizeof *request->prompts);
  if (!request->prompts) return yk_err_set(err, YK_E_NOMEM, "no memory for a prompt");
  request->n_prompts = 1;
  YK_TRY(read_chat_logprobs(request, err));
  yk_json most = yk_request_take_up(request, "max_completion_tokens");
  if (most.doc) YK_TRY(yk_request_read_max_tokens(request, "max_completion_tokens", most, err));
  YK_TRY(read_tool_choice(request, defaults, err));
  request->reasoning = request->tags;
  keep_tags(request);
  yk_request_take_up(request, "continue_final_message");
  return yk_chat_check_endings(&request->chat, err);
}

/* As in vLLM: listed ids replace the most probable tokens, and are only allowed with log-probabilities. */
static yk_status check_logprob_ids(yk_openai_request *request, yk_err *err)
{
  yk_request_take_up(request, "logprob_token_ids");
  if (request->sampling.n_logprob_ids == 0 || request->sampling.n_logprobs >= 0) return YK_OK;
  return yk_err_set(err, YK_E_INVAL, "logprob_token_ids: expected \"logprobs\"%s with it",
                    request->form == YK_FORM_CHAT ? ": true" : "");
}

/* Log-probabilities with echo include the prompt's. The engine accepts max_tokens 0 only with prompt log-probabilities,
 * so these are computed even if the answer does not show them. */
static void apply_echo(yk_openai_request *request)
{
  yk_sampling *s = &request->sampling;
  request->n_prompt_logprobs = s->n_prompt_logprobs;
  if (!request->echo) return;
  if (s->n_logprobs > s->n_prompt_logprobs) s->n_prompt_logprobs = s->n_logprobs;
  if (s->max_tokens == 0 && s->n_prompt_logprobs < 0) s->n_prompt_logprobs = 0;
}

/* The defaults of a batch may request log-probabilities, which an embedding has not. */
static yk_status finish_embedding(yk_openai_request *request, yk_err *err)
{
  request->n_prompt_logprobs = request->sampling.n_prompt_logprobs = request->sampling.n_logprobs = -1;
  yk_request_take_up(request, "input");
  if (request->n_prompts == 0) return yk_err_set(err, YK_E_INVAL, "key \"input\": expected, but missing");
  request->param[0] = '\0';
  return YK_OK;
}

static yk_status finish(yk_openai_request *request, const yk_openai_defaults *defaults, yk_err *err)
{
  if (request->form == YK_FORM_EMBEDDING) return finish_embedding(request, err);
  if (request->form == YK_FORM_CHAT) {
    YK_TRY(finish_chat(request, defaults, err));
  } else {
    yk_request_take_up(request, "prompt");
    if (request->n_prompts == 0) return yk_err_set(err, YK_E_INVAL, "key \"prompt\": expected, but missing");
  }
  YK_TRY(check_choices(request, err));
  YK_TRY(check_budget(request, err));
  if (request->form != YK_FORM_PLAIN) YK_TRY(read_stream_options(request, defaults, err));
  YK_TRY(check_logprob_ids(request, err));
  apply_echo(request);
  yk_request_take_up(request, "prompt_logprobs");
  if (request->stream && request->n_prompt_logprobs >= 0)
    return yk_err_set(err, YK_E_UNSUPPORTED, "prompt_logprobs: not available with stream");
  request->param[0] = '\0';
  return YK_OK;
}

/* ---- Requests ---------------------------------------------------------------------------------------------------- */

yk_status yk_openai_request_parse(yk_json_doc *document, yk_json object, yk_openai_form form,
                                  const yk_openai_defaults *defaults, yk_openai_request *out, yk_err *err)
{
  *out = (yk_openai_request){.form = form,
                             .n_samples = form == YK_FORM_EMBEDDING ? 1 : defaults->n_samples,
                             .keeps_beginning = form == YK_FORM_EMBEDDING,
                             .sampling = defaults->sampling,
                             .has_max_tokens = defaults->has_max_tokens,
                             .add_special_tokens = true,
                             .tags = defaults->style.reasoning,
                             .include_reasoning = true,
                             .stream_interval = 1,
                             .tool_places = defaults->tool_places,
                             .document = document,
                             .object = object};
  yk_chat_init(&out->chat);
  if (!yk_json_is(object, YK_JSON_OBJECT)) return yk_json_wrong_type(NULL, "body", "an object", object, err);
  YK_JSON_EACH_KEY(key, object) YK_TRY(yk_request_read_field(out, key, defaults, err));
  yk_status status = finish(out, defaults, err);
  out->tool_places = NULL;
  return status;
}

void yk_openai_request_place(const yk_openai_request *request, yk_err *err)
{
  char text[YK_ERR_MESSAGE_BYTES];
  const char *place = request->message_places;
  size_t message;
  int n_read = 0;
  if (!err || err->code == YK_OK || !place || sscanf(err->message, "messages[%zu]%n", &message, &n_read) != 1) return;
  for (size_t i = 0; i < message; i++) place += strlen(place) + 1;
  snprintf(text, sizeof text, "%s%s", place, err->message + n_read);
  snprintf(err->message, sizeof err->message, "%s", text);
}

yk_status yk_openai_request_drop_body(yk_openai_request *request, yk_err *err)
{
  for (size_t i = 0; i < request->n_prompts; i++) {
    yk_openai_prompt *prompt = &request->prompts[i];
    if (!request->echo || !prompt->text || prompt->own_text) continue;
    prompt->own_text = malloc(prompt->n_bytes + 1);
    if (!prompt->own_text) return yk_err_set(err, YK_E_NOMEM, "no memory for %zu bytes of a prompt", prompt->n_bytes);
    memcpy(prompt->own_text, prompt->text, prompt->n_bytes + 1);
  }
  for (size_t i = 0; i < request->n_prompts; i++) request->prompts[i].text = request->prompts[i].own_text;
  free(request->stop_strings);
  request->stop_strings = NULL;
  request->sampling.stop_strings = NULL;
  request->sampling.n_stop_strings = 0;
  free(request->constraint);
  request->constraint = NULL;
  request->sampling.constraint = NULL;
  request->sampling.constraint_bytes = 0;
  request->model = request->cache_salt = NULL;
  request->object = YK_JSON_NONE;
  request->chat.messages = request->chat.tools = request->chat.documents = request->chat.template_kwargs = YK_JSON_NONE;
  request->chat.reasoning_effort = NULL;
  yk_json_free(request->document);
  request->document = NULL;
  return YK_OK;
}

void yk_openai_request_free(yk_openai_request *request)
{
  for (size_t i = 0; i < request->n_prompts; i++) {
    free(request->prompts[i].ids);
    free(request->prompts[i].own_text);
  }
  free(request->prompts);
  free(request->stop_ids);
  free(request->stop_strings);
  free(request->logprob_ids);
  free(request->allowed_ids);
  free(request->constraint);
  free(request->biases);
  free(request->repeated);
  free(request->message_places);
  for (size_t i = 0; request->bad_words && i < request->sampling.n_bad_words; i++)
    free((void *)(uintptr_t)request->bad_words[i].ids);
  free(request->bad_words);
  yk_tool_schemas_free(request->schemas);
  yk_json_free(request->document);
  *request = (yk_openai_request){0};
}

void yk_openai_defaults_init(const yk_engine *engine, yk_openai_form form, yk_openai_defaults *out)
{
  enum { COMPLETION_TOKENS = 16 };
  yk_engine_info info;
  yk_request_options request;
  yk_engine_get_info(engine, &info);
  yk_request_options_init(engine, &request);
  *out = (yk_openai_defaults){.sampling = request.sampling, .n_samples = 1, .can_stream = true};
  if (info.default_max_tokens > 0)
    out->sampling.max_tokens = info.default_max_tokens;
  else if (form == YK_FORM_COMPLETION)
    out->sampling.max_tokens = COMPLETION_TOKENS;
}

/* The template, or the client's text, may have opened the reasoning that the answer closes. */
static yk_status find_beginning(const yk_openai_request *request, const yk_engine *engine, yk_openai_prompt *prompt,
                                yk_err *err)
{
  enum { TAIL_TOKENS = 16 }; /* enough for a tag and white space after it */
  char *tail;
  size_t n_bytes, n_tail = prompt->n_ids < TAIL_TOKENS ? prompt->n_ids : TAIL_TOKENS;
  YK_TRY(yk_engine_detokenize(engine, prompt->ids + (prompt->n_ids - n_tail), n_tail, false, &tail, &n_bytes, err));
  prompt->beginning = yk_reasoning_beginning_of(request->tags, tail, n_bytes);
  bool is_inside = request->reasoning && request->reasoning->begins_inside;
  if (is_inside && prompt->beginning == YK_REASONING_UNDECIDED) prompt->beginning = YK_REASONING_OPENED;
  free(tail);
  return YK_OK;
}

/* Needed for the parser of a chat's answer, and where the answer's beginning matters. */
static yk_status find_beginnings(yk_openai_request *request, const yk_engine *engine, yk_err *err)
{
  const yk_sampling *s = &request->sampling;
  bool is_limited = s->constraint_kind != YK_CONSTRAINT_NONE || s->max_reasoning_tokens >= 0;
  if (!request->tags || (!request->reasoning && !is_limited)) return YK_OK;
  for (size_t i = 0; i < request->n_prompts; i++) YK_TRY(find_beginning(request, engine, &request->prompts[i], err));
  request->begins_inside = request->reasoning && request->prompts[0].beginning == YK_REASONING_OPENED;
  return YK_OK;
}

void yk_openai_request_name_prompt(const yk_openai_request *request, size_t prompt, yk_err *err)
{
  static const char name[] = "prompt";
  char rest[YK_ERR_MESSAGE_BYTES];
  if (request->n_prompts < 2 || !err || err->code == YK_OK) return;
  bool has_name = strncmp(err->message, name, strlen(name)) == 0 && strchr(": ", err->message[strlen(name)]);
  snprintf(rest, sizeof rest, "%s", err->message + (has_name ? strlen(name) : 0));
  yk_status code = err->code;
  yk_err_clear(err);
  yk_err_set(err, code, "%s[%zu]%s%s", name, prompt, has_name ? "" : ": ", rest);
}

yk_status yk_openai_request_tokenize(yk_openai_request *request, const yk_engine *engine, yk_err *err)
{
  yk_engine_info info;
  yk_engine_get_info(engine, &info);
  size_t n_kept;
  YK_TRY(yk_openai_request_kept_ids(request, info.max_model_tokens, &n_kept, err));
  for (size_t i = 0; i < request->n_prompts; i++) {
    yk_openai_prompt *prompt = &request->prompts[i];
    if (!prompt->text || prompt->ids) continue;
    yk_status status =
        n_kept ? yk_engine_tokenize_truncated(engine, prompt->text, prompt->n_bytes, request->add_special_tokens,
                                              n_kept, !request->keeps_beginning, &prompt->ids, &prompt->n_ids, err)
               : yk_engine_tokenize_bounded(engine, prompt->text, prompt->n_bytes, request->add_special_tokens,
                                            (size_t)info.max_model_tokens, &prompt->ids, &prompt->n_ids, err);
    yk_openai_request_name_prompt(request, i, err);
    if (status != YK_OK) return status;
  }
  YK_TRY(find_beginnings(request, engine, err));
  return request->bad_words ? yk_request_encode_bad_words(request, engine, err) : YK_OK;
}

yk_status yk_openai_request_kept_ids(const yk_openai_request *request, int32_t context_tokens, size_t *out, yk_err *err)
{
  int32_t n_kept = request->truncate_tokens, max_tokens = request->has_max_tokens ? request->sampling.max_tokens : 1;
  if (n_kept > context_tokens)
    return yk_err_set(err, YK_E_INVAL, "truncate_prompt_tokens: expected at most %d, found %d", context_tokens, n_kept);
  if (n_kept < 0 && request->form == YK_FORM_EMBEDDING) n_kept = context_tokens;
  if (n_kept < 0) n_kept = (int32_t)yk_max_i64(context_tokens - (max_tokens < 1 ? 1 : max_tokens), 1);
  *out = (size_t)n_kept;
  return YK_OK;
}

yk_status yk_openai_request_truncate(yk_openai_request *request, int32_t context_tokens, yk_err *err)
{
  size_t n_kept;
  YK_TRY(yk_openai_request_kept_ids(request, context_tokens, &n_kept, err));
  for (size_t i = 0; i < request->n_prompts && n_kept; i++) {
    yk_openai_prompt *prompt = &request->prompts[i];
    if (prompt->n_ids <= n_kept) continue;
    if (!request->keeps_beginning)
      memmove(prompt->ids, prompt->ids + prompt->n_ids - n_kept, n_kept * sizeof *prompt->ids);
    prompt->n_ids = n_kept;
  }
  return YK_OK;
}

/* Whether the context bounds max_tokens: if it was not requested, and, as in vLLM, if a body requests no more than the
 * context, since clients do so for any prompt. Agents send the same number to models of any size, so that in responses
 * and messages the context bounds every number. */
static bool is_bounded_by_context(const yk_openai_request *request, int32_t context_tokens)
{
  if (request->sampling.max_tokens == -1) return false; /* the whole rest of the context */
  if (!request->has_max_tokens || request->bounds_max_tokens) return true;
  return request->form != YK_FORM_PLAIN && request->sampling.max_tokens <= context_tokens;
}

/* A constraint, and a limit of reasoning, concern the answer after the reasoning. A plain completion reasons only if
 * its prompt ends inside, since its text is the client's. */
static void set_tags(const yk_openai_request *request, const yk_openai_prompt *prompt, yk_sampling *s)
{
  bool is_limited = s->constraint_kind != YK_CONSTRAINT_NONE || s->max_reasoning_tokens >= 0;
  bool may_open = request->reasoning && prompt->beginning == YK_REASONING_UNDECIDED;
  if (!request->tags || request->tags->has_channels || !is_limited ||
      (prompt->beginning != YK_REASONING_OPENED && !may_open))
    return;
  s->reasoning_tags = &request->tags->tags;
  s->reasoning_is_open = !may_open;
}

void yk_openai_request_options_of(const yk_openai_request *request, size_t choice, int32_t context_tokens,
                                  yk_request_options *out)
{
  const yk_openai_prompt *prompt = &request->prompts[choice / (size_t)request->n_samples];
  *out = (yk_request_options){.struct_size = sizeof *out,
                              .add_special_tokens = true,
                              .ids = prompt->ids,
                              .n_ids = prompt->n_ids,
                              .sampling = request->sampling,
                              .embeds = request->form == YK_FORM_EMBEDDING,
                              .embedding_size = request->n_dimensions};
  set_tags(request, prompt, &out->sampling);
  out->cache_salt = request->cache_salt;
  out->cache_salt_bytes = request->cache_salt_bytes;
  out->sampling.sample_index = (int32_t)(choice % (size_t)request->n_samples);
  if (out->sampling.n_logprob_ids > 0) out->sampling.n_logprobs = 0;
  if (!is_bounded_by_context(request, context_tokens)) return;
  int64_t left_tokens = (int64_t)context_tokens - (int64_t)prompt->n_ids;
  out->sampling.max_tokens = (int32_t)yk_min_i64(request->sampling.max_tokens, yk_max_i64(left_tokens, 1));
}
