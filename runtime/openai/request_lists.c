#include "openai/request_lists.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "openai/values.h"

static yk_status read_prompt(const char *name, yk_json value, yk_openai_prompt *prompt, yk_err *err)
{
  if (yk_json_is(value, YK_JSON_ARRAY)) return yk_value_read_ids(name, value, &prompt->ids, &prompt->n_ids, err);
  if (!yk_json_is(value, YK_JSON_STRING))
    return yk_json_wrong_type(NULL, name, "a string, an array of token ids, or an array of these", value, err);
  prompt->text = yk_json_text(value);
  prompt->n_bytes = yk_json_length(value);
  return YK_OK;
}

/* Checks that all elements are texts, or all are ids. */
static yk_status check_alike(const char *name, yk_json list, yk_err *err)
{
  yk_json_kind kind = yk_json_kind_of(yk_json_first(list));
  size_t i = 0;
  YK_JSON_EACH(prompt, list)
  {
    if (yk_json_is(prompt, YK_JSON_STRING) != (kind == YK_JSON_STRING))
      return yk_err_set(err, YK_E_FORMAT,
                        "key \"%s\": expected texts or arrays of token ids, found both: %s at 0, %s at %zu", name,
                        yk_json_type_name(yk_json_first(list)), yk_json_type_name(prompt), i);
    i++;
  }
  return YK_OK;
}

yk_status yk_request_read_prompts(yk_openai_request *request, const char *name, yk_json value, yk_err *err)
{
  yk_json first = yk_json_first(value);
  bool is_list = yk_json_is(first, YK_JSON_STRING) || yk_json_is(first, YK_JSON_ARRAY);
  size_t n = is_list ? yk_json_size(value) : 1;
  size_t n_most = request->form == YK_FORM_EMBEDDING ? YK_OPENAI_MAX_INPUTS : YK_OPENAI_MAX_CHOICES;
  if (n > n_most) return yk_err_set(err, YK_E_INVAL, "%s: expected at most %zu prompts, found %zu", name, n_most, n);
  request->prompts = calloc(n, sizeof *request->prompts);
  if (!request->prompts) return yk_err_set(err, YK_E_NOMEM, "no memory for %zu prompts", n);
  request->n_prompts = n;
  if (!is_list) return read_prompt(name, value, &request->prompts[0], err);
  size_t i = 0;
  YK_JSON_EACH(prompt, value)
  {
    char element[64];
    snprintf(element, sizeof element, "%s[%zu]", name, i);
    YK_TRY(read_prompt(element, prompt, &request->prompts[i++], err));
  }
  return check_alike(name, value, err);
}

/* The error for a value of a list, or in place of a list. */
static yk_status wrong_element(const char *name, bool is_in_list, size_t i, const char *expected, yk_json found,
                               yk_err *err)
{
  char element[64];
  snprintf(element, sizeof element, is_in_list ? "%s[%zu]" : "%s", name, i);
  return yk_json_wrong_type(NULL, element, is_in_list ? "a string" : expected, found, err);
}

yk_status yk_request_read_stop(yk_openai_request *request, yk_json value, yk_err *err)
{
  bool is_list = yk_json_is(value, YK_JSON_ARRAY);
  size_t n = is_list ? yk_json_size(value) : 1;
  request->stop_strings = calloc(n + 1, sizeof *request->stop_strings);
  if (!request->stop_strings) return yk_err_set(err, YK_E_NOMEM, "stop: no memory for %zu strings", n);
  yk_json text = is_list ? yk_json_first(value) : value;
  for (size_t i = 0; i < n; i++) {
    if (!yk_json_is(text, YK_JSON_STRING))
      return wrong_element("stop", is_list, i, "a string or an array of strings", text, err);
    if (yk_json_length(text) == 0 || strlen(yk_json_text(text)) != yk_json_length(text))
      return yk_err_set(err, YK_E_INVAL, "stop: expected texts that are not empty and hold no NUL character");
    request->stop_strings[i] = yk_json_text(text);
    if (is_list) text = yk_json_after(value, text);
  }
  request->sampling.stop_strings = request->stop_strings;
  request->sampling.n_stop_strings = n;
  return YK_OK;
}

yk_status yk_request_read_bad_words(yk_openai_request *request, yk_json value, yk_err *err)
{
  if (!yk_json_is(value, YK_JSON_ARRAY)) return yk_json_wrong_type(NULL, "bad_words", "an array of texts", value, err);
  size_t i = 0;
  YK_JSON_EACH(word, value)
  {
    if (!yk_json_is(word, YK_JSON_STRING)) return wrong_element("bad_words", true, i, "a string", word, err);
    if (yk_json_length(word) == strspn(yk_json_text(word), " "))
      return yk_err_set(err, YK_E_INVAL, "bad_words: expected texts of more than spaces");
    i++;
  }
  request->bad_words = calloc(2 * yk_json_size(value) + 1, sizeof *request->bad_words);
  return request->bad_words ? YK_OK : yk_err_set(err, YK_E_NOMEM, "bad_words: no memory for %zu", yk_json_size(value));
}

/* Appends one sequence to the request's bad words. */
static yk_status encode_bad_word(yk_openai_request *request, const yk_engine *engine, const char *text, size_t n_bytes,
                                 yk_err *err)
{
  yk_token_ids *word = &request->bad_words[request->sampling.n_bad_words];
  int32_t *ids;
  yk_status status = yk_engine_tokenize(engine, text, n_bytes, false, &ids, &word->n_ids, err);
  if (status != YK_OK) {
    yk_err_prefix(err, "bad_words");
    return status;
  }
  word->ids = ids;
  request->sampling.n_bad_words++;
  return YK_OK;
}

/* After a space the word may have a different first token, with the same number of tokens. */
static bool is_another_word(const yk_token_ids *alone, const yk_token_ids *behind)
{
  return behind->n_ids == alone->n_ids && behind->n_ids > 0 && behind->ids[0] != alone->ids[0];
}

yk_status yk_request_encode_bad_words(yk_openai_request *request, const yk_engine *engine, yk_err *err)
{
  yk_strbuf text = YK_STRBUF_INIT;
  yk_status status = YK_OK;
  yk_sampling *s = &request->sampling;
  YK_JSON_EACH(word, yk_json_get(request->object, "bad_words"))
  {
    const char *letters = yk_json_text(word) + strspn(yk_json_text(word), " ");
    yk_strbuf_clear(&text);
    yk_strbuf_append_str(&text, " ");
    yk_strbuf_append(&text, letters, yk_json_length(word) - (size_t)(letters - yk_json_text(word)));
    if (text.failed) status = yk_err_set(err, YK_E_NOMEM, "bad_words: no memory");
    if (status == YK_OK) status = encode_bad_word(request, engine, text.data + 1, text.length - 1, err);
    if (status == YK_OK) status = encode_bad_word(request, engine, text.data, text.length, err);
    if (status != YK_OK) break;
    yk_token_ids *behind = &request->bad_words[s->n_bad_words - 1];
    if (is_another_word(behind - 1, behind)) continue;
    free((void *)(uintptr_t)behind->ids);
    *behind = (yk_token_ids){0};
    s->n_bad_words--;
  }
  yk_strbuf_free(&text);
  s->bad_words = request->bad_words;
  return status;
}

yk_status yk_request_read_stop_ids(yk_openai_request *request, yk_json value, yk_err *err)
{
  YK_TRY(yk_value_read_ids("stop_token_ids", value, &request->stop_ids, &request->sampling.n_stop_ids, err));
  request->sampling.stop_ids = request->stop_ids;
  return YK_OK;
}

yk_status yk_request_read_logprob_ids(yk_openai_request *request, yk_json value, yk_err *err)
{
  yk_sampling *s = &request->sampling;
  YK_TRY(yk_value_read_ids("logprob_token_ids", value, &request->logprob_ids, &s->n_logprob_ids, err));
  s->logprob_ids = request->logprob_ids;
  return YK_OK;
}

yk_status yk_request_read_biases(yk_openai_request *request, yk_json value, yk_err *err)
{
  if (!yk_json_is(value, YK_JSON_OBJECT))
    return yk_json_wrong_type(NULL, "logit_bias", "an object of token ids and biases", value, err);
  size_t n = 0;
  request->biases = malloc((yk_json_size(value) + 1) * sizeof *request->biases);
  if (!request->biases) return yk_err_set(err, YK_E_NOMEM, "logit_bias: no memory for its entries");
  YK_JSON_EACH_KEY(key, value)
  {
    const char *id = yk_json_text(key);
    size_t length = yk_json_length(key);
    if (length == 0 || length > 9 || strspn(id, "0123456789") != length)
      return yk_err_set(err, YK_E_INVAL, "logit_bias: expected token ids as keys, found \"%.40s\"", id);
    request->biases[n].token_id = (int32_t)strtol(id, NULL, 10);
    char name[64];
    snprintf(name, sizeof name, "logit_bias.%s", id);
    YK_TRY(yk_value_read_f32(name, yk_json_member(key), &request->biases[n++].bias, err));
  }
  request->sampling.biases = request->biases;
  request->sampling.n_biases = n;
  return YK_OK;
}

yk_status yk_request_read_seed(yk_openai_request *request, yk_json value, yk_err *err)
{
  yk_sampling *sampling = &request->sampling;
  int64_t number = 0;
  if (!yk_json_to_u64(value, &sampling->seed)) {
    bool is_negative = yk_json_to_i64(value, &number);
    if (!is_negative && yk_json_is_integer(value))
      return yk_err_set(err, YK_E_FORMAT, "key \"seed\": expected -2^63 to 2^64 - 1, found %.40s", yk_json_text(value));
    if (!is_negative) return yk_json_wrong_type(NULL, "seed", "an integer", value, err);
    sampling->seed = (uint64_t)number;
  }
  sampling->has_seed = number != -1;
  return YK_OK;
}
