/* Any bytes are a body of a protocol or an error in the protocol's form. An accepted body must be answered in JSON.
 *
 * The first byte chooses the protocol, the second the form of calls and whether the answer ends early. An accepted body
 * gets outputs whose texts are the body's own bytes, so that they are searched for reasoning and calls. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"
#include "openai/answer.h"
#include "openai/answer_write.h"
#include "openai/protocol.h"
#include "tests/unit/openai_defaults.h"

enum { MAX_ANSWERED_CHOICES = 8, MAX_BODY_BYTES = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void require(bool condition)
{
  if (!condition) abort();
}

/* Numbers that an answer copies from the body may exceed every type, such as 1e400. */
static void require_json(const char *text, size_t n_bytes)
{
  yk_json_doc *value = NULL;
  require(yk_json_parse("text", text, n_bytes, NULL, &value, NULL) == YK_OK);
  yk_json_free(value);
}

static void check_error(const yk_protocol *protocol, const yk_err *err, yk_status status, const char *param)
{
  yk_openai_error error;
  yk_strbuf out = YK_STRBUF_INIT;
  require(err->code == status && err->message[0] != '\0');
  yk_protocol_error_of(protocol, err, param, &error);
  require(error.http_status == 400);
  protocol->append_error(&error, &out);
  require_json(out.data, out.length);
  yk_strbuf_free(&out);
}

/* Every line of data is JSON, or the end of a stream of OpenAI's older protocols. */
static void check_events(const char *text)
{
  static const char data[] = "data: ", event[] = "event: ", done[] = "data: [DONE]";
  while (*text) {
    const char *end = strchr(text, '\n');
    require(end != NULL);
    size_t n_bytes = (size_t)(end - text);
    bool is_data = strncmp(text, data, strlen(data)) == 0;
    require(is_data || n_bytes == 0 || strncmp(text, event, strlen(event)) == 0);
    if (is_data && strncmp(text, done, strlen(done)) != 0) require_json(text + strlen(data), n_bytes - strlen(data));
    text = end + 1;
  }
}

static size_t characters(const char *text, size_t n_bytes, size_t n_most)
{
  size_t n = 0;
  for (uint32_t character; n < n_bytes && n < n_most;) n += yk_utf8_decode(text + n, n_bytes - n, &character);
  return n;
}

/* One token per few characters of the text, then the end. */
static void push_all(yk_openai_answer *answer, size_t choice, const char *text, size_t n_bytes, yk_strbuf *out)
{
  static const float numbers[] = {1, -0.5f, 1e-38f};
  const yk_request_usage usage = {.struct_size = sizeof usage, .reused_tokens = 1};
  yk_output output = {.has_token = true, .token_id = 3};
  for (size_t at = 0; at < n_bytes; at += output.text_bytes) {
    output.text = text + at;
    output.text_bytes = characters(text + at, n_bytes - at, 1 + at % 7);
    output.token_id++;
    require(yk_openai_answer_push(answer, choice, &output, at ? NULL : &usage, at % 5 == 0, out, NULL) == YK_OK);
    if (at % 3 == 0) require(yk_openai_answer_flush(answer, choice, out, NULL) == YK_OK);
  }
  output = (yk_output){.finish = YK_FINISH_STOP, .text = "", .embedding = numbers, .n_embedding = 1 + n_bytes % 3};
  require(yk_openai_answer_push(answer, choice, &output, &usage, false, out, NULL) == YK_OK);
}

/* fails: the engine fails after the first choice of a stream. */
static void answer_request(yk_openai_request *request, const char *text, size_t n_bytes, bool fails)
{
  yk_strbuf out = YK_STRBUF_INIT;
  yk_token_texts *texts;
  yk_openai_answer *answer;
  const bool embeds = request->form == YK_FORM_EMBEDDING;
  for (size_t i = 0; i < request->n_prompts; i++) {
    if (request->prompts[i].ids) continue;
    request->prompts[i].ids = calloc(1, sizeof(int32_t));
    request->prompts[i].n_ids = 1;
  }
  require(yk_token_texts_create(NULL, &texts, NULL) == YK_OK);
  const yk_openai_answer_options options = {.id = "resp_1", .model = "m", .texts = texts, .has_text = true};
  require(yk_openai_answer_create(request, &options, &answer, NULL) == YK_OK);
  for (size_t i = 0; i < yk_openai_request_choices(request) && !request->is_empty; i++)
    push_all(answer, i, text, i < MAX_ANSWERED_CHOICES && !embeds ? n_bytes : 0, &out);
  if (request->stream && fails) {
    yk_openai_error error;
    yk_openai_error_http(&error, 500, NULL, NULL, "failed");
    yk_openai_answer_fail(answer, &error, &out);
  } else {
    require(yk_openai_answer_finish(answer, &out, NULL) == YK_OK);
  }
  if (request->stream)
    check_events(out.length ? out.data : "");
  else
    require_json(out.data, out.length);
  yk_openai_answer_free(answer);
  yk_token_texts_free(texts);
  yk_strbuf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
  static const yk_protocol *const protocols[] = {&yk_protocol_responses, &yk_protocol_messages,
                                                 &yk_protocol_messages_count, &yk_protocol_embeddings};
  if (n_bytes < 2) return 0;
  const char *body = (const char *)data + 2;
  const size_t n_body = n_bytes - 2;
  const yk_protocol *protocol = protocols[data[0] % 4];
  yk_openai_defaults defaults = openai_defaults(data[1] & 1 ? YK_TOOLS_HERMES : YK_TOOLS_LLAMA3_JSON);
  defaults.style.reasoning = data[1] & 2 ? yk_reasoning_find("qwen3") : NULL;
  yk_err err = YK_ERR_INIT;
  yk_openai_request request;
  yk_status status = yk_protocol_parse(protocol, body, n_body, MAX_BODY_BYTES, &defaults, &request, &err);
  if (status == YK_OK) {
    require(request.param[0] == '\0');
    require(request.is_empty || request.n_prompts > 0);
    if (data[1] & 4) require(yk_openai_request_drop_body(&request, NULL) == YK_OK);
    answer_request(&request, body, yk_utf8_valid_bytes(body, n_body), data[1] & 8);
  } else {
    check_error(protocol, &err, status, request.param);
  }
  yk_openai_request_free(&request);
  return 0;
}
