/* Any bytes are a body or an error with a message. An accepted body must be answered in JSON.
 *
 * The first byte chooses the form, the tool calls' format and whether the answer streams its tokens one by one. An
 * accepted body gets outputs whose texts are the body's own bytes, so that they are searched for tool calls. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_tree.h"
#include "base/utf8.h"
#include "openai/answer.h"
#include "openai/tokens.h"
#include "tests/unit/openai_defaults.h"

enum { MAX_ANSWERED_CHOICES = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void require(bool condition)
{
  if (!condition) abort();
}

/* The error object is JSON for any quoted input. */
static void check_error(const yk_err *err, yk_status status, const char *param)
{
  yk_openai_error error;
  yk_strbuf out = YK_STRBUF_INIT;
  json_t *value;
  require(err->code == status && err->message[0] != '\0');
  yk_openai_error_of(err, param, &error);
  require(error.http_status == 400);
  yk_openai_error_append(&error, &out);
  require(yk_tree_parse("error", out.data, out.length, &value, NULL) == YK_OK);
  json_decref(value);
  yk_strbuf_free(&out);
}

/* Every event is a line of JSON, or the last. */
static void check_events(const char *text)
{
  while (*text) {
    json_t *value = NULL;
    const char *end = strstr(text, "\n\n");
    require(end && strncmp(text, "data: ", 6) == 0);
    bool is_last = strncmp(text, "data: [DONE]\n\n", 14) == 0;
    require(is_last ? end[2] == '\0'
                    : yk_tree_parse("event", text + 6, (size_t)(end - text) - 6, &value, NULL) == YK_OK);
    json_decref(value);
    text = end + 2;
  }
}

static size_t characters(const char *text, size_t n_bytes, size_t n_most)
{
  size_t n = 0;
  for (uint32_t character; n < n_bytes && n < n_most;) n += yk_utf8_decode(text + n, n_bytes - n, &character);
  return n;
}

/* One token per few characters of the text, then the end. */
static void push_all(yk_openai_answer *answer, size_t choice, const yk_openai_request *request, const char *text,
                     size_t n_bytes, yk_strbuf *out)
{
  static const int32_t top_id;
  static const float top_logprob;
  yk_output output = {.is_prompt = true,
                      .has_token = true,
                      .token_id = 3,
                      .top_ids = &top_id,
                      .top_logprobs = &top_logprob,
                      .text = ""};
  if (request->sampling.n_prompt_logprobs >= 0)
    require(yk_openai_answer_push(answer, choice, &output, NULL, false, out, NULL) == YK_OK);
  output.is_prompt = false;
  for (size_t at = 0; at < n_bytes; at += output.text_bytes) {
    output.text = text + at;
    output.text_bytes = characters(text + at, n_bytes - at, 1 + at % 7);
    output.n_top = request->sampling.n_logprobs > 0 ? 1 : 0;
    output.token_id++;
    require(yk_openai_answer_push(answer, choice, &output, NULL, at % 5 == 0, out, NULL) == YK_OK);
    if (at % 3 == 0) require(yk_openai_answer_flush(answer, choice, out, NULL) == YK_OK);
  }
  output = (yk_output){.finish = YK_FINISH_STOP, .text = ""};
  require(yk_openai_answer_push(answer, choice, &output, NULL, false, out, NULL) == YK_OK);
}

static void answer_request(yk_openai_request *request, const char *text, size_t n_bytes)
{
  yk_strbuf out = YK_STRBUF_INIT;
  yk_token_texts *texts;
  yk_openai_answer *answer;
  for (size_t i = 0; i < request->n_prompts; i++) {
    if (request->prompts[i].ids) continue;
    request->prompts[i].ids = calloc(1, sizeof(int32_t));
    request->prompts[i].n_ids = 1;
  }
  require(yk_token_texts_create(NULL, &texts, NULL) == YK_OK);
  const yk_openai_answer_options options = {.id = "chatcmpl-1", .model = "m", .texts = texts, .has_text = true};
  require(yk_openai_answer_create(request, &options, &answer, NULL) == YK_OK);
  for (size_t i = 0; i < yk_openai_request_choices(request); i++)
    push_all(answer, i, request, text, i < MAX_ANSWERED_CHOICES ? n_bytes : 0, &out);
  require(yk_openai_answer_finish(answer, &out, NULL) == YK_OK);
  if (request->stream) {
    check_events(out.data);
  } else {
    json_t *value;
    require(yk_tree_parse("answer", out.data, out.length, &value, NULL) == YK_OK);
    json_decref(value);
  }
  yk_openai_answer_free(answer);
  yk_token_texts_free(texts);
  yk_strbuf_free(&out);
}

/* body: parsed again, because the request takes ownership of its document. */
static void check_request(const char *body, size_t n_body, unsigned choice, size_t n_bytes)
{
  static const yk_openai_form forms[] = {YK_FORM_COMPLETION, YK_FORM_CHAT, YK_FORM_PLAIN};
  yk_openai_defaults defaults = openai_defaults(choice & 8 ? YK_TOOLS_HERMES : YK_TOOLS_LLAMA3_JSON);
  defaults.can_stream = choice & 4;
  yk_err err = YK_ERR_INIT;
  yk_openai_request request;
  yk_openai_form form = forms[choice % 3];
  yk_json_rules rules = yk_openai_body_rules(form, n_body);
  yk_json_doc *document;
  require(yk_json_parse("body", body, n_body, &rules, &document, NULL) == YK_OK);
  yk_status status = yk_openai_request_parse(document, yk_json_root(document), form, &defaults, &request, &err);
  if (status == YK_OK) {
    require(request.n_prompts > 0 && yk_openai_request_choices(&request) <= YK_OPENAI_MAX_CHOICES);
    require(request.param[0] == '\0');
    if (choice & 16) require(yk_openai_request_drop_body(&request, NULL) == YK_OK);
    answer_request(&request, body, n_bytes);
  } else {
    check_error(&err, status, request.param);
  }
  yk_openai_request_free(&request);
}

static void check_token_forms(yk_json root)
{
  yk_err err = YK_ERR_INIT;
  yk_tokenize_request tokenize;
  yk_detokenize_request detokenize;
  yk_status status = yk_tokenize_request_parse(root, &tokenize, &err);
  if (status != YK_OK) check_error(&err, status, tokenize.param);
  yk_err_clear(&err);
  status = yk_detokenize_request_parse(root, &detokenize, &err);
  if (status != YK_OK) check_error(&err, status, detokenize.param);
  free(detokenize.ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
  if (n_bytes == 0) return 0;
  const char *text = (const char *)data + 1;
  yk_json_rules rules = yk_tokens_body_rules(n_bytes);
  yk_json_doc *document = NULL;
  yk_err err = YK_ERR_INIT;
  yk_status status = yk_json_parse("body", text, n_bytes - 1, &rules, &document, &err);
  if (status == YK_OK) {
    size_t n_text = yk_utf8_valid_bytes(text, n_bytes - 1);
    check_request(text, n_bytes - 1, data[0], n_text);
    check_token_forms(yk_json_root(document));
  } else {
    check_error(&err, status, NULL);
  }
  yk_json_free(document);
  return 0;
}
