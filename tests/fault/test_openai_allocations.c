/* An allocation that fails anywhere between a body and its answer gives an error and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_case.h"
#include "fault/counted_alloc.h"
#include "openai/answer.h"
#include "openai/protocol.h"
#include "openai/tokens.h"
#include "unit/openai_defaults.h"
#include "yoke/process.h"

static yk_status push_all(yk_openai_answer *answer, size_t choice, yk_strbuf *out, yk_err *err)
{
  static const char *const texts[] = {
      "I <to",          "<tool_call>{\"x\": {}, \"arguments\"",          ": {\"a\": 1}, \"name\": \"f\"",
      "}</tool_call> ", "<tool_call>{\"name\": \"g\", \"arguments\": {", "} and a long rest of it"};
  static const int32_t top_id;
  static const float top_logprob;
  yk_output output = {
      .is_prompt = true, .has_token = true, .n_top = 1, .top_ids = &top_id, .top_logprobs = &top_logprob, .text = ""};
  YK_TRY(yk_openai_answer_push(answer, choice, &output, NULL, false, out, err));
  output.is_prompt = false;
  for (size_t i = 0; each_case(i, i < sizeof texts / sizeof *texts); i++) {
    output.token_id = (int32_t)i;
    output.text = texts[i];
    output.text_bytes = strlen(texts[i]);
    YK_TRY(yk_openai_answer_push(answer, choice, &output, NULL, i % 2, out, err));
    YK_TRY(yk_openai_answer_flush(answer, choice, out, err));
  }
  output = (yk_output){.finish = YK_FINISH_STOP, .text = ""};
  return yk_openai_answer_push(answer, choice, &output, NULL, false, out, err);
}

static yk_status answer_request(yk_openai_request *request, yk_token_texts *texts, yk_openai_answer **answer,
                                yk_strbuf *out, yk_err *err)
{
  const yk_openai_answer_options options = {
      .id = "chatcmpl-1", .model = "m", .texts = texts, .has_text = true, .with_cached_tokens = true};
  YK_TRY(yk_openai_answer_create(request, &options, answer, err));
  for (size_t i = 0; i < yk_openai_request_choices(request); i++) YK_TRY(push_all(*answer, i, out, err));
  return yk_openai_answer_finish(*answer, out, err);
}

static yk_status use_body(const yk_protocol *protocol, const char *body, yk_err *err)
{
  yk_openai_request request = {0};
  yk_token_texts *texts = NULL;
  yk_openai_answer *answer = NULL;
  yk_strbuf out = YK_STRBUF_INIT;
  const yk_openai_defaults defaults = openai_defaults(YK_TOOLS_HERMES);
  yk_status status = yk_protocol_parse(protocol, body, strlen(body), 1 << 20, &defaults, &request, err);
  if (status == YK_OK) status = yk_openai_request_drop_body(&request, err);
  if (status == YK_OK) status = yk_token_texts_create(NULL, &texts, err);
  if (status == YK_OK) status = answer_request(&request, texts, &answer, &out, err);
  yk_strbuf_free(&out);
  yk_openai_answer_free(answer);
  yk_token_texts_free(texts);
  yk_openai_request_free(&request);
  return status;
}

/* Each allocation fails once. */
static void check(const yk_protocol *protocol, const char *body)
{
  int64_t n_allocations = 1;
  for (int64_t fail_at = 0; fail_at <= n_allocations; fail_at++) {
    yk_err err = YK_ERR_INIT;
    counted_alloc_reset(fail_at);
    yk_status status = use_body(protocol, body, &err);
    if (fail_at == 0) n_allocations = counted_alloc_count();
    counted_alloc_reset(0);
    assert_int_equal(status, fail_at ? YK_E_NOMEM : YK_OK);
    if (fail_at) assert_true(err.message[0] != '\0');
  }
  assert_true(n_allocations > 10);
}

static void completions(void **state)
{
  (void)state;
  check(&yk_protocol_completions,
        "{\"prompt\": [[5, 6], [7]], \"stop\": [\"x\"], \"stop_token_ids\": [1], \"logit_bias\": "
        "{\"5\": 1}, \"echo\": true, \"logprobs\": 2, \"seed\": 18446744073709551615}");
  check(&yk_protocol_completions,
        "{\"prompt\": \"p\", \"n\": 2, \"echo\": true, \"prompt_logprobs\": 2, \"return_token_ids\": true}");
  check(&yk_protocol_completions, "{\"prompt\": [5], \"stream\": true, \"stream_options\": {\"include_usage\": true, "
                                  "\"continuous_usage_stats\": true}, \"logprobs\": 2}");
}

static void chats(void **state)
{
  (void)state;
  check(&yk_protocol_chat,
        "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"n\": 2, \"logprobs\": true, "
        "\"top_logprobs\": 1, \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]}");
  check(&yk_protocol_chat, "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"stream\": true, \"tools\": "
                           "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]}");
}

static void responses(void **state)
{
  (void)state;
#define RESPONSE                                                                                                       \
  "{\"input\": [{\"role\": \"user\", \"content\": \"x\"}, {\"type\": \"function_call\", \"call_id\": \"c\", "          \
  "\"name\": "                                                                                                         \
  "\"f\", \"arguments\": \"{}\"}, {\"type\": \"function_call_output\", \"call_id\": \"c\", \"output\": \"y\"}], "      \
  "\"tools\": [{\"type\": \"function\", \"name\": \"f\"}]"
  check(&yk_protocol_responses, RESPONSE "}");
  check(&yk_protocol_responses, RESPONSE ", \"stream\": true}");
}

static void messages(void **state)
{
  (void)state;
#define MESSAGE                                                                                                        \
  "{\"max_tokens\": 5, \"system\": \"s\", \"messages\": [{\"role\": \"user\", \"content\": \"x\"}, {\"role\": "        \
  "\"assistant\", \"content\": [{\"type\": \"tool_use\", \"id\": \"c\", \"name\": \"f\", \"input\": {}}]}, "           \
  "{\"role\": "                                                                                                        \
  "\"user\", \"content\": [{\"type\": \"tool_result\", \"tool_use_id\": \"c\", \"content\": \"y\"}]}], \"tools\": "    \
  "[{\"name\": \"f\", \"input_schema\": {}}]"
  check(&yk_protocol_messages, MESSAGE "}");
  check(&yk_protocol_messages, MESSAGE ", \"stream\": true}");
}

static void embeddings(void **state)
{
  (void)state;
  check(&yk_protocol_embeddings, "{\"input\": [[5, 6], [7]], \"encoding_format\": \"base64\", \"dimensions\": 2}");
  check(&yk_protocol_embeddings, "{\"input\": [\"a\", \"b\"]}");
}

int main(void)
{
  yk_process_init();
  const struct CMUnitTest tests[] = {cmocka_unit_test(completions), cmocka_unit_test(chats),
                                     cmocka_unit_test(responses), cmocka_unit_test(messages),
                                     cmocka_unit_test(embeddings)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
