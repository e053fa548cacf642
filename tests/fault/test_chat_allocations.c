/* An allocation that fails anywhere while a chat renderer is created or renders gives an error and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "chat/chat_renderer.h"
#include "fault/counted_alloc.h"
#include "unit/chat_fixture.h"
#include "yoke/process.h"

#define TEMPLATE YOKE_TESTS_DIR "/golden/chat/templates/qwen3.jinja"

static yk_tokenizer *load_tokenizer(void)
{
  yk_tokenizer *tokenizer;
  assert_int_equal(yk_tokenizer_load(YOKE_TESTS_DIR "/golden/tokenizer/added", &tokenizer, NULL), YK_OK);
  return tokenizer;
}

static yk_status create(const yk_tokenizer *tokenizer, const char *chat_template, yk_chat_renderer **out)
{
  yk_chat_options options;
  yk_err err = YK_ERR_INIT;
  yk_chat_options_init(&options);
  options.model_dir = YOKE_TESTS_DIR "/models/demo";
  options.chat_template = chat_template;
  options.tokenizer = tokenizer;
  options.time_limit_s = 60;
  yk_status status = yk_chat_renderer_create(&options, out, &err);
  assert_true((status == YK_OK) == (err.message[0] == '\0'));
  assert_true((status == YK_OK) == (*out != NULL));
  return status;
}

static void any_allocation_of_creation_may_fail(void **state)
{
  static const char *const TEMPLATES[] = {"builtin:chatml", TEMPLATE};
  yk_tokenizer *tokenizer = load_tokenizer();
  yk_chat_renderer *renderer;
  (void)state;
  for (int i = 0; i < 2; i++) {
    counted_alloc_reset(0);
    assert_int_equal(create(tokenizer, TEMPLATES[i], &renderer), YK_OK);
    yk_chat_renderer_free(renderer);
    int64_t n_allocations = counted_alloc_count();
    assert_true(n_allocations >= 3);
    for (int64_t fail_at = 1; fail_at <= n_allocations; fail_at++) {
      counted_alloc_reset(fail_at);
      if (create(tokenizer, TEMPLATES[i], &renderer) == YK_OK) fail_msg("allocation %d failed unnoticed", (int)fail_at);
    }
  }
  counted_alloc_reset(0);
  yk_tokenizer_free(tokenizer);
}

/* Up to the prompt and the end tokens of the answer. */
static yk_status encode(yk_chat_renderer *renderer, const yk_chat_conversation *conversation)
{
  int32_t *ids, *stop_ids = NULL;
  size_t n_ids, n_stop_ids;
  yk_err err = YK_ERR_INIT;
  yk_status status = yk_chat_encode(renderer, conversation, &ids, &n_ids, &err);
  assert_true((status == YK_OK) == (err.message[0] == '\0'));
  assert_true((status == YK_OK) == (ids != NULL));
  free(ids);
  if (status == YK_OK) status = yk_chat_stop_ids(renderer, NULL, 0, &stop_ids, &n_stop_ids, &err);
  assert_true((status == YK_OK) == (stop_ids != NULL));
  free(stop_ids);
  return status;
}

static void any_allocation_of_rendering_may_fail(void **state)
{
  static const char *const TEMPLATES[] = {"builtin:chatml", TEMPLATE};
  yk_tokenizer *tokenizer = load_tokenizer();
  (void)state;
  yk_json_doc *messages =
      document_of(json_pack("[{s:s, s:[{s:s, s:s}, {s:s, s:s}]}]", "role", "user", "content", "type", "text", "text",
                            "the\n\n\"fox\"", "type", "text", "text", "e\xCC\x81 word"));
  yk_json_doc *arguments = document_of(json_pack("{s:s}", "the word", "ab"));
  yk_chat_conversation conversation = {.messages = yk_json_root(messages), .arguments = yk_json_root(arguments)};
  for (int i = 0; i < 2; i++) {
    yk_chat_renderer *renderer;
    assert_int_equal(create(tokenizer, TEMPLATES[i], &renderer), YK_OK);
    counted_alloc_reset(0);
    assert_int_equal(encode(renderer, &conversation), YK_OK);
    int64_t n_allocations = counted_alloc_count();
    assert_true(n_allocations > 10);
    for (int64_t fail_at = 1; fail_at <= n_allocations; fail_at++) {
      counted_alloc_reset(fail_at);
      if (encode(renderer, &conversation) == YK_OK && counted_alloc_count() >= fail_at)
        fail_msg("allocation %d failed unnoticed", (int)fail_at);
    }
    counted_alloc_reset(0);
    assert_int_equal(encode(renderer, &conversation), YK_OK);
    yk_chat_renderer_free(renderer);
  }
  yk_json_free(messages);
  yk_json_free(arguments);
  yk_tokenizer_free(tokenizer);
}

int main(void)
{
  yk_process_init();
  const struct CMUnitTest tests[] = {cmocka_unit_test(any_allocation_of_creation_may_fail),
                                     cmocka_unit_test(any_allocation_of_rendering_may_fail)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
