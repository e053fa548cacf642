#include "openai/request_lists.h"

#include <stdlib.h>
#include <string.h>

#include "openai/values.h"

static yk_status read_prompt(const json_t *value, yk_openai_prompt *prompt, yk_err *err)
{
  if (json_is_array(value)) return yk_value_read_ids("prompt", value, &prompt->ids, &prompt->n_ids, err);
  if (!json_is_string(value))
    return yk_value_wrong_type("prompt", "a string, an array of token ids, or an array of these", value, err);
  prompt->text = json_string_value(value);
  prompt->n_bytes = json_string_length(value);
  return YK_OK;
}

yk_status yk_request_read_prompts(yk_openai_request *request, const json_t *value, yk_err *err)
{
  const json_t *first = json_array_get(value, 0);
  bool is_list = json_is_string(first) || json_is_array(first);
  size_t n = is_list ? json_array_size(value) : 1;
  if (n > YK_OPENAI_MAX_CHOICES)
    return yk_err_set(err, YK_E_INVAL, "prompt: expected at most %d prompts, found %zu", YK_OPENAI_MAX_CHOICES, n);
  request->prompts = calloc(n, sizeof *request->prompts);
  if (!request->prompts) return yk_err_set(err, YK_E_NOMEM, "no memory for %zu prompts", n);
  request->n_prompts = n;
  for (size_t i = 0; i < n; i++)
    YK_TRY(read_prompt(is_list ? json_array_get(value, i) : value, &request->prompts[i], err));
  return YK_OK;
}

yk_status yk_request_read_stop(yk_openai_request *request, const json_t *value, yk_err *err)
{
  size_t n = json_is_array(value) ? json_array_size(value) : 1;
  request->stop_strings = calloc(n + 1, sizeof *request->stop_strings);
  if (!request->stop_strings) return yk_err_set(err, YK_E_NOMEM, "stop: no memory for %zu strings", n);
  for (size_t i = 0; i < n; i++) {
    const json_t *text = json_is_array(value) ? json_array_get(value, i) : value;
    if (!json_is_string(text)) return yk_value_wrong_type("stop", "a string or an array of strings", text, err);
    if (json_string_length(text) == 0 || strlen(json_string_value(text)) != json_string_length(text))
      return yk_err_set(err, YK_E_INVAL, "stop: expected texts that are not empty and hold no NUL character");
    request->stop_strings[i] = json_string_value(text);
  }
  request->sampling.stop_strings = request->stop_strings;
  request->sampling.n_stop_strings = n;
  return YK_OK;
}

yk_status yk_request_read_stop_ids(yk_openai_request *request, const json_t *value, yk_err *err)
{
  YK_TRY(yk_value_read_ids("stop_token_ids", value, &request->stop_ids, &request->sampling.n_stop_ids, err));
  request->sampling.stop_ids = request->stop_ids;
  return YK_OK;
}

yk_status yk_request_read_biases(yk_openai_request *request, json_t *value, yk_err *err)
{
  if (!json_is_object(value)) return yk_value_wrong_type("logit_bias", "an object of token ids and biases", value, err);
  size_t n = 0;
  request->biases = malloc((json_object_size(value) + 1) * sizeof *request->biases);
  if (!request->biases) return yk_err_set(err, YK_E_NOMEM, "logit_bias: no memory for its entries");
  const char *id;
  json_t *bias;
  json_object_foreach(value, id, bias)
  {
    size_t length = strlen(id);
    if (length == 0 || length > 9 || strspn(id, "0123456789") != length)
      return yk_err_set(err, YK_E_INVAL, "logit_bias: expected token ids as keys, found \"%.40s\"", id);
    request->biases[n].token_id = (int32_t)strtol(id, NULL, 10);
    YK_TRY(yk_value_read_f32("logit_bias", bias, &request->biases[n++].bias, err));
  }
  request->sampling.biases = request->biases;
  request->sampling.n_biases = n;
  return YK_OK;
}

yk_status yk_request_read_seed(yk_openai_request *request, const yk_openai_document *document, const json_t *value,
                               yk_err *err)
{
  int64_t number = 0;
  if (!document->has_wide_seed) YK_TRY(yk_value_read_i64("seed", value, INT64_MIN, INT64_MAX, &number, err));
  if (number < -1)
    return yk_err_set(err, YK_E_INVAL, "seed: expected 0 to 2^64 - 1, or -1 for none, found %lld", (long long)number);
  request->sampling.seed = document->has_wide_seed ? document->wide_seed : (uint64_t)number;
  request->sampling.has_seed = number != -1;
  return YK_OK;
}
