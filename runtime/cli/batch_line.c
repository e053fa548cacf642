#include "cli/batch_line.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/jsonl.h"
#include "cli/options.h"
#include "cli/wide_seed.h"

/* What the keys of a request mean. A key that is not here is refused: a mistyped one must not go unnoticed in a hundred
 * thousand lines.                                                                                                    */
typedef enum key_kind {
  KEY_F32, /* a yk_sampling member at offset; the engine checks ranges */
  KEY_I32,
  KEY_FLAG,
  KEY_MAX_TOKENS,
  KEY_SEED,
  KEY_STOP,
  KEY_STOP_IDS,
  KEY_BIAS,
  KEY_PROMPT,
  KEY_SAMPLES,
  KEY_BEST_OF,
  KEY_ID,        /* plain lines only */
  KEY_TOKEN_IDS, /* the rest: OpenAI lines only */
  KEY_MODEL,
  KEY_IGNORED,
  KEY_OFF /* only false or null: what it asks for is not done */
} key_kind;

static const struct {
  const char *name;
  key_kind kind;
  size_t offset;
} keys[] = {
    {"prompt", KEY_PROMPT, 0},
    {"max_tokens", KEY_MAX_TOKENS, offsetof(yk_sampling, max_tokens)},
    {"temperature", KEY_F32, offsetof(yk_sampling, temperature)},
    {"top_p", KEY_F32, offsetof(yk_sampling, top_p)},
    {"min_p", KEY_F32, offsetof(yk_sampling, min_p)},
    {"top_k", KEY_I32, offsetof(yk_sampling, top_k)},
    {"n", KEY_SAMPLES, 0},
    {"stop", KEY_STOP, 0},
    {"seed", KEY_SEED, 0},
    {"logprobs", KEY_I32, offsetof(yk_sampling, n_logprobs)},
    {"prompt_logprobs", KEY_I32, offsetof(yk_sampling, n_prompt_logprobs)},
    {"logit_bias", KEY_BIAS, 0},
    {"repetition_penalty", KEY_F32, offsetof(yk_sampling, repetition_penalty)},
    {"presence_penalty", KEY_F32, offsetof(yk_sampling, presence_penalty)},
    {"frequency_penalty", KEY_F32, offsetof(yk_sampling, frequency_penalty)},
    {"min_tokens", KEY_I32, offsetof(yk_sampling, min_tokens)},
    {"ignore_eos", KEY_FLAG, offsetof(yk_sampling, ignore_eos)},
    {"stop_token_ids", KEY_STOP_IDS, 0},
    {"id", KEY_ID, 0},
    {"custom_id", KEY_ID, 0},
    {"model", KEY_MODEL, 0},
    {"user", KEY_IGNORED, 0},
    {"best_of", KEY_BEST_OF, 0},
    {"return_token_ids", KEY_TOKEN_IDS, 0},
    {"echo", KEY_OFF, 0},
    {"stream", KEY_OFF, 0},
    {"stream_options", KEY_OFF, 0},
    {"suffix", KEY_OFF, 0},
};

enum { N_KEYS = sizeof keys / sizeof keys[0] };

/* ---- Values ------------------------------------------------------------------------------------------------------ */

static yk_status wrong_type(const char *key, const char *expected, const json_t *value, yk_err *err)
{
  return yk_err_set(err, YK_E_FORMAT, "key \"%s\": expected %s, found %s", key, expected, yk_json_type_name(value));
}

static yk_status read_i64(const char *key, const json_t *value, int64_t min, int64_t max, int64_t *out, yk_err *err)
{
  double number = json_number_value(value);
  if (json_is_integer(value))
    *out = json_integer_value(value);
  else if (json_is_real(value) && fabs(number) < 0x1p53 && number == floor(number))
    *out = (int64_t)number; /* some programs write 10.0 */
  else
    return wrong_type(key, "an integer", value, err);
  if (*out >= min && *out <= max) return YK_OK;
  return yk_err_set(err, YK_E_INVAL, "%s: expected %lld to %lld, found %lld", key, (long long)min, (long long)max,
                    (long long)*out);
}

static yk_status read_i32(const char *key, const json_t *value, int32_t min, int32_t max, int32_t *out, yk_err *err)
{
  int64_t number;
  YK_TRY(read_i64(key, value, min, max, &number, err));
  *out = (int32_t)number;
  return YK_OK;
}

/* The range is that of float; what the engine takes is narrower and named by it. */
static yk_status read_f32(const char *key, const json_t *value, float *out, yk_err *err)
{
  if (!json_is_number(value)) return wrong_type(key, "a number", value, err);
  double number = json_number_value(value);
  if (!(number >= -1e30 && number <= 1e30))
    return yk_err_set(err, YK_E_INVAL, "%s: expected a number of ordinary size, found %g", key, number);
  *out = (float)number;
  return YK_OK;
}

static yk_status read_flag(const char *key, const json_t *value, bool *out, yk_err *err)
{
  if (!json_is_boolean(value)) return wrong_type(key, "true or false", value, err);
  *out = json_is_true(value);
  return YK_OK;
}

/* An array of token ids into malloc'd memory. */
static yk_status read_ids(const char *key, const json_t *array, int32_t **out, size_t *n_out, yk_err *err)
{
  size_t n = json_array_size(array);
  if (!json_is_array(array)) return wrong_type(key, "an array of token ids", array, err);
  int32_t *ids = malloc((n + 1) * sizeof *ids);
  if (!ids) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for %zu ids", key, n);
  free(*out);
  *out = ids;
  *n_out = n;
  for (size_t i = 0; i < n; i++) YK_TRY(read_i32(key, json_array_get(array, i), 0, INT32_MAX, &ids[i], err));
  return YK_OK;
}

/* -1 stands for none, as in vLLM. */
static yk_status read_seed(yk_batch_line *line, const json_t *value, yk_err *err)
{
  int64_t number = 0;
  if (!line->has_wide_seed) YK_TRY(read_i64("seed", value, INT64_MIN, INT64_MAX, &number, err));
  if (number < -1)
    return yk_err_set(err, YK_E_INVAL, "seed: expected 0 to 2^64 - 1, or -1 for none, found %lld", (long long)number);
  line->sampling.seed = line->has_wide_seed ? line->wide_seed : (uint64_t)number;
  line->sampling.has_seed = number != -1;
  return YK_OK;
}

static yk_status read_stop(yk_batch_line *line, const json_t *value, yk_err *err)
{
  size_t n = json_is_array(value) ? json_array_size(value) : 1;
  line->stop_strings = calloc(n + 1, sizeof *line->stop_strings);
  if (!line->stop_strings) return yk_err_set(err, YK_E_NOMEM, "stop: no memory for %zu strings", n);
  for (size_t i = 0; i < n; i++) {
    const json_t *text = json_is_array(value) ? json_array_get(value, i) : value;
    if (!json_is_string(text)) return wrong_type("stop", "a string or an array of strings", text, err);
    if (json_string_length(text) == 0 || strlen(json_string_value(text)) != json_string_length(text))
      return yk_err_set(err, YK_E_INVAL, "stop: expected texts that are not empty and hold no NUL character");
    line->stop_strings[i] = json_string_value(text);
  }
  line->sampling.stop_strings = line->stop_strings;
  line->sampling.n_stop_strings = n;
  return YK_OK;
}

/* {"50256": -100, ...} */
static yk_status read_biases(yk_batch_line *line, json_t *value, yk_err *err)
{
  if (!json_is_object(value)) return wrong_type("logit_bias", "an object of token ids and biases", value, err);
  size_t n = 0;
  line->biases = malloc((json_object_size(value) + 1) * sizeof *line->biases);
  if (!line->biases) return yk_err_set(err, YK_E_NOMEM, "logit_bias: no memory for its entries");
  const char *id;
  json_t *bias;
  json_object_foreach(value, id, bias)
  {
    size_t length = strlen(id);
    if (length == 0 || length > 9 || strspn(id, "0123456789") != length)
      return yk_err_set(err, YK_E_INVAL, "logit_bias: expected token ids as keys, found \"%.40s\"", id);
    line->biases[n].token_id = (int32_t)strtol(id, NULL, 10);
    YK_TRY(read_f32("logit_bias", bias, &line->biases[n++].bias, err));
  }
  line->sampling.biases = line->biases;
  line->sampling.n_biases = n;
  return YK_OK;
}

static yk_status read_prompt(const json_t *value, yk_batch_prompt *prompt, yk_err *err)
{
  if (json_is_array(value)) return read_ids("prompt", value, &prompt->ids, &prompt->n_ids, err);
  if (!json_is_string(value))
    return wrong_type("prompt", "a string, an array of token ids, or an array of these", value, err);
  prompt->text = json_string_value(value);
  prompt->n_bytes = json_string_length(value);
  return YK_OK;
}

/* One prompt, or a list of prompts: of strings, or of arrays of ids. */
static yk_status read_prompts(yk_batch_line *line, const json_t *value, yk_err *err)
{
  const json_t *first = json_array_get(value, 0);
  bool is_list = json_is_string(first) || json_is_array(first);
  size_t n = is_list ? json_array_size(value) : 1;
  if (n > YK_BATCH_MAX_REQUESTS)
    return yk_err_set(err, YK_E_INVAL, "prompt: expected at most %d prompts, found %zu", YK_BATCH_MAX_REQUESTS, n);
  line->prompts = calloc(n, sizeof *line->prompts);
  if (!line->prompts) return yk_err_set(err, YK_E_NOMEM, "no memory for %zu prompts", n);
  line->n_prompts = n;
  for (size_t i = 0; i < n; i++)
    YK_TRY(read_prompt(is_list ? json_array_get(value, i) : value, &line->prompts[i], err));
  return YK_OK;
}

/* ---- Keys -------------------------------------------------------------------------------------------------------- */

static yk_status unknown_key(const char *name, const char *const *names, size_t n_names, yk_err *err)
{
  const char *nearest = yk_name_nearest(name, names, n_names);
  if (nearest) return yk_err_set(err, YK_E_INVAL, "unknown key \"%.80s\"; did you mean \"%s\"?", name, nearest);
  return yk_err_set(err, YK_E_INVAL, "unknown key \"%.80s\"", name);
}

static bool key_applies(key_kind kind, yk_batch_form form)
{
  return form == YK_BATCH_PLAIN ? kind <= KEY_ID : kind != KEY_ID;
}

static int find_key(const char *name, yk_batch_form form, yk_err *err)
{
  const char *names[N_KEYS];
  for (int i = 0; i < N_KEYS; i++) {
    names[i] = key_applies(keys[i].kind, form) ? keys[i].name : NULL;
    if (names[i] && strcmp(name, names[i]) == 0) return i;
  }
  unknown_key(name, names, N_KEYS, err);
  return -1;
}

/* null means that the key is not given. */
static yk_status read_key(yk_batch_line *line, int key, json_t *value, yk_err *err)
{
  const char *name = keys[key].name;
  void *member = (char *)&line->sampling + keys[key].offset;
  switch (keys[key].kind) {
  case KEY_F32: return read_f32(name, value, member, err);
  case KEY_MAX_TOKENS: line->has_max_tokens = true; return read_i32(name, value, -1, INT32_MAX, member, err);
  case KEY_I32: return read_i32(name, value, INT32_MIN, INT32_MAX, member, err);
  case KEY_FLAG: return read_flag(name, value, member, err);
  case KEY_SEED: return read_seed(line, value, err);
  case KEY_STOP: return read_stop(line, value, err);
  case KEY_STOP_IDS:
    YK_TRY(read_ids(name, value, &line->stop_ids, &line->sampling.n_stop_ids, err));
    line->sampling.stop_ids = line->stop_ids;
    return YK_OK;
  case KEY_BIAS: return read_biases(line, value, err);
  case KEY_PROMPT: return read_prompts(line, value, err);
  case KEY_SAMPLES: return read_i32(name, value, 1, YK_MAX_SAMPLES, &line->n_samples, err);
  case KEY_TOKEN_IDS: return read_flag(name, value, &line->ticket.return_token_ids, err);
  case KEY_MODEL:
    if (!json_is_string(value)) return wrong_type(name, "a string", value, err);
    line->ticket.model = json_incref(value);
    return YK_OK;
  case KEY_OFF:
    if (json_is_false(value)) return YK_OK;
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: not available in a batch; leave it out", name);
  case KEY_BEST_OF: /* compared with n at the end */
  case KEY_ID:
  case KEY_IGNORED: return YK_OK;
  }
  return yk_err_set(err, YK_E_INTERNAL, "%s: no reader", name);
}

static yk_status read_request(yk_batch_line *line, json_t *object, yk_err *err)
{
  const char *name;
  json_t *value;
  if (!json_is_object(object)) return wrong_type("body", "an object", object, err);
  json_object_foreach(object, name, value)
  {
    int key = find_key(name, line->ticket.form, err);
    if (key < 0) return err->code;
    if (!json_is_null(value)) YK_TRY(read_key(line, key, value, err));
  }
  if (line->n_prompts == 0) return yk_err_set(err, YK_E_INVAL, "key \"prompt\": expected, but missing");
  const json_t *best_of = json_object_get(object, "best_of");
  if (best_of && !json_is_null(best_of) && json_integer_value(best_of) != line->n_samples)
    return yk_err_set(err, YK_E_UNSUPPORTED, "best_of: expected the same as n (%d), or to be left out",
                      line->n_samples);
  if (line->n_prompts * (size_t)line->n_samples > YK_BATCH_MAX_REQUESTS)
    return yk_err_set(err, YK_E_INVAL, "n times the number of prompts: expected at most %d, found %zu",
                      YK_BATCH_MAX_REQUESTS, line->n_prompts * (size_t)line->n_samples);
  return YK_OK;
}

/* ---- Lines ------------------------------------------------------------------------------------------------------- */

static yk_status read_openai(yk_batch_line *line, yk_err *err)
{
  static const char *const names[] = {"custom_id", "method", "url", "body"};
  const char *name;
  json_t *value;
  json_object_foreach(line->root, name, value)
  {
    bool known = false;
    for (size_t i = 0; i < 4; i++) known |= strcmp(name, names[i]) == 0;
    if (!known) return unknown_key(name, names, 4, err);
  }
  json_t *method = json_object_get(line->root, "method"), *url = json_object_get(line->root, "url");
  if (!json_is_string(line->ticket.id)) return wrong_type("custom_id", "a string", line->ticket.id, err);
  if (!json_is_string(method) || strcmp(json_string_value(method), "POST") != 0)
    return yk_err_set(err, YK_E_INVAL, "method: expected \"POST\"");
  if (!json_is_string(url)) return wrong_type("url", "a string", url, err);
  if (strcmp(json_string_value(url), "/v1/chat/completions") == 0)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "url: /v1/chat/completions needs chat templates, which are not available; "
                      "expected /v1/completions with the whole prompt as text");
  if (strcmp(json_string_value(url), "/v1/completions") != 0)
    return yk_err_set(err, YK_E_UNSUPPORTED, "url: expected /v1/completions, found \"%.80s\"", json_string_value(url));
  return read_request(line, json_object_get(line->root, "body"), err);
}

static yk_status read_plain(yk_batch_line *line, yk_err *err)
{
  const json_t *id = line->ticket.id;
  if (json_object_get(line->root, "id") && json_object_get(line->root, "custom_id"))
    return yk_err_set(err, YK_E_INVAL, "expected one of the keys \"id\" and \"custom_id\", found both");
  if (!json_is_string(id) && !json_is_integer(id) && !json_is_null(id))
    return wrong_type(line->ticket.id_key, "a string or an integer", id, err);
  return read_request(line, line->root, err);
}

/* The form and the id first: an error object wants them too. */
static void read_ticket(yk_batch_ticket *ticket, json_t *root)
{
  json_t *custom_id = json_object_get(root, "custom_id"), *id = json_object_get(root, "id");
  bool is_openai = json_object_get(root, "body") || json_object_get(root, "url") || json_object_get(root, "method");
  ticket->form = is_openai ? YK_BATCH_OPENAI : YK_BATCH_PLAIN;
  ticket->id_key = is_openai || custom_id ? "custom_id" : "id";
  if (!custom_id && !is_openai) custom_id = id;
  if (custom_id) ticket->id = json_incref(custom_id);
}

static yk_status parse_json(yk_batch_line *line, const char *text, size_t n_bytes, yk_err *err)
{
  yk_err refused = YK_ERR_INIT;
  if (yk_json_parse_line(text, n_bytes, &line->root, &refused) == YK_OK) return YK_OK;
  char *copy = malloc(n_bytes + 1);
  if (!copy) return yk_err_set(err, YK_E_NOMEM, "no memory for a line of %zu bytes", n_bytes);
  memcpy(copy, text, n_bytes);
  copy[n_bytes] = '\0';
  yk_status status = yk_wide_seed_take(copy, n_bytes, &line->wide_seed, &line->has_wide_seed, err);
  if (status == YK_OK && line->has_wide_seed)
    status = yk_json_parse_line(copy, n_bytes, &line->root, err);
  else if (status == YK_OK)
    status = yk_err_set(err, refused.code, "%s", refused.message);
  free(copy);
  return status;
}

yk_status yk_batch_line_parse(const char *text, size_t n_bytes, int64_t number, uint32_t hash,
                              const yk_sampling *defaults, const yk_sampling_options *options, yk_batch_line *out,
                              yk_err *err)
{
  *out = (yk_batch_line){
      .n_samples = options->n_samples, .has_max_tokens = options->max_tokens_given, .sampling = *defaults};
  out->ticket = (yk_batch_ticket){.number = number, .hash = hash, .id_key = "id", .id = json_null()};
  YK_TRY(parse_json(out, text, n_bytes, err));
  if (!json_is_object(out->root))
    return yk_err_set(err, YK_E_FORMAT, "expected an object, found %s", yk_json_type_name(out->root));
  read_ticket(&out->ticket, out->root);
  return out->ticket.form == YK_BATCH_OPENAI ? read_openai(out, err) : read_plain(out, err);
}

void yk_batch_ticket_free(yk_batch_ticket *ticket)
{
  json_decref(ticket->id);
  json_decref(ticket->model);
  ticket->id = ticket->model = NULL;
}

void yk_batch_line_free(yk_batch_line *line)
{
  for (size_t i = 0; i < line->n_prompts; i++) free(line->prompts[i].ids);
  free(line->prompts);
  free(line->stop_ids);
  free(line->stop_strings);
  free(line->biases);
  yk_batch_ticket_free(&line->ticket);
  json_decref(line->root);
}
