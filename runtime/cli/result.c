#include "cli/result.h"

#include <math.h>
#include <stdlib.h>

#include "cli/cli.h"

/* Nine digits distinguish any two float32 values. */
enum { JSON_FLAGS = JSON_COMPACT | JSON_REAL_PRECISION(9) };

yk_status yk_result_init(yk_result *result, bool with_logprobs, bool with_prompt_logprobs, yk_err *err)
{
  *result = (yk_result){.err = YK_ERR_INIT,
                        .token_ids = json_array(),
                        .logprobs = with_logprobs ? json_array() : NULL,
                        .prompt_logprobs = with_prompt_logprobs ? json_array() : NULL};
  if (!result->token_ids || (with_logprobs && !result->logprobs) || (with_prompt_logprobs && !result->prompt_logprobs))
    return yk_err_set(err, YK_E_NOMEM, "no memory for a result");
  return YK_OK;
}

void yk_result_free(yk_result *result)
{
  yk_request_free(result->request);
  yk_strbuf_free(&result->text);
  json_decref(result->token_ids);
  json_decref(result->logprobs);
  json_decref(result->prompt_logprobs);
}

/* JSON has no infinity: the log-probability of a token that cannot occur is null. */
static json_t *number(double value)
{
  return isfinite(value) ? json_real(value) : json_null();
}

static json_t *logprob_object(const yk_output *output)
{
  json_t *top = json_array();
  for (int32_t i = 0; i < output->n_top; i++)
    json_array_append_new(top, json_pack("[i, o]", output->top_ids[i], number(output->top_logprobs[i])));
  return json_pack("{s:i, s:o, s:o}", "token_id", output->token_id, "logprob", number(output->logprob), "top", top);
}

static yk_status append(yk_result *result, const yk_output *output, yk_err *err)
{
  bool failed = false;
  yk_strbuf_append(&result->text, output->text, output->text_bytes);
  if (output->has_token && output->is_prompt) {
    failed = result->prompt_logprobs && json_array_append_new(result->prompt_logprobs, logprob_object(output)) != 0;
  } else if (output->has_token) {
    failed = json_array_append_new(result->token_ids, json_integer(output->token_id)) != 0;
    if (result->logprobs) failed |= json_array_append_new(result->logprobs, logprob_object(output)) != 0;
  }
  if (failed || result->text.failed) return yk_err_set(err, YK_E_NOMEM, "no memory for the output of a request");
  return YK_OK;
}

static yk_status print_dimmed(yk_think_dimmer *dimmer, const yk_output *output, yk_err *err)
{
  yk_strbuf text = YK_STRBUF_INIT;
  yk_think_dimmer_add(dimmer, output->text, output->text_bytes, &text);
  if (output->finish != YK_FINISH_NONE) yk_think_dimmer_end(dimmer, &text);
  yk_status status = text.failed ? yk_err_set(err, YK_E_NOMEM, "no memory for the output of a request") : YK_OK;
  if (text.length) fwrite(text.data, 1, text.length, stdout);
  yk_strbuf_free(&text);
  return status;
}

static yk_status print_token(const yk_result *result, const yk_output *output, yk_stream stream, bool first,
                             yk_err *err)
{
  if (stream == YK_STREAM_TEXT && result->dimmer)
    YK_TRY(print_dimmed(result->dimmer, output, err));
  else if (stream == YK_STREAM_TEXT && output->text_bytes)
    fwrite(output->text, 1, output->text_bytes, stdout);
  if (stream == YK_STREAM_IDS && output->has_token && !output->is_prompt)
    printf("%s%d", first ? "" : " ", output->token_id);
  return yk_cli_flush(err);
}

static void note_end(yk_result *result, yk_finish_reason reason)
{
  result->finish = reason;
  yk_request_get_usage(result->request, &result->usage);
}

yk_status yk_result_collect(yk_result *result, yk_stream stream, yk_err *err)
{
  for (;;) {
    const yk_output *output;
    if (yk_request_next(result->request, -1, &output, &result->err) != YK_OK) {
      note_end(result, YK_FINISH_ERROR);
      return YK_OK;
    }
    bool first = json_array_size(result->token_ids) == 0;
    YK_TRY(append(result, output, err));
    if (stream != YK_STREAM_NOTHING) YK_TRY(print_token(result, output, stream, first, err));
    if (output->finish == YK_FINISH_NONE) continue;
    note_end(result, output->finish);
    return YK_OK;
  }
}

yk_status yk_result_read(yk_result *result, bool *ended, yk_err *err)
{
  *ended = false;
  while (!*ended) {
    const yk_output *output;
    yk_status status = yk_request_next(result->request, 0, &output, &result->err);
    if (status == YK_E_AGAIN) return YK_OK;
    if (status == YK_OK) YK_TRY(append(result, output, err));
    *ended = status != YK_OK || output->finish != YK_FINISH_NONE;
    if (*ended) note_end(result, status == YK_OK ? output->finish : YK_FINISH_ERROR);
  }
  return YK_OK;
}

static json_t *error_object(const yk_err *err)
{
  return json_pack("{s:s, s:s}", "code", yk_status_name(err->code), "message", err->message);
}

static json_t *result_object(const yk_result *result, bool has_text)
{
  if (!result->request) return json_pack("{s:o}", "error", error_object(&result->err));
  const yk_request_usage *usage = &result->usage;
  json_t *text =
      has_text ? json_stringn(result->text.length ? result->text.data : "", result->text.length) : json_null();
  json_t *object = json_pack(
      "{s:o, s:O, s:s, s:{s:i, s:i, s:i}, s:{s:o, s:o, s:o}}", "text", text, "token_ids", result->token_ids,
      "finish_reason", yk_finish_reason_name(result->finish), "usage", "prompt_tokens", usage->prompt_tokens,
      "completion_tokens", usage->output_tokens, "total_tokens", usage->prompt_tokens + usage->output_tokens, "timing",
      "queue_s", number(usage->queue_s), "ttft_s", number(usage->ttft_s), "decode_s", number(usage->decode_s));
  if (object && result->logprobs) json_object_set(object, "logprobs", result->logprobs);
  if (object && result->prompt_logprobs) json_object_set(object, "prompt_logprobs", result->prompt_logprobs);
  if (object && result->finish == YK_FINISH_ERROR) json_object_set_new(object, "error", error_object(&result->err));
  return object;
}

yk_status yk_result_print_json(const yk_result *result, int32_t sample, bool has_text, yk_err *err)
{
  json_t *object = json_object(), *content = result_object(result, has_text);
  int incomplete = sample >= 0 ? json_object_set_new(object, "index", json_integer(sample)) : 0;
  incomplete |= json_object_update(object, content);
  json_decref(content);
  if (incomplete) {
    json_decref(object);
    object = NULL;
  }
  int failed = object ? json_dumpf(object, stdout, JSON_FLAGS) : -1;
  json_decref(object);
  if (failed) return yk_err_set(err, YK_E_NOMEM, "no memory to print a result");
  putchar('\n');
  return YK_OK;
}
