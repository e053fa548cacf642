/* Bodies of requests: the effect of each field. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "unit/openai_bodies.h"
#include "unit/openai_fixture.h"

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

/* The last tokens of a prompt are kept, or the first ones. */
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
              {"{'prompt': [[5, 6, 7, 8], [9]]}", 4, 1},
              {"{'prompt': [[5, 6, 7, 8], [9]], 'truncate_prompt_tokens': 3, 'truncation_side': 'left'}", 3, 1},
              {"{'prompt': [[5, 6, 7, 8], [9]], 'truncate_prompt_tokens': 3, 'truncation_side': 'right'}", 3, 1}};
  for (size_t i = 0; i < N_ROWS(rows); i++) {
    yk_openai_request r = openai_request(YK_FORM_COMPLETION, rows[i].body);
    assert_int_equal(yk_openai_request_truncate(&r, 10, NULL), YK_OK);
    assert_int_equal(r.prompts[0].n_ids, rows[i].n_first);
    assert_int_equal(r.prompts[1].n_ids, rows[i].n_second);
    if (r.keeps_beginning)
      assert_int_equal(r.prompts[0].ids[0], 5);
    else
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
                                     cmocka_unit_test(options_of_choices)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
