/* The bytes of a request's text that belong to special tokens, also if a possible stop string holds text back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/request.h"

#define MODEL YOKE_TESTS_DIR "/models/demo"

enum { CAPACITY = 100 };

/* The text of a request with these tokens, special tokens in brackets. */
static void run(const char *content, bool skips, const char *stop, const char *expected)
{
  yk_tokenizer *tokenizer;
  int32_t *ids;
  size_t n_ids;
  atomic_uint n_cancels = 0;
  yk_request *request;
  yk_strbuf text = YK_STRBUF_INIT;
  assert_int_equal(yk_tokenizer_load(MODEL, &tokenizer, NULL), YK_OK);
  assert_int_equal(yk_tokenizer_encode(tokenizer, content, strlen(content), false, &ids, &n_ids, NULL), YK_OK);
  const yk_sampling sampling = {.max_tokens = CAPACITY - 1,
                                .n_logprobs = -1,
                                .n_prompt_logprobs = -1,
                                .skip_special_tokens = skips,
                                .stop_strings = &stop,
                                .n_stop_strings = stop != NULL};
  assert_int_equal(
      yk_request_create(NULL, (int32_t[]){5}, 1, CAPACITY, &sampling, NULL, 0, tokenizer, &n_cancels, &request, NULL),
      YK_OK);
  for (size_t i = 0; i < n_ids; i++) yk_request_push_token(request, &(yk_sampled){.token_id = ids[i]}, false);
  yk_request_finish(request, YK_FINISH_LENGTH, NULL);
  const yk_output *output;
  do {
    assert_int_equal(yk_request_next(request, 0, &output, NULL), YK_OK);
    size_t at = 0;
    for (size_t i = 0; i < output->n_special; i++) {
      assert_true(output->special[i].begin >= at && output->special[i].end <= output->text_bytes);
      yk_strbuf_append(&text, output->text + at, output->special[i].begin - at);
      at = output->special[i].end;
      yk_strbuf_append_str(&text, "[");
      yk_strbuf_append(&text, output->text + output->special[i].begin, at - output->special[i].begin);
      yk_strbuf_append_str(&text, "]");
    }
    yk_strbuf_append(&text, output->text + at, output->text_bytes - at);
  } while (output->finish == YK_FINISH_NONE);
  assert_string_equal(text.data, expected);
  yk_strbuf_free(&text);
  yk_request_free(request);
  free(ids);
  yk_tokenizer_free(tokenizer);
}

static void special_tokens_are_reported(void **state)
{
  (void)state;
  run("a <|im_end|>b\xC3\xA9<|im_start|><|im_end|>", false, NULL, "a [<|im_end|>]b\xC3\xA9[<|im_start|>][<|im_end|>]");
  run("a <|im_end|>b", true, NULL, "a b");
  run("plain", false, NULL, "plain");
}

static void text_that_is_held_back(void **state)
{
  (void)state;
  run("a<|im_end|>b<|im_end|>c", false, "<|im_end|>c", "a[<|im_end|>]b");
  run("a<|im_end|>b", false, "<|im_end|>x", "a[<|im_end|>]b");
  run("a<|im_end|>b<|im_end|>", false, "d|>b<|z", "a[<|im_en][d|>]b[<|im_en][d|>]");
  run("a<|im_end|>", false, "im", "a[<|]");
  run("a<|im_end|>", false, ">b", "a[<|im_end|][>]");
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(special_tokens_are_reported),
                                     cmocka_unit_test(text_that_is_held_back)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
