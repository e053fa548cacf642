#include "openai/request.h"

#include <stdlib.h>

#include "base/checked.h"
#include "openai/chat_fields.h"
#include "openai/request_fields.h"
#include "openai/values.h"

/* ---- Fields that depend on others -------------------------------------------------------------------------------- */

static yk_status check_choices(yk_openai_request *request, yk_err *err)
{
  const json_t *best_of = request->form == YK_FORM_PLAIN ? NULL : yk_request_take_up(request, "best_of");
  if (best_of && json_integer_value(best_of) != request->n_samples)
    return yk_err_set(err, YK_E_UNSUPPORTED, "best_of: expected the same as n (%d), or to be left out",
                      request->n_samples);
  yk_request_take_up(request, "n");
  if (yk_openai_request_choices(request) > YK_OPENAI_MAX_CHOICES)
    return yk_err_set(err, YK_E_INVAL, "n times the number of prompts: expected at most %d, found %zu",
                      YK_OPENAI_MAX_CHOICES, yk_openai_request_choices(request));
  return YK_OK;
}

static yk_status read_stream_options(yk_openai_request *request, yk_err *err)
{
  const json_t *options = yk_request_take_up(request, "stream_options");
  if (!options) return YK_OK;
  if (!json_is_object(options)) return yk_value_wrong_type("stream_options", "an object", options, err);
  if (!request->stream) return yk_err_set(err, YK_E_INVAL, "stream_options: expected \"stream\": true beside it");
  const json_t *include = json_object_get(options, "include_usage");
  const json_t *continuous = json_object_get(options, "continuous_usage_stats");
  if (yk_value_is_given(include))
    YK_TRY(yk_value_read_flag("stream_options.include_usage", include, &request->include_usage, err));
  if (yk_value_is_given(continuous))
    YK_TRY(yk_value_read_flag("stream_options.continuous_usage_stats", continuous, &request->continuous_usage, err));
  request->continuous_usage &= request->include_usage;
  return YK_OK;
}

/* Chat's own: a flag and a number. */
static yk_status read_chat_logprobs(yk_openai_request *request, yk_err *err)
{
  bool wanted = false;
  int32_t n_top = 0;
  const json_t *flag = yk_request_take_up(request, "logprobs");
  if (flag) YK_TRY(yk_value_read_flag("logprobs", flag, &wanted, err));
  const json_t *top = yk_request_take_up(request, "top_logprobs");
  if (top) YK_TRY(yk_value_read_i32("top_logprobs", top, 0, YOKE_MAX_LOGPROBS, &n_top, err));
  if (n_top > 0 && !wanted) return yk_err_set(err, YK_E_INVAL, "top_logprobs: expected \"logprobs\": true beside it");
  request->sampling.n_logprobs = wanted ? n_top : -1;
  return YK_OK;
}

static yk_status read_tool_choice(yk_openai_request *request, const yk_openai_defaults *defaults, yk_err *err)
{
  bool none = false;
  const json_t *choice = yk_request_take_up(request, "tool_choice");
  if (choice) YK_TRY(yk_chat_read_tool_choice(choice, &none, err));
  if (none) request->chat.tools = NULL;
  yk_request_take_up(request, "tools");
  if (request->chat.tools && defaults->tools == YK_TOOLS_NONE)
    return yk_err_set(err, YK_E_UNSUPPORTED, "tools: no parser of the model's tool calls was chosen (%s)",
                      yk_tool_format_names());
  if (request->chat.tools) request->tools = defaults->tools;
  return YK_OK;
}

static yk_status finish_chat(yk_openai_request *request, const yk_openai_defaults *defaults, yk_err *err)
{
  yk_request_take_up(request, "messages");
  if (!request->chat.messages) return yk_err_set(err, YK_E_INVAL, "key \"messages\": expected, but missing");
  request->prompts = calloc(1, sizeof *request->prompts);
  if (!request->prompts) return yk_err_set(err, YK_E_NOMEM, "no memory for a prompt");
  request->n_prompts = 1;
  YK_TRY(read_chat_logprobs(request, err));
  const json_t *most = yk_request_take_up(request, "max_completion_tokens");
  if (most) YK_TRY(yk_request_read_max_tokens(request, "max_completion_tokens", most, err));
  YK_TRY(read_tool_choice(request, defaults, err));
  yk_request_take_up(request, "continue_final_message");
  return yk_chat_check_endings(&request->chat, err);
}

/* What echo asks of the engine: the prompt's log-probabilities too, and without max_tokens there is nothing else. */
static void apply_echo(yk_openai_request *request)
{
  yk_sampling *s = &request->sampling;
  request->n_prompt_logprobs = s->n_prompt_logprobs;
  if (!request->echo) return;
  if (s->n_logprobs > s->n_prompt_logprobs) s->n_prompt_logprobs = s->n_logprobs;
  if (s->max_tokens == 0 && s->n_prompt_logprobs < 0) s->n_prompt_logprobs = 0;
}

static yk_status finish(yk_openai_request *request, const yk_openai_defaults *defaults, yk_err *err)
{
  if (request->form == YK_FORM_CHAT) {
    YK_TRY(finish_chat(request, defaults, err));
  } else {
    yk_request_take_up(request, "prompt");
    if (request->n_prompts == 0) return yk_err_set(err, YK_E_INVAL, "key \"prompt\": expected, but missing");
  }
  YK_TRY(check_choices(request, err));
  if (request->form != YK_FORM_PLAIN) YK_TRY(read_stream_options(request, err));
  apply_echo(request);
  yk_request_take_up(request, "prompt_logprobs");
  if (request->stream && request->n_prompt_logprobs >= 0)
    return yk_err_set(err, YK_E_UNSUPPORTED, "prompt_logprobs: not available with stream");
  request->param[0] = '\0';
  return YK_OK;
}

/* ---- Requests ---------------------------------------------------------------------------------------------------- */

yk_status yk_openai_request_parse(const yk_openai_document *document, json_t *object, yk_openai_form form,
                                  const yk_openai_defaults *defaults, yk_openai_request *out, yk_err *err)
{
  *out = (yk_openai_request){.form = form,
                             .n_samples = defaults->n_samples,
                             .sampling = defaults->sampling,
                             .has_max_tokens = defaults->has_max_tokens,
                             .add_special_tokens = true};
  yk_chat_init(&out->chat);
  if (!json_is_object(object)) return yk_value_wrong_type("body", "an object", object, err);
  out->object = json_incref(object);
  const char *name;
  json_t *value;
  json_object_foreach(object, name, value) YK_TRY(yk_request_read_field(out, name, document, defaults, value, err));
  return finish(out, defaults, err);
}

void yk_openai_request_free(yk_openai_request *request)
{
  for (size_t i = 0; i < request->n_prompts; i++) free(request->prompts[i].ids);
  free(request->prompts);
  free(request->stop_ids);
  free(request->stop_strings);
  free(request->biases);
  json_decref(request->object);
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

yk_status yk_openai_request_tokenize(yk_openai_request *request, const yk_engine *engine, yk_err *err)
{
  for (size_t i = 0; i < request->n_prompts; i++) {
    yk_openai_prompt *prompt = &request->prompts[i];
    if (!prompt->text || prompt->ids) continue;
    yk_status status = yk_engine_tokenize(engine, prompt->text, prompt->n_bytes, request->add_special_tokens,
                                          &prompt->ids, &prompt->n_ids, err);
    if (status != YK_OK && request->n_prompts > 1) yk_err_prefix(err, "prompt %zu", i);
    if (status != YK_OK) return status;
  }
  return YK_OK;
}

/* Whether max_tokens is bounded by what the context leaves: where nobody asked for it, and, as in vLLM, in a body that
 * asks for no more than the context, since clients do so whatever the prompt. */
static bool is_bounded_by_context(const yk_openai_request *request, int32_t context_tokens)
{
  if (request->sampling.max_tokens == -1) return false; /* all that the context leaves */
  return !request->has_max_tokens || (request->form != YK_FORM_PLAIN && request->sampling.max_tokens <= context_tokens);
}

void yk_openai_request_options_of(const yk_openai_request *request, size_t choice, int32_t context_tokens,
                                  yk_request_options *out)
{
  const yk_openai_prompt *prompt = &request->prompts[choice / (size_t)request->n_samples];
  *out = (yk_request_options){
      .add_special_tokens = true, .ids = prompt->ids, .n_ids = prompt->n_ids, .sampling = request->sampling};
  out->sampling.sample_index = (int32_t)(choice % (size_t)request->n_samples);
  if (!is_bounded_by_context(request, context_tokens)) return;
  int64_t left_tokens = (int64_t)context_tokens - (int64_t)prompt->n_ids;
  out->sampling.max_tokens = (int32_t)yk_min_i64(request->sampling.max_tokens, yk_max_i64(left_tokens, 1));
}
