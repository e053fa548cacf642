/* Bodies of requests that are refused, with the name of the field. */
#include <stdio.h>
#include <string.h>

#include "unit/openai_bodies.h"

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

static void unsupported_fields_are_refused_by_name(void **state)
{
  (void)state;
  static const char *const both[] = {"logits_processors", "use_beam_search", "guided_whitespace_pattern",
                                     "repetition_detection"};
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
      {P "'response_format': {'type': 'json_schema'}}", "response_format", "json_schema\"", YK_E_FORMAT},
      {P "'response_format': {'type': 'json_schema', 'json_schema': {}}}", "response_format", "json_schema.schema",
       YK_E_FORMAT},
      {P "'response_format': {'type': 'json_schema', 'json_schema': {'schema': {}, 'strict': 1}}}", "response_format",
       "json_schema.strict\": expected true or false, found integer", YK_E_FORMAT},
      {P "'structured_outputs': {'json_object': 'yes'}}", "structured_outputs",
       "structured_outputs.json_object\": expected", YK_E_FORMAT},
      {P "'stop_token_ids': [1, 'x']}", "stop_token_ids", "stop_token_ids[1]\": expected an integer, found string",
       YK_E_FORMAT},
      {P "'stop': ['a', 5]}", "stop", "stop[1]\": expected a string, found integer", YK_E_FORMAT},
      {P "'logit_bias': {'7': 'x'}}", "logit_bias", "logit_bias.7\": expected a number, found string", YK_E_FORMAT},
      {P "'best_of': 'x'}", "best_of", "expected an integer, found string", YK_E_FORMAT},
      {P "'guided_regex': 5}", "guided_regex", "a string that is not empty", YK_E_FORMAT},
      {P "'guided_regex': ''}", "guided_regex", "a string that is not empty", YK_E_FORMAT},
      {P "'guided_grammar': ''}", "guided_grammar", "a string that is not empty", YK_E_FORMAT},
      {P "'guided_choice': ''}", "guided_choice", "an array of strings", YK_E_FORMAT},
      {P "'guided_choice': 'a'}", "guided_choice", "an array of strings", YK_E_FORMAT},
      {P "'guided_json': [1]}", "guided_json", "an object, or a string of JSON", YK_E_FORMAT},
      {P "'guided_json': {}, 'guided_regex': 'a'}", "guided_regex", "guided_json", YK_E_INVAL},
      {P "'structured_outputs': 'a'}", "structured_outputs", "an object", YK_E_FORMAT},
      {P "'structured_outputs': {'whitespace_pattern': 'x'}}", "structured_outputs", "\"whitespace_pattern\"",
       YK_E_UNSUPPORTED},
      {P "'structured_outputs': {'json': {}, 'regex': 'a'}}", "structured_outputs",
       "expected one constraint, found \"json\" and \"regex\"", YK_E_INVAL},
      {P "'structured_outputs': {}}", "structured_outputs", "expected one of \"json\", \"regex\"", YK_E_INVAL},
      {P "'structured_outputs': {'regex': null, 'json_object': false, 'disable_fallback': true}}", "structured_outputs",
       "expected one of \"json\"", YK_E_INVAL},
      {P "'structured_outputs': {'json_object': true, 'choice': ['a']}}", "structured_outputs",
       "expected one constraint", YK_E_INVAL},
      {P "'allowed_token_ids': []}", "allowed_token_ids", "at least one token id, found an empty one", YK_E_FORMAT},
      {P "'allowed_token_ids': [-1]}", "allowed_token_ids", "found -1", YK_E_FORMAT},
      {P "'response_format': 'text'}", "response_format", "an object", YK_E_FORMAT},
      {P "'detokenize': false}", "detokenize", "expected true", YK_E_UNSUPPORTED},
      {P "'truncate_prompt_tokens': 0}", "truncate_prompt_tokens", "at least 1, or -1", YK_E_INVAL},
      {P "'truncate_prompt_tokens': -2}", "truncate_prompt_tokens", "found -2", YK_E_FORMAT},
      {P "'truncation_side': 'Left'}", "truncation_side", "found \"Left\"", YK_E_INVAL},
      {P "'bad_words': 'x'}", "bad_words", "an array of texts", YK_E_FORMAT},
      {P "'bad_words': ['x', 5]}", "bad_words", "bad_words[1]\": expected a string, found integer", YK_E_FORMAT},
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
      {CHAT(", 'tools': [{'type': 'function', 'function': {'name': ''}}]"), "tools",
       "a string that is not empty, found an empty one", YK_E_FORMAT},
      {CHAT(", 'tool_choice': 'required'"), "tool_choice", "\"tools\" beside it", YK_E_INVAL},
      {CHAT(", 'tools': [" TOOL "], 'tool_choice': 'always'"), "tool_choice", "found \"always\"", YK_E_INVAL},
      {CHAT(", 'tools': [" TOOL "], 'tool_choice': {'type': 'function', 'function': {'name': 'g'}}"), "tool_choice",
       "no tool \"g\"", YK_E_INVAL},
      {CHAT(", 'guided_json': {}, 'tools': [" TOOL "], 'tool_choice': 'required'"), "tool_choice", "another constraint",
       YK_E_INVAL},
      {CHAT(", 'tool_choice': 5"), "tool_choice", "found integer", YK_E_FORMAT},
      {CHAT(", 'tool_choice': {'type': 'custom', 'function': {'name': 'f'}}"), "tool_choice", "the type \"custom\"",
       YK_E_UNSUPPORTED},
      {CHAT(", 'tool_choice': {'type': 'function', 'function': {'name': 5}}"), "tool_choice",
       "tool_choice.function.name\": expected a string, found integer", YK_E_FORMAT},
      {CHAT(", 'tools': [{'type': 'function', 'function': {'name': 'f', 'parameters': 5}}]"), "tools",
       "tools[0].function.parameters\": expected an object, found integer", YK_E_FORMAT},
      {CHAT(", 'tools': [{'type': 'function', 'function': {'name': 'f', 'strict': 'yes'}}]"), "tools",
       "tools[0].function.strict\": expected true or false, found string", YK_E_FORMAT},
      {CHAT(", 'tools': [{'type': 'function', 'function': {'name': 'f', 'description': 5}}]"), "tools",
       "tools[0].function.description\": expected a string, found integer", YK_E_FORMAT},
      {CHAT(", 'modalities': [5]"), "modalities", "found integer", YK_E_FORMAT},
      {"{'messages': [{'role': 'tool', 'content': 'x', 'tool_call_id': 5}]}", "messages",
       "messages[0].tool_call_id\": expected a string, found integer", YK_E_FORMAT},
      {"{'messages': [{'role': 'assistant', 'tool_calls': [{'id': 5, 'function': {'name': 'f'}}]}]}", "messages",
       "messages[0].tool_calls[0].id\": expected a string, found integer", YK_E_FORMAT},
      {CHAT(", 'chat_template_kwargs': []"), "chat_template_kwargs", "an object", YK_E_FORMAT},
      {CHAT(", 'documents': {}"), "documents", "an array", YK_E_FORMAT},
      {CHAT(", 'documents': ['x']"), "documents", "documents[0]", YK_E_FORMAT},
      {CHAT(", 'continue_final_message': true"), "continue_final_message", "add_generation_prompt", YK_E_INVAL},
      {CHAT(", 'modalities': ['text', 'audio']"), "modalities", "only \"text\"", YK_E_UNSUPPORTED},
      {CHAT(", 'modalities': 'text'"), "modalities", "an array", YK_E_FORMAT},
  };
  check_refusals(YK_FORM_CHAT, YK_TOOLS_HERMES, rows, N_ROWS(rows));
  static const refusal without_parser[] = {
      {CHAT(", 'tools': [" TOOL "]"), "tools",
       "start with --tool-call-parser and a name that --help lists (hermes, llama3_json", YK_E_UNSUPPORTED}};
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
    char *end = body + strlen(body);
    memset(end, '[', (size_t)depth);
    memset(end + depth, ']', (size_t)depth);
    end[2 * depth] = '}';
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
  char *end = body + strlen(body);
  memset(end, '[', 2 * YK_OPENAI_MAX_DEPTH);
  memcpy(end + 2 * YK_OPENAI_MAX_DEPTH, "'}", sizeof "'}");
  yk_openai_request request = openai_request(YK_FORM_COMPLETION, body);
  yk_openai_request_free(&request);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(bodies_that_are_no_request),
                                     cmocka_unit_test(values_out_of_range_or_of_another_type),
                                     cmocka_unit_test(unsupported_fields_are_refused_by_name),
                                     cmocka_unit_test(conversations_that_are_none),
                                     cmocka_unit_test(chat_fields_out_of_place),
                                     cmocka_unit_test(plain_lines_are_strict),
                                     cmocka_unit_test(depth_is_bounded),
                                     cmocka_unit_test(brackets_in_strings_are_text)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
