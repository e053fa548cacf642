/* Bodies of requests: the effect of each field, and refusals with the field's name. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "each_case.h"
#include "unit/openai_fixture.h"

/* ---- Accepted bodies --------------------------------------------------------------------------------------------- */

static void prompts(void **state)
{
  (void)state;
  yk_openai_request r = openai_request(YK_FORM_COMPLETION, "{'prompt': 'a\\u0000b', 'model': 'm'}");
  assert_int_equal(r.n_prompts, 1);
  assert_int_equal(r.prompts[0].n_bytes, 3);
  assert_memory_equal(r.prompts[0].text, "a\0b", 3);
  assert_string_equal(r.model, "m");
  assert_true(r.add_special_tokens);
  yk_openai_request_free(&r);
  r = openai_request(YK_FORM_COMPLETION, "{'prompt': [5, 6.0]}");
  assert_int_equal(r.n_prompts, 1);
  assert_int_equal(r.prompts[0].n_ids, 2);
  assert_int_equal(r.prompts[0].ids[1], 6);
  assert_null(r.prompts[0].text);
  assert_null(r.model);
  yk_openai_request_free(&r);
  r = openai_request(YK_FORM_COMPLETION, "{'prompt': [[5], [6, 7]], 'n': 3}");
  assert_int_equal(r.n_prompts, 2);
  assert_int_equal(r.prompts[1].ids[1], 7);
  assert_int_equal(yk_openai_request_choices(&r), 6);
  yk_openai_request_free(&r);
  r = openai_request(YK_FORM_COMPLETION, "{'prompt': ['a', 'b', 'c']}");
  assert_int_equal(r.n_prompts, 3);
  assert_string_equal(r.prompts[2].text, "c");
  yk_openai_request_free(&r);
}

static void sampling(void **state)
{
  (void)state;
  yk_openai_request r = openai_request(
      YK_FORM_COMPLETION,
      "{'prompt': 'p', 'max_tokens': 7, 'temperature': 0.5, 'top_p': 0.25, 'min_p': 0.125, 'top_k': 9, 'n': 2, "
      "'best_of': 2, 'stop': ['x', 'yz'], 'seed': 18446744073709551615, 'logprobs': 4, 'prompt_logprobs': 3, "
      "'logit_bias': {'5': -100, '6': 1.5}, 'repetition_penalty': 1.25, 'presence_penalty': -1, "
      "'frequency_penalty': 2, 'min_tokens': 1, 'ignore_eos': true, 'stop_token_ids': [1, 2], 'user': 'u', "
      "'echo': false, 'add_special_tokens': false, 'skip_special_tokens': false, 'return_token_ids': true, "
      "'include_stop_str_in_output': true, 'return_tokens_as_token_ids': true, "
      "'whatever': {'unknown': 1}, 'suffix': null, 'response_format': {'type': 'text'}}");
  const yk_sampling *s = &r.sampling;
  assert_true(s->max_tokens == 7 && r.has_max_tokens && s->min_tokens == 1 && s->ignore_eos);
  assert_true(s->temperature == 0.5f && s->top_p == 0.25f && s->min_p == 0.125f && s->top_k == 9);
  assert_true(s->repetition_penalty == 1.25f && s->presence_penalty == -1 && s->frequency_penalty == 2);
  assert_true(r.n_samples == 2 && s->has_seed && s->seed == UINT64_MAX);
  assert_true(s->n_logprobs == 4 && s->n_prompt_logprobs == 3 && r.n_prompt_logprobs == 3);
  assert_int_equal(s->n_stop_strings, 2);
  assert_string_equal(s->stop_strings[1], "yz");
  assert_int_equal(s->n_biases, 2);
  assert_true(s->biases[1].token_id == 6 && s->biases[1].bias == 1.5f);
  assert_int_equal(s->n_stop_ids, 2);
  assert_int_equal(s->stop_ids[1], 2);
  assert_true(!r.add_special_tokens && r.return_token_ids && r.names_token_ids && !r.echo && !r.stream);
  assert_true(s->include_stop && !s->skip_special_tokens);
  assert_int_equal(r.tools, YK_TOOLS_NONE);
  yk_openai_request_free(&r);
}

/* The engine, which checks the ranges, refuses them. */
static void numbers_beyond_floats(void **state)
{
  (void)state;
  yk_openai_request r = openai_request(
      YK_FORM_COMPLETION, "{'prompt': 'p', 'temperature': NaN, 'top_p': 1e300, 'min_p': -1e39, 'presence_penalty': "
                          "-Infinity, 'repetition_penalty': 1e400, 'logit_bias': {'5': 1e999, '6': 3e38}}");
  const yk_sampling *s = &r.sampling;
  assert_true(isnan(s->temperature) && s->top_p == INFINITY && s->min_p == -INFINITY);
  assert_true(s->presence_penalty == -INFINITY && s->repetition_penalty == INFINITY);
  assert_true(s->biases[0].bias == INFINITY && s->biases[1].bias == 3e38f);
  yk_openai_request_free(&r);
}

static void defaults_and_nulls(void **state)
{
  (void)state;
  yk_openai_request r = openai_request(
      YK_FORM_COMPLETION, "{'prompt': 'p', 'max_tokens': null, 'n': null, 'logprobs': null, 'seed': -1, 'stop': null, "
                          "'stream_options': null, 'temperature': null, 'best_of': null, 'echo': null}");
  assert_true(r.sampling.max_tokens == 16 && !r.has_max_tokens && r.n_samples == 1);
  assert_true(r.sampling.n_logprobs == -1 && !r.sampling.has_seed && r.sampling.temperature == 1);
  assert_int_equal(r.sampling.n_stop_strings, 0);
  assert_int_equal(r.n_prompt_logprobs, -1);
  yk_openai_request_free(&r);
}

static void streams(void **state)
{
  (void)state;
  yk_openai_request r = openai_request(YK_FORM_COMPLETION, "{'prompt': 'p', 'stream': true}");
  assert_true(r.stream && !r.include_usage && !r.continuous_usage);
  yk_openai_request_free(&r);
  r = openai_request(YK_FORM_COMPLETION, "{'prompt': 'p', 'stream': true, 'stream_options': {'include_usage': true}}");
  assert_true(r.stream && r.include_usage && !r.continuous_usage);
  yk_openai_request_free(&r);
  r = openai_request(YK_FORM_CHAT, "{'messages': [{'role': 'user', 'content': 'x'}], 'stream_options': "
                                   "{'include_usage': true, 'continuous_usage_stats': true}, 'stream': true}");
  assert_true(r.include_usage && r.continuous_usage);
  yk_openai_request_free(&r);
}

/* lm-evaluation-harness: the prompt's log-probabilities come with echo. */
static void echo(void **state)
{
  (void)state;
  yk_openai_request r =
      openai_request(YK_FORM_COMPLETION, "{'prompt': [[5, 6]], 'echo': true, 'logprobs': 1, 'max_tokens': 1}");
  assert_true(r.echo && r.sampling.n_logprobs == 1 && r.sampling.n_prompt_logprobs == 1);
  assert_int_equal(r.n_prompt_logprobs, -1);
  yk_openai_request_free(&r);
  r = openai_request(YK_FORM_COMPLETION, "{'prompt': 'p', 'echo': true, 'max_tokens': 0}");
  assert_int_equal(r.sampling.n_prompt_logprobs, 0);
  yk_openai_request_free(&r);
  r = openai_request(YK_FORM_COMPLETION, "{'prompt': 'p', 'echo': true}");
  assert_int_equal(r.sampling.n_prompt_logprobs, -1);
  yk_openai_request_free(&r);
}

#define N_ROWS(rows) (sizeof rows / sizeof rows[0])

#define P          "{'prompt': 'p', "
#define USER       "{'role': 'user', 'content': 'hello'}"
#define TOOL       "{'type': 'function', 'function': {'name': 'f', 'parameters': {'type': 'object'}}}"
#define CHAT(more) "{'messages': [" USER "]" more "}"

static void chat(void **state)
{
  (void)state;
  yk_openai_request r = openai_request(
      YK_FORM_CHAT,
      "{'messages': [{'role': 'system', 'content': [{'type': 'text', 'text': 'a'}, {'type': 'text', 'text': "
      "'b'}]}, " USER
      ", {'role': 'assistant', 'content': null, 'tool_calls': [{'id': 'c', 'type': 'function', 'function': {'name': "
      "'f', 'arguments': '{}'}}]}, {'role': 'tool', 'tool_call_id': 'c', 'content': '5'}, {'role': 'assistant', "
      "'content': null, 'tool_calls': []}], 'max_tokens': 3, 'max_completion_tokens': 5, 'logprobs': true, "
      "'top_logprobs': 2, 'tools': [" TOOL "], 'tool_choice': 'auto', 'parallel_tool_calls': false, "
      "'chat_template_kwargs': {'enable_thinking': false}, 'documents': [{'text': 'd'}], 'add_generation_prompt': "
      "false, 'continue_final_message': true, 'modalities': ['text'], 'functions': [], 'store': true, "
      "'add_special_tokens': true}");
  assert_int_equal(yk_json_size(r.chat.messages), 5);
  assert_int_equal(yk_json_size(r.chat.tools), 1);
  assert_int_equal(yk_json_size(r.chat.documents), 1);
  assert_true(yk_json_is(yk_json_get(r.chat.template_kwargs, "enable_thinking"), YK_JSON_FALSE));
  assert_true(!r.chat.add_generation_prompt && r.chat.continue_final_message && !r.chat.parallel_tool_calls);
  assert_true(r.sampling.max_tokens == 5 && r.has_max_tokens && r.sampling.n_logprobs == 2);
  assert_true(r.tools == YK_TOOLS_HERMES && r.chat.add_special_tokens && r.n_prompts == 1);
  assert_true(!r.prompts[0].text && !r.prompts[0].ids);
  yk_openai_request_free(&r);
}

static void chat_defaults(void **state)
{
  (void)state;
  yk_openai_request r = openai_request(YK_FORM_CHAT, CHAT(", 'logprobs': false, 'tools': [], 'top_logprobs': 0"));
  assert_true(r.chat.add_generation_prompt && !r.chat.continue_final_message && r.chat.parallel_tool_calls);
  assert_false(r.chat.add_special_tokens);
  assert_true(!r.chat.tools.doc && !r.chat.documents.doc && !r.chat.template_kwargs.doc && r.tools == YK_TOOLS_NONE);
  assert_int_equal(r.sampling.n_logprobs, -1);
  yk_openai_request_free(&r);
  r = openai_request(YK_FORM_CHAT, CHAT(", 'skip_special_tokens': true, 'tools': [" TOOL "]"));
  assert_true(r.hides_special && !r.sampling.skip_special_tokens); /* tags may be special tokens */
  yk_openai_request_free(&r);
  r = openai_request(YK_FORM_CHAT, CHAT(", 'logprobs': true"));
  assert_int_equal(r.sampling.n_logprobs, 0);
  yk_openai_request_free(&r);
}

/* "none" needs no parser: the model does not get the tools. */
static void no_tools_wanted(void **state)
{
  (void)state;
  yk_openai_request r;
  yk_openai_defaults defaults = openai_defaults(YK_TOOLS_NONE);
  assert_int_equal(
      openai_parse_with(&defaults, YK_FORM_CHAT, CHAT(", 'tools': [" TOOL "], 'tool_choice': 'none'"), &r, NULL),
      YK_OK);
  assert_null(r.chat.tools.doc);
  assert_int_equal(r.tools, YK_TOOLS_NONE);
  yk_openai_request_free(&r);
}

/* Texts that Python's json module reads, which most clients and servers use; numbers of unread fields are no fault. */
static void json_as_python_reads_it(void **state)
{
  (void)state;
  yk_openai_request r = openai_request(
      YK_FORM_CHAT,
      "\xEF\xBB\xBF" CHAT(", 'max_tokens': 1, 'max_tokens': 7, 'metadata': {'x': NaN, 'y': 1e400}, 'tools': "
                          "[{'type': 'function', 'function': {'name': 'f', 'parameters': {'maximum': "
                          "18446744073709551615, 'minimum': -1e400, 'multipleOf': Infinity}}}]"));
  yk_strbuf text = YK_STRBUF_INIT;
  assert_int_equal(r.sampling.max_tokens, 7);
  yk_json_append(&text, r.chat.tools, 0);
  assert_non_null(
      strstr(text.data, "{\"maximum\": 18446744073709551615, \"minimum\": -1e400, \"multipleOf\": Infinity}"));
  yk_strbuf_free(&text);
  yk_openai_request_free(&r);
}

/* A negative seed is converted as in PyTorch's generators; -1 means no seed. */
static void seeds(void **state)
{
  (void)state;
  static const struct {
    const char *body;
    uint64_t seed;
  } rows[] = {{P "'seed': -2}", UINT64_MAX - 1},
              {P "'seed': -9223372036854775808}", UINT64_C(1) << 63},
              {P "'seed': 9223372036854775808}", UINT64_C(1) << 63},
              {P "'seed': 5.0}", 5}};
  for (size_t i = 0; i < N_ROWS(rows); i++) {
    yk_openai_request r = openai_request(YK_FORM_COMPLETION, rows[i].body);
    assert_true(r.sampling.has_seed && r.sampling.seed == rows[i].seed);
    yk_openai_request_free(&r);
  }
}

/* Each type of part that templates get as a text. An answer may hold a refusal, which comes back with the conversation.
 * Tools, functions and assistants may have no text. */
static void parts_that_are_text(void **state)
{
  (void)state;
  yk_openai_request r = openai_request(
      YK_FORM_CHAT, "{'messages': [" USER ", {'role': 'assistant', 'content': [{'type': 'refusal', 'refusal': 'no'}], "
                    "'tool_calls': [{'function': {'name': 'f'}}, {'function': {'name': 'f', 'arguments': null}}]}]}");
  assert_int_equal(yk_json_size(r.chat.messages), 2);
  yk_openai_request_free(&r);
  r = openai_request(YK_FORM_CHAT,
                     "{'messages': [{'role': 'user', 'content': ['a', {'type': 'text', 'text': 'b'}, {'type': "
                     "'input_text', 'text': 'c'}]}, {'role': 'assistant', 'content': [{'type': 'output_text', 'text': "
                     "'d'}, {'type': 'thinking', 'thinking': 'e'}]}, {'role': 'tool', 'content': null}, {'role': "
                     "'function'}, {'role': 'assistant'}]}");
  assert_int_equal(yk_json_size(r.chat.messages), 5);
  yk_openai_request_free(&r);
}

static void note_field(void *user, const char *kind, const char *field)
{
  assert_string_equal(kind, "field");
  yk_strbuf *names = user;
  yk_strbuf_append_str(names, field);
  yk_strbuf_append_str(names, " ");
}

/* Fields that Yoke does not support are named and take no memory; a body of many small values is refused. */
static void fields_read_from_a_body(void **state)
{
  (void)state;
  yk_strbuf names = YK_STRBUF_INIT, body = YK_STRBUF_INIT;
  yk_openai_defaults defaults = openai_defaults(YK_TOOLS_NONE);
  yk_openai_request r;
  yk_err err = YK_ERR_INIT;
  defaults.pass_over = note_field;
  defaults.user = &names;
  yk_strbuf_append_str(&body, P "'later': null, 'other': {'a': [");
  for (int i = 0; i < 300000; i++) yk_strbuf_append_str(&body, "1,");
  yk_strbuf_append_str(&body, "1]}, 'some': 1}");
  assert_int_equal(openai_parse_with(&defaults, YK_FORM_COMPLETION, body.data, &r, &err), YK_OK);
  assert_string_equal(names.data, "other some ");
  yk_openai_request_free(&r);
  memcpy(strstr(body.data, "'other'"), "'tools'", 7);
  assert_int_equal(openai_parse_with(&defaults, YK_FORM_CHAT, body.data, &r, &err), YK_E_FORMAT);
  assert_non_null(strstr(err.message, "keys and values, found more"));
  yk_openai_request_free(&r);
  yk_strbuf_free(&body);
  yk_strbuf_free(&names);
}

/* After the submission only the parts needed for the answer are kept. */
static void bodies_are_dropped(void **state)
{
  (void)state;
  yk_openai_request r = openai_request(YK_FORM_COMPLETION, "{'prompt': ['a\\u0000b', 'c'], 'echo': true, 'stop': 'x', "
                                                           "'model': 'm', 'stop_token_ids': [5]}");
  assert_int_equal(yk_openai_request_drop_body(&r, NULL), YK_OK);
  assert_memory_equal(r.prompts[0].text, "a\0b", 4);
  assert_true(!r.document && !r.model && r.sampling.n_stop_strings == 0 && r.sampling.stop_ids[0] == 5);
  assert_int_equal(yk_openai_request_drop_body(&r, NULL), YK_OK);
  assert_string_equal(r.prompts[1].text, "c");
  yk_openai_request_free(&r);
  r = openai_request(YK_FORM_CHAT, CHAT(", 'parallel_tool_calls': false"));
  assert_int_equal(yk_openai_request_drop_body(&r, NULL), YK_OK);
  assert_true(!r.chat.messages.doc && !r.chat.parallel_tool_calls);
  yk_openai_request_free(&r);
}

/* The last tokens of a prompt are kept. */
static void truncation(void **state)
{
  (void)state;
  static const struct {
    const char *body;
    size_t n_first, n_second;
  } rows[] = {{"{'prompt': [[5, 6, 7, 8], [9]], 'truncate_prompt_tokens': 2}", 2, 1},
              {"{'prompt': [[5, 6, 7, 8], [9]], 'truncate_prompt_tokens': 10}", 4, 1},
              {"{'prompt': [[5, 6, 7, 8], [9]], 'truncate_prompt_tokens': -1, 'max_tokens': 7}", 3, 1},
              {"{'prompt': [[5, 6, 7, 8], [9]], 'truncate_prompt_tokens': -1, 'max_tokens': 70}", 1, 1},
              {"{'prompt': [[5, 6, 7, 8], [9]], 'truncate_prompt_tokens': -1}", 4, 1},
              {"{'prompt': [[5, 6, 7, 8], [9]]}", 4, 1}};
  for (size_t i = 0; i < N_ROWS(rows); i++) {
    yk_openai_request r = openai_request(YK_FORM_COMPLETION, rows[i].body);
    assert_int_equal(yk_openai_request_truncate(&r, 10, NULL), YK_OK);
    assert_int_equal(r.prompts[0].n_ids, rows[i].n_first);
    assert_int_equal(r.prompts[1].n_ids, rows[i].n_second);
    assert_int_equal(r.prompts[0].ids[r.prompts[0].n_ids - 1], 8);
    yk_openai_request_free(&r);
  }
  yk_err err = YK_ERR_INIT;
  yk_openai_request r = openai_request(YK_FORM_COMPLETION, "{'prompt': [5], 'truncate_prompt_tokens': 11}");
  assert_int_equal(yk_openai_request_truncate(&r, 10, &err), YK_E_INVAL);
  assert_string_equal(err.message, "truncate_prompt_tokens: expected at most 10, found 11");
  yk_openai_request_free(&r);
}

static void options_of_choices(void **state)
{
  (void)state;
  yk_request_options options;
  yk_openai_request r =
      openai_request(YK_FORM_COMPLETION, "{'prompt': [[5], [6, 7, 8]], 'n': 2, 'seed': 3, 'cache_salt': 'a\\u0000b'}");
  yk_openai_request_options_of(&r, 3, 100, &options);
  assert_ptr_equal(options.ids, r.prompts[1].ids);
  assert_true(options.n_ids == 3 && options.sampling.sample_index == 1 && options.sampling.seed == 3);
  assert_true(options.sampling.max_tokens == 16 && !options.text && !options.waiter);
  assert_true(options.cache_salt_bytes == 3 && memcmp(options.cache_salt, "a\0b", 3) == 0);
  yk_openai_request_options_of(&r, 0, 10, &options);
  assert_true(options.sampling.max_tokens == 9 && options.sampling.sample_index == 0); /* the rest of the context */
  yk_openai_request_options_of(&r, 2, 3, &options);
  assert_int_equal(options.sampling.max_tokens, 1); /* refused by the engine, by name */
  yk_openai_request_free(&r);
  r = openai_request(YK_FORM_COMPLETION, "{'prompt': [5], 'max_tokens': 12}");
  yk_openai_request_options_of(&r, 0, 10, &options);
  assert_int_equal(options.sampling.max_tokens, 12); /* likewise */
  yk_openai_request_options_of(&r, 0, 12, &options);
  assert_int_equal(options.sampling.max_tokens, 11); /* as much as a body can have */
  yk_openai_request_free(&r);
  r = openai_request(YK_FORM_PLAIN, "{'prompt': [5], 'max_tokens': 12}");
  yk_openai_request_options_of(&r, 0, 12, &options);
  assert_int_equal(options.sampling.max_tokens, 12);
  yk_openai_request_free(&r);
}

/* ---- Refusals ---------------------------------------------------------------------------------------------------- */

typedef struct refusal {
  const char *body, *param, *message;
  yk_status status;
} refusal;

static void check_refusals(yk_openai_form form, yk_tool_format tools, const refusal *rows, size_t n)
{
  yk_openai_defaults defaults = openai_defaults(tools);
  for (size_t i = 0; i < n; i++) {
    yk_err err = YK_ERR_INIT;
    yk_openai_request request;
    yk_status status = openai_parse_with(&defaults, form, rows[i].body, &request, &err);
    if (status != rows[i].status || strcmp(request.param, rows[i].param) != 0 || !strstr(err.message, rows[i].message))
      fail_msg("%s: status %d, param %s, %s", rows[i].body, status, request.param, err.message);
    yk_openai_request_free(&request);
  }
}

static void bodies_that_are_no_request(void **state)
{
  (void)state;
  static const refusal rows[] = {
      {"", "", "body", YK_E_FORMAT},
      {"{'prompt': 'p'", "", "body: line 1 column", YK_E_FORMAT},
      {"{'prompt': 'p', }", "", "body: line 1 column 17: expected a key", YK_E_FORMAT},
      {"{'prompt': '\xFF'}", "", "0xff", YK_E_FORMAT},
      {"[]", "", "expected an object, found array", YK_E_FORMAT},
      {"5", "", "expected an object, found integer", YK_E_FORMAT},
      {"{}", "prompt", "key \"prompt\": expected, but missing", YK_E_INVAL},
      {"{'prompt': null}", "prompt", "key \"prompt\": expected, but missing", YK_E_INVAL},
      {"{'prompt': 'p', 'seed': 18446744073709551616}", "seed", "-2^63 to 2^64 - 1", YK_E_FORMAT},
      {"{'prompt': 'p', 'seed': -9223372036854775809}", "seed", "-2^63 to 2^64 - 1", YK_E_FORMAT},
  };
  check_refusals(YK_FORM_COMPLETION, YK_TOOLS_NONE, rows, N_ROWS(rows));
}

#define SALT_64   "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define LONG_SALT SALT_64 SALT_64 SALT_64 SALT_64 SALT_64 SALT_64 SALT_64 SALT_64 "!"

static void values_out_of_range_or_of_another_type(void **state)
{
  (void)state;
  static const refusal rows[] = {
      {"{'prompt': 5}", "prompt", "found integer", YK_E_FORMAT},
      {"{'prompt': ['a', 5]}", "prompt", "found integer", YK_E_FORMAT},
      {"{'prompt': [[1], 'a']}", "prompt", "found both", YK_E_FORMAT},
      {"{'prompt': ['a', [1]]}", "prompt", "found both", YK_E_FORMAT},
      {"{'prompt': [5, 'a']}", "prompt", "an integer, found string", YK_E_FORMAT},
      {"{'prompt': [-1]}", "prompt", "found -1", YK_E_FORMAT},
      {"{'prompt': [2147483648]}", "prompt", "found 2147483648", YK_E_FORMAT},
      {P "'max_tokens': 'x'}", "max_tokens", "an integer, found string", YK_E_FORMAT},
      {P "'max_tokens': 1.5}", "max_tokens", "an integer", YK_E_FORMAT},
      {P "'max_tokens': 2147483648}", "max_tokens", "-1 to 2147483647, found 2147483648", YK_E_FORMAT},
      {P "'max_tokens': -2}", "max_tokens", "found -2", YK_E_FORMAT},
      {P "'temperature': 'hot'}", "temperature", "a number, found string", YK_E_FORMAT},
      {P "'n': 0}", "n", "1 to 128, found 0", YK_E_FORMAT},
      {P "'n': 129}", "n", "1 to 128, found 129", YK_E_FORMAT},
      {P "'n': true}", "n", "an integer, found true", YK_E_FORMAT},
      {"{'prompt': ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'], 'n': 128}", "n", "at most 1024, found 1152",
       YK_E_INVAL},
      {P "'best_of': 2}", "best_of", "the same as n (1)", YK_E_UNSUPPORTED},
      {P "'seed': 1.5}", "seed", "an integer", YK_E_FORMAT},
      {P "'stop': 5}", "stop", "found integer", YK_E_FORMAT},
      {P "'cache_salt': ''}", "cache_salt", "1 to 512 bytes, found 0", YK_E_INVAL},
      {P "'cache_salt': 5}", "cache_salt", "a string", YK_E_FORMAT},
      {P "'cache_salt': '" LONG_SALT "'}", "cache_salt", "1 to 512 bytes, found 513", YK_E_INVAL},
      {P "'stop': ['a', null]}", "stop", "found null", YK_E_FORMAT},
      {P "'stop': ''}", "stop", "not empty", YK_E_INVAL},
      {P "'stop': 'a\\u0000'}", "stop", "NUL", YK_E_INVAL},
      {P "'stop_token_ids': 5}", "stop_token_ids", "an array", YK_E_FORMAT},
      {P "'logit_bias': [1]}", "logit_bias", "an object", YK_E_FORMAT},
      {P "'logit_bias': {'x': 1}}", "logit_bias", "\"x\"", YK_E_INVAL},
      {P "'logit_bias': {'5': 'x'}}", "logit_bias", "a number", YK_E_FORMAT},
      {P "'logprobs': true}", "logprobs", "an integer, found true", YK_E_FORMAT},
      {P "'echo': 1}", "echo", "true or false", YK_E_FORMAT},
      {P "'model': 5}", "model", "a string", YK_E_FORMAT},
      {P "'stream': 'yes'}", "stream", "true or false", YK_E_FORMAT},
      {P "'stream_options': {}}", "stream_options", "\"stream\": true", YK_E_INVAL},
      {P "'stream': true, 'stream_options': 5}", "stream_options", "an object", YK_E_FORMAT},
      {P "'stream': true, 'stream_options': {'include_usage': 1}}", "stream_options", "include_usage", YK_E_FORMAT},
      {P "'stream': true, 'prompt_logprobs': 1}", "prompt_logprobs", "not available with stream", YK_E_UNSUPPORTED},
  };
  check_refusals(YK_FORM_COMPLETION, YK_TOOLS_NONE, rows, N_ROWS(rows));
}

static void expect_constraint(yk_openai_form form, const char *body, yk_constraint_kind kind, const char *name,
                              const char *text)
{
  yk_openai_request r = openai_request(form, body);
  assert_int_equal(r.sampling.constraint_kind, kind);
  assert_string_equal(r.sampling.constraint_name, name);
  assert_int_equal(r.sampling.constraint_bytes, strlen(text));
  if (text[0]) assert_memory_equal(r.sampling.constraint, text, strlen(text));
  yk_openai_request_free(&r);
}

static void constraints(void **state)
{
  (void)state;
  expect_constraint(YK_FORM_COMPLETION, P "'response_format': {'type': 'json_object'}}", YK_CONSTRAINT_JSON_OBJECT,
                    "response_format", "");
  expect_constraint(YK_FORM_PLAIN,
                    P "'response_format': {'type': 'json_schema', 'json_schema': {'name': 'n', 'schema': {'type': "
                      "'null'}}}}",
                    YK_CONSTRAINT_JSON_SCHEMA, "response_format", "{\"type\": \"null\"}");
  expect_constraint(YK_FORM_PLAIN, P "'guided_json': '{}'}", YK_CONSTRAINT_JSON_SCHEMA, "guided_json", "{}");
  expect_constraint(YK_FORM_CHAT, CHAT(", 'guided_regex': 'a+'"), YK_CONSTRAINT_REGEX, "guided_regex", "a+");
  expect_constraint(YK_FORM_CHAT, CHAT(", 'guided_choice': ['a', 'b']"), YK_CONSTRAINT_CHOICE, "guided_choice",
                    "[\"a\", \"b\"]");
  expect_constraint(YK_FORM_CHAT, CHAT(", 'guided_grammar': 'root ::= x'"), YK_CONSTRAINT_GRAMMAR, "guided_grammar",
                    "root ::= x");
  expect_constraint(YK_FORM_CHAT, CHAT(", 'structured_outputs': {'structural_tag': '{}', 'regex': null}"),
                    YK_CONSTRAINT_STRUCTURAL_TAG, "structured_outputs", "{}");
  expect_constraint(YK_FORM_CHAT, CHAT(", 'structured_outputs': {'json_object': true, 'disable_fallback': true}"),
                    YK_CONSTRAINT_JSON_OBJECT, "structured_outputs", "");
  yk_openai_request r = openai_request(YK_FORM_CHAT, CHAT(", 'allowed_token_ids': [3, 4], 'guided_json': false"));
  assert_int_equal(r.sampling.n_allowed_ids, 2);
  assert_int_equal(r.sampling.allowed_ids[1], 4);
  assert_int_equal(r.sampling.constraint_kind, YK_CONSTRAINT_NONE);
  yk_openai_request_free(&r);
}

#define CALL_OF_F(end)                                                                                                 \
  "\"tags\": [{\"type\": \"tag\", \"begin\": \"<tool_call>\\n{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": \", "        \
  "\"content\": {\"type\": \"json_schema\", \"json_schema\": {\"type\": \"object\"}}, \"end\": "                       \
  "\"}\\n</tool_call>\"}], "                                                                                           \
  "\"stop_after_first\": " end "}"
#define ONLY_CALLS(end)                                                                                                \
  "{\"type\": \"tags_with_separator\", \"at_least_one\": true, \"separator\": \"\\n\", " CALL_OF_F(end)

/* The engine gets the tags where a constraint or a limit depends on them, by the beginning of the output. */
static void reasoning_with_constraints(void **state)
{
  (void)state;
  static const struct {
    yk_openai_form form;
    const char *body;
    yk_reasoning_beginning beginning;
    const char *open, *close; /* NULL: none */
  } rows[] = {
      {YK_FORM_CHAT, CHAT(""), YK_REASONING_OPENED, NULL, NULL},
      {YK_FORM_CHAT, CHAT(", 'guided_regex': 'a'"), YK_REASONING_OPENED, NULL, "</think>"},
      {YK_FORM_CHAT, CHAT(", 'guided_regex': 'a'"), YK_REASONING_UNDECIDED, "<think>", "</think>"},
      {YK_FORM_CHAT, CHAT(", 'guided_regex': 'a'"), YK_REASONING_ENDED, NULL, NULL},
      {YK_FORM_CHAT, CHAT(", 'tools': [" TOOL "]"), YK_REASONING_OPENED, NULL, NULL},
      {YK_FORM_CHAT, CHAT(", 'tools': [" TOOL "], 'tool_choice': 'required'"), YK_REASONING_OPENED, NULL, "</think>"},
      {YK_FORM_CHAT, CHAT(", 'thinking_token_budget': 0"), YK_REASONING_UNDECIDED, "<think>", "</think>"},
      {YK_FORM_COMPLETION, P "'guided_regex': 'a'}", YK_REASONING_OPENED, NULL, "</think>"},
      {YK_FORM_COMPLETION, P "'guided_regex': 'a'}", YK_REASONING_UNDECIDED, NULL, NULL}};
  yk_openai_defaults defaults = openai_defaults(YK_TOOLS_HERMES);
  defaults.style.reasoning = yk_reasoning_find("qwen3");
  for (size_t i = 0; each_case(i, i < N_ROWS(rows)); i++) {
    yk_openai_request r;
    yk_request_options options;
    yk_err err = YK_ERR_INIT;
    assert_int_equal(openai_parse_with(&defaults, rows[i].form, rows[i].body, &r, &err), YK_OK);
    assert_ptr_equal(r.reasoning, rows[i].form == YK_FORM_CHAT ? defaults.style.reasoning : NULL);
    r.prompts[0].beginning = rows[i].beginning;
    yk_openai_request_options_of(&r, 0, 100, &options);
    const yk_sampling *s = &options.sampling;
    const char *open = s->reasoning_tags && !s->reasoning_is_open ? s->reasoning_tags->open : "";
    assert_string_equal(open, rows[i].open ? rows[i].open : "");
    assert_string_equal(s->reasoning_tags ? s->reasoning_tags->close : "", rows[i].close ? rows[i].close : "");
    yk_openai_request_free(&r);
  }
  check_refusals(YK_FORM_CHAT, YK_TOOLS_NONE,
                 (const refusal[]){{CHAT(", 'thinking_token_budget': 3"), "thinking_token_budget", "--reasoning-parser",
                                    YK_E_UNSUPPORTED}},
                 1);
}

static void constraints_of_tools(void **state)
{
  (void)state;
  expect_constraint(YK_FORM_CHAT, CHAT(", 'tools': [" TOOL "], 'tool_choice': 'required'"),
                    YK_CONSTRAINT_STRUCTURAL_TAG, "tool_choice",
                    "{\"type\": \"structural_tag\", \"format\": " ONLY_CALLS("false") "}");
  expect_constraint(YK_FORM_CHAT,
                    CHAT(", 'tools': [" TOOL "], 'tool_choice': {'type': 'function', 'function': {'name': 'f'}}"),
                    YK_CONSTRAINT_STRUCTURAL_TAG, "tool_choice",
                    "{\"type\": \"structural_tag\", \"format\": " ONLY_CALLS("true") "}");
  expect_constraint(YK_FORM_CHAT, CHAT(", 'tools': [" TOOL "], 'response_format': {'type': 'json_object'}"),
                    YK_CONSTRAINT_STRUCTURAL_TAG, "response_format",
                    "{\"type\": \"structural_tag\", \"format\": {\"type\": \"or\", \"elements\": [" ONLY_CALLS(
                        "false") ", {\"type\": \"json_schema\", \"json_schema\": {\"type\": \"object\"}}]}}");
  expect_constraint(YK_FORM_CHAT,
                    CHAT(", 'parallel_tool_calls': false, 'tools': [{'type': 'function', 'function': {'name': 'f', "
                         "'strict': true}}]"),
                    YK_CONSTRAINT_STRUCTURAL_TAG, "tools",
                    "{\"type\": \"structural_tag\", \"format\": {\"type\": \"triggered_tags\", \"triggers\": "
                    "[\"<tool_call>\"], " CALL_OF_F("true") "}");
  yk_openai_request r = openai_request(YK_FORM_CHAT, CHAT(", 'tools': [" TOOL "]"));
  assert_int_equal(r.sampling.constraint_kind, YK_CONSTRAINT_NONE);
  yk_openai_request_free(&r);
}

static void unsupported_fields_are_refused_by_name(void **state)
{
  (void)state;
  static const char *const both[] = {"logits_processors", "use_beam_search", "repetition_detection"};
  static const char *const completion[] = {"suffix", "prompt_embeds"};
  static const char *const of_chat[] = {"functions",          "function_call", "audio",
                                        "web_search_options", "chat_template", "echo"};
  const struct {
    yk_openai_form form;
    const char *const *names;
    size_t n;
    const char *body;
  } lists[] = {{YK_FORM_COMPLETION, both, N_ROWS(both), P "'%s': %s}"},
               {YK_FORM_CHAT, both, N_ROWS(both), CHAT(", '%s': %s")},
               {YK_FORM_COMPLETION, completion, N_ROWS(completion), P "'%s': %s}"},
               {YK_FORM_CHAT, of_chat, N_ROWS(of_chat), CHAT(", '%s': %s")}};
  for (size_t i = 0; i < N_ROWS(lists); i++) {
    for (size_t j = 0; j < lists[i].n; j++) {
      char body[256];
      snprintf(body, sizeof body, lists[i].body, lists[i].names[j], "['x']");
      check_refusals(lists[i].form, YK_TOOLS_NONE,
                     &(refusal){body, lists[i].names[j], "not supported", YK_E_UNSUPPORTED}, 1);
      snprintf(body, sizeof body, lists[i].body, lists[i].names[j], "false");
      yk_openai_request request = openai_request(lists[i].form, body);
      yk_openai_request_free(&request);
    }
  }
  static const refusal rows[] = {
      {P "'response_format': {'type': 'xml'}}", "response_format", "found \"xml\"", YK_E_INVAL},
      {P "'response_format': {'type': 'json_schema'}}", "response_format", "json_schema.schema", YK_E_FORMAT},
      {P "'guided_regex': 5}", "guided_regex", "a string that is not empty", YK_E_FORMAT},
      {P "'guided_choice': 'a'}", "guided_choice", "an array of strings", YK_E_FORMAT},
      {P "'guided_json': [1]}", "guided_json", "an object, or a string of JSON", YK_E_FORMAT},
      {P "'guided_json': {}, 'guided_regex': 'a'}", "guided_regex", "guided_json", YK_E_INVAL},
      {P "'structured_outputs': 'a'}", "structured_outputs", "an object", YK_E_FORMAT},
      {P "'structured_outputs': {'whitespace_pattern': 'x'}}", "structured_outputs", "\"whitespace_pattern\"",
       YK_E_UNSUPPORTED},
      {P "'structured_outputs': {'json': {}, 'regex': 'a'}}", "structured_outputs", "another constraint", YK_E_INVAL},
      {P "'allowed_token_ids': []}", "allowed_token_ids", "at least one token id", YK_E_FORMAT},
      {P "'allowed_token_ids': [-1]}", "allowed_token_ids", "found -1", YK_E_FORMAT},
      {P "'response_format': 'text'}", "response_format", "an object", YK_E_FORMAT},
      {P "'detokenize': false}", "detokenize", "expected true", YK_E_UNSUPPORTED},
      {P "'truncate_prompt_tokens': 0}", "truncate_prompt_tokens", "at least 1, or -1", YK_E_INVAL},
      {P "'truncate_prompt_tokens': -2}", "truncate_prompt_tokens", "found -2", YK_E_FORMAT},
      {P "'bad_words': 'x'}", "bad_words", "an array of texts", YK_E_FORMAT},
      {P "'bad_words': ['x', 5]}", "bad_words", "an array of texts", YK_E_FORMAT},
      {P "'logprob_token_ids': [5]}", "logprob_token_ids", "\"logprobs\" with it", YK_E_INVAL},
      {P "'logprobs': 1, 'logprob_token_ids': 5}", "logprob_token_ids", "an array of token ids", YK_E_FORMAT},
      {P "'logprobs': 1, 'logprob_token_ids': [-1]}", "logprob_token_ids", "found -1", YK_E_FORMAT},
      {P "'bad_words': ['  ']}", "bad_words", "more than spaces", YK_E_INVAL},
      {P "'priority': 1}", "priority", "expected 0", YK_E_UNSUPPORTED},
      {P "'stream_interval': 0}", "stream_interval", "found 0", YK_E_FORMAT},
      {P "'vllm_xargs': {'a': 1}}", "vllm_xargs", "not supported", YK_E_UNSUPPORTED},
      {P "'return_token_offsets': true}", "return_token_offsets", "not supported", YK_E_UNSUPPORTED},
      {P "'return_prompt_text': true}", "return_prompt_text", "not supported", YK_E_UNSUPPORTED},
  };
  check_refusals(YK_FORM_COMPLETION, YK_TOOLS_NONE, rows, N_ROWS(rows));
}

#define M(message) "{'messages': [" USER ", " message "]}"

static void conversations_that_are_none(void **state)
{
  (void)state;
  static const refusal rows[] = {
      {"{}", "messages", "expected, but missing", YK_E_INVAL},
      {"{'messages': []}", "messages", "at least one", YK_E_INVAL},
      {"{'messages': 'hello'}", "messages", "an array of messages, found string", YK_E_FORMAT},
      {M("5"), "messages", "messages[1]\": expected an object", YK_E_FORMAT},
      {M("{'content': 'x'}"), "messages", "messages[1].role", YK_E_FORMAT},
      {M("{'role': '', 'content': 'x'}"), "messages", "messages[1].role", YK_E_FORMAT},
      {M("{'role': 'user'}"), "messages", "messages[1].content\": expected a string", YK_E_FORMAT},
      {M("{'role': 'user', 'content': null}"), "messages", "found null", YK_E_FORMAT},
      {M("{'role': 'user', 'content': 5}"), "messages", "found integer", YK_E_FORMAT},
      {M("{'role': 'user', 'content': [{'text': 'x'}]}"), "messages", "\"type\"", YK_E_FORMAT},
      {M("{'role': 'user', 'content': [{'type': 'text', 'text': 'x'}, {'type': 'image_url', 'image_url': {'url': "
         "'http://x'}}]}"),
       "messages", "messages[1].content[1]: expected content of type \"text\", found \"image_url\"", YK_E_UNSUPPORTED},
      {M("{'role': 'user', 'content': [{'type': 'input_audio'}]}"), "messages", "input_audio", YK_E_UNSUPPORTED},
      {M("{'role': 'assistant', 'tool_calls': {}}"), "messages", "an array of tool calls", YK_E_FORMAT},
      {M("{'role': 'assistant', 'tool_calls': [{}]}"), "messages", "tool_calls[0]", YK_E_FORMAT},
      {M("{'role': 'assistant', 'tool_calls': [{'function': {'arguments': '{}'}}]}"), "messages", "name", YK_E_FORMAT},
      {M("{'role': 'assistant', 'tool_calls': [{'function': {'name': 'f', 'arguments': 5}}]}"), "messages", "arguments",
       YK_E_FORMAT},
  };
  check_refusals(YK_FORM_CHAT, YK_TOOLS_NONE, rows, N_ROWS(rows));
}

static void chat_fields_out_of_place(void **state)
{
  (void)state;
  static const refusal rows[] = {
      {CHAT(", 'logprobs': 5"), "logprobs", "true or false, found integer", YK_E_FORMAT},
      {CHAT(", 'top_logprobs': 2"), "top_logprobs", "\"logprobs\": true", YK_E_INVAL},
      {CHAT(", 'logprob_token_ids': [5]"), "logprob_token_ids", "\"logprobs\": true with it", YK_E_INVAL},
      {CHAT(", 'logprobs': true, 'top_logprobs': 21"), "top_logprobs", "0 to 20, found 21", YK_E_FORMAT},
      {CHAT(", 'logprobs': true, 'top_logprobs': -1"), "top_logprobs", "0 to 20, found -1", YK_E_FORMAT},
      {CHAT(", 'max_completion_tokens': -5"), "max_completion_tokens", "found -5", YK_E_FORMAT},
      {CHAT(", 'tools': 5"), "tools", "an array of tools", YK_E_FORMAT},
      {CHAT(", 'tools': [5]"), "tools", "an object", YK_E_FORMAT},
      {CHAT(", 'tools': [{'type': 'web'}]"), "tools", "the type \"function\"", YK_E_UNSUPPORTED},
      {CHAT(", 'tools': [{'type': 'function'}]"), "tools", "tools[0].function", YK_E_FORMAT},
      {CHAT(", 'tools': [{'type': 'function', 'function': {}}]"), "tools", "tools[0].function.name", YK_E_FORMAT},
      {CHAT(", 'tool_choice': 'required'"), "tool_choice", "\"tools\" beside it", YK_E_INVAL},
      {CHAT(", 'tools': [" TOOL "], 'tool_choice': 'always'"), "tool_choice", "found \"always\"", YK_E_INVAL},
      {CHAT(", 'tools': [" TOOL "], 'tool_choice': {'type': 'function', 'function': {'name': 'g'}}"), "tool_choice",
       "no tool \"g\"", YK_E_INVAL},
      {CHAT(", 'guided_json': {}, 'tools': [" TOOL "], 'tool_choice': 'required'"), "tool_choice", "another constraint",
       YK_E_INVAL},
      {CHAT(", 'tool_choice': 5"), "tool_choice", "found integer", YK_E_FORMAT},
      {CHAT(", 'chat_template_kwargs': []"), "chat_template_kwargs", "an object", YK_E_FORMAT},
      {CHAT(", 'documents': {}"), "documents", "an array", YK_E_FORMAT},
      {CHAT(", 'documents': ['x']"), "documents", "documents[0]", YK_E_FORMAT},
      {CHAT(", 'continue_final_message': true"), "continue_final_message", "add_generation_prompt", YK_E_INVAL},
      {CHAT(", 'modalities': ['text', 'audio']"), "modalities", "only \"text\"", YK_E_UNSUPPORTED},
      {CHAT(", 'modalities': 'text'"), "modalities", "an array", YK_E_FORMAT},
  };
  check_refusals(YK_FORM_CHAT, YK_TOOLS_HERMES, rows, N_ROWS(rows));
  static const refusal without_parser[] = {{CHAT(", 'tools': [" TOOL "]"), "tools",
                                            "start with --tool-call-parser and one of hermes, llama3_json",
                                            YK_E_UNSUPPORTED}};
  check_refusals(YK_FORM_CHAT, YK_TOOLS_NONE, without_parser, 1);
}

static void plain_lines_are_strict(void **state)
{
  (void)state;
  static const refusal rows[] = {
      {P "'max_token': 5}", "max_token", "unknown key \"max_token\"; did you mean \"max_tokens\"?", YK_E_INVAL},
      {P "'whatever': 5}", "whatever", "unknown key \"whatever\"", YK_E_INVAL},
      {P "'echo': false}", "echo", "unknown key \"echo\"", YK_E_INVAL},
      {P "'messages': []}", "messages", "unknown key \"messages\"", YK_E_INVAL},
      {P "'stream': false}", "stream", "unknown key \"stream\"", YK_E_INVAL},
  };
  check_refusals(YK_FORM_PLAIN, YK_TOOLS_NONE, rows, N_ROWS(rows));
}

static void depth_is_bounded(void **state)
{
  (void)state;
  for (int depth = YK_OPENAI_MAX_DEPTH - 1; depth <= YK_OPENAI_MAX_DEPTH; depth++) {
    char body[512] = "{'prompt': '[[{{', 'x': ";
    yk_openai_request request;
    yk_err err = YK_ERR_INIT;
    yk_openai_defaults defaults = openai_defaults(YK_TOOLS_NONE);
    for (int i = 0; i < depth; i++) strcat(body, "[");
    for (int i = 0; i < depth; i++) strcat(body, "]");
    strcat(body, "}");
    yk_status status = openai_parse_with(&defaults, YK_FORM_COMPLETION, body, &request, &err);
    assert_int_equal(status, depth < YK_OPENAI_MAX_DEPTH ? YK_OK : YK_E_FORMAT);
    if (status != YK_OK) assert_non_null(strstr(err.message, "at most 64"));
    yk_openai_request_free(&request);
  }
}

/* Brackets in strings do not count as depth. */
static void brackets_in_strings_are_text(void **state)
{
  (void)state;
  char body[512] = "{'prompt': '\\\\ \\'";
  for (int i = 0; i < 2 * YK_OPENAI_MAX_DEPTH; i++) strcat(body, "[");
  strcat(body, "'}");
  yk_openai_request request = openai_request(YK_FORM_COMPLETION, body);
  yk_openai_request_free(&request);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(prompts),
                                     cmocka_unit_test(sampling),
                                     cmocka_unit_test(numbers_beyond_floats),
                                     cmocka_unit_test(defaults_and_nulls),
                                     cmocka_unit_test(streams),
                                     cmocka_unit_test(echo),
                                     cmocka_unit_test(chat),
                                     cmocka_unit_test(chat_defaults),
                                     cmocka_unit_test(no_tools_wanted),
                                     cmocka_unit_test(json_as_python_reads_it),
                                     cmocka_unit_test(seeds),
                                     cmocka_unit_test(parts_that_are_text),
                                     cmocka_unit_test(fields_read_from_a_body),
                                     cmocka_unit_test(bodies_are_dropped),
                                     cmocka_unit_test(truncation),
                                     cmocka_unit_test(options_of_choices),
                                     cmocka_unit_test(bodies_that_are_no_request),
                                     cmocka_unit_test(values_out_of_range_or_of_another_type),
                                     cmocka_unit_test(constraints),
                                     cmocka_unit_test(constraints_of_tools),
                                     cmocka_unit_test(reasoning_with_constraints),
                                     cmocka_unit_test(unsupported_fields_are_refused_by_name),
                                     cmocka_unit_test(conversations_that_are_none),
                                     cmocka_unit_test(chat_fields_out_of_place),
                                     cmocka_unit_test(plain_lines_are_strict),
                                     cmocka_unit_test(depth_is_bounded),
                                     cmocka_unit_test(brackets_in_strings_are_text)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
