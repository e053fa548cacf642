/* Bodies of OpenAI's responses and of Anthropic's messages, as the chat completions that they become. Texts here have '
 * in place of ". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_case.h"
#include "openai/protocol.h"
#include "unit/openai_fixture.h"
#include "unit/single_quotes.h"

enum { MAX_BODY_BYTES = 1 << 20 };

static void note(void *user, const char *kind, const char *name)
{
  yk_strbuf_append_fmt(user, "%s %s;", kind, name);
}

/* Parts of the request that are left out are appended to notes. */
static yk_status parse(const yk_protocol *protocol, const char *body, yk_strbuf *notes, yk_openai_request *out,
                       yk_err *err)
{
  yk_openai_defaults defaults = openai_defaults(YK_TOOLS_HERMES);
  char *json = double_quoted(body);
  defaults.pass_over = notes ? note : NULL;
  defaults.user = notes;
  yk_status status = yk_protocol_parse(protocol, json, strlen(json), MAX_BODY_BYTES, &defaults, out, err);
  free(json);
  return status;
}

static yk_openai_request accept(const yk_protocol *protocol, const char *body, yk_strbuf *notes)
{
  yk_err err = YK_ERR_INIT;
  yk_openai_request request;
  if (parse(protocol, body, notes, &request, &err) != YK_OK) fail_msg("%s: %s", body, err.message);
  return request;
}

static void expect_json(yk_json value, const char *expected)
{
  yk_strbuf text = YK_STRBUF_INIT;
  char *copy = double_quoted(expected);
  yk_json_append(&text, value, 0);
  assert_string_equal(text.data, copy);
  yk_strbuf_free(&text);
  free(copy);
}

typedef struct row {
  const char *body, *expected;
} row;

static void check_messages(const yk_protocol *protocol, const row *rows, size_t n)
{
  for (size_t i = 0; each_case(i, i < n); i++) {
    yk_openai_request request = accept(protocol, rows[i].body, NULL);
    expect_json(request.chat.messages, rows[i].expected);
    yk_openai_request_free(&request);
  }
}

typedef struct refusal {
  const char *body, *param, *message; /* a part of the message */
} refusal;

static void check_refusals(const yk_protocol *protocol, const refusal *rows, size_t n)
{
  for (size_t i = 0; each_case(i, i < n); i++) {
    yk_err err = YK_ERR_INIT;
    yk_openai_request request;
    yk_openai_error error;
    if (parse(protocol, rows[i].body, NULL, &request, &err) == YK_OK) fail_msg("accepted: %s", rows[i].body);
    yk_protocol_error_of(protocol, &err, request.param[0] ? request.param : NULL, &error);
    if (!strstr(error.message, rows[i].message)) fail_msg("%s: %s", rows[i].body, error.message);
    assert_string_equal(error.param, rows[i].param);
    assert_int_equal(error.http_status, 400);
    yk_openai_request_free(&request);
  }
}

/* ---- Responses --------------------------------------------------------------------------------------------------- */

#define INPUT(items) "{'input': [" items "]}"
#define USER(text)   "{'role': 'user', 'content': '" text "'}"
#define CALLED                                                                                                         \
  "'tool_calls': [{'id': 'c1', 'type': 'function', 'function': {'name': 'f', 'arguments': '{\\'a\\': 1}'}}]"

static void items_become_messages(void **state)
{
  (void)state;
  static const row rows[] = {
      {"{'input': 'x', 'instructions': 'Be brief.'}",
       "[{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'x'}]"},
      {"{'instructions': 'A', 'input': [{'role': 'system', 'content': 'B'}, {'role': 'developer', 'content': 'C'}]}",
       "[{'role': 'system', 'content': [{'type': 'text', 'text': 'A'}, {'type': 'text', 'text': 'B'}]}, {'role': "
       "'developer', 'content': 'C'}]"},
      {INPUT("{'type': 'message', 'role': 'user', 'content': [{'type': 'input_text', 'text': 'a'}, {'type': "
             "'input_text', 'text': 'b'}]}"),
       "[{'role': 'user', 'content': [{'type': 'text', 'text': 'a'}, {'type': 'text', 'text': 'b'}]}]"},
      {INPUT(USER("x") ", {'type': 'reasoning', 'id': 'r', 'summary': [], 'content': [{'type': 'reasoning_text', "
                       "'text': 'so'}]}, {'type': 'message', 'id': 'm', 'role': 'assistant', 'status': 'completed', "
                       "'content': [{'type': 'output_text', 'text': 'y', 'annotations': []}]}, {'type': "
                       "'function_call', 'id': 'i', 'call_id': 'c1', 'name': 'f', 'arguments': '{\\'a\\': 1}'}, "
                       "{'type': 'function_call_output', 'call_id': 'c1', 'output': 'ok'}"),
       "[" USER("x") ", {'role': 'assistant', 'content': 'y', 'reasoning': 'so', " CALLED
                     "}, {'role': 'tool', 'content': 'ok', 'tool_call_id': 'c1'}]"},
      {INPUT("{'type': 'function_call', 'call_id': 'c1', 'name': 'f', 'arguments': '{\\'a\\': 1}'}, {'type': "
             "'function_call_output', 'call_id': 'c1', 'output': [{'type': 'input_text', 'text': 'a'}]}"),
       "[{'role': 'assistant', 'content': null, " CALLED "}, {'role': 'tool', 'content': 'a', 'tool_call_id': 'c1'}]"},
      {INPUT("{'role': 'assistant', 'content': 'a'}, {'role': 'assistant', 'content': 'b'}"),
       "[{'role': 'assistant', 'content': 'a'}, {'role': 'assistant', 'content': 'b'}]"},
      {INPUT("{'type': 'reasoning', 'summary': [], 'encrypted_content': 'yoke:so'}, {'role': 'assistant', 'content': "
             "'a'}"),
       "[{'role': 'assistant', 'content': 'a', 'reasoning': 'so'}]"},
      {INPUT("{'type': 'reasoning', 'summary': [], 'encrypted_content': 'gAAA'}, " USER("x")), "[" USER("x") "]"},
      {INPUT("{'type': 'custom_tool_call', 'call_id': 'c1', 'name': 'p', 'input': 'x'}, {'type': "
             "'custom_tool_call_output', 'call_id': 'c1', 'output': 'ok'}"),
       "[{'role': 'assistant', 'content': null, 'tool_calls': [{'id': 'c1', 'type': 'function', 'function': {'name': "
       "'p', 'arguments': '{\\'input\\':\\'x\\'}'}}]}, {'role': 'tool', 'content': 'ok', 'tool_call_id': 'c1'}]"},
      {INPUT("{'type': 'local_shell_call', 'call_id': 'c1', 'status': 'completed', 'action': {'type': 'exec', "
             "'command': ['ls']}}, {'type': 'function_call_output', 'call_id': 'c1', 'output': 'ok'}, {'type': "
             "'local_shell_call_output', 'id': 'c1', 'output': 'on'}"),
       "[{'role': 'assistant', 'content': null, 'tool_calls': [{'id': 'c1', 'type': 'function', 'function': {'name': "
       "'local_shell_call', 'arguments': '{\\'action\\':{\\'type\\': \\'exec\\', \\'command\\': [\\'ls\\']}}'}}]}, "
       "{'role': 'tool', 'content': 'ok', 'tool_call_id': 'c1'}, {'role': 'tool', 'content': 'on', 'tool_call_id': "
       "'c1'}]"},
      {INPUT(USER("x") ", {'type': 'agent_message', 'author': '/root', 'recipient': '/root/w', 'content': [{'type': "
                       "'input_text', 'text': 'a'}, {'type': 'encrypted_content', 'encrypted_content': 'b'}]}, "
                       "{'type': 'ghost_snapshot', 'ghost_commit': {}}, {'type': 'agent_message', 'author': 'w', "
                       "'recipient': '/root', 'content': null}"),
       "[" USER("x") ", {'role': 'user', 'content': [{'type': 'text', 'text': 'a'}, {'type': 'text', 'text': "
                     "'b'}]}, " USER("") "]"},
  };
  check_messages(&yk_protocol_responses, rows, sizeof rows / sizeof *rows);
}

static void fields_of_responses(void **state)
{
  (void)state;
  yk_strbuf notes = YK_STRBUF_INIT;
  yk_openai_request r = accept(
      &yk_protocol_responses,
      "{'input': [{'type': 'additional_tools', 'role': 'developer', 'tools': [{'type': 'namespace', 'name': 'n', "
      "'tools': []}, {'type': 'function', 'name': 'g'}]}, " USER(
          "x") "], 'model': 'm', 'max_output_tokens': 7, "
               "'temperature': 0.5, 'stream': true, 'store': false, 'reasoning': {'effort': 'low', 'summary': 'auto'}, "
               "'include': ['reasoning.encrypted_content'], 'parallel_tool_calls': false, 'tools': [{'type': "
               "'function', "
               "'name': 'f', 'description': 'd', 'parameters': {'type': 'object'}, 'strict': false}, {'type': "
               "'web_search'}, "
               "{'type': 'custom', 'name': 'c'}, {'type': 'image_generation'}], 'other': 1}",
      &notes);
  assert_string_equal(r.model, "m");
  assert_int_equal(r.sampling.max_tokens, 7);
  assert_true(r.stream && r.encrypts_reasoning && !r.chat.parallel_tool_calls && !r.is_empty);
  assert_string_equal(r.chat.reasoning_effort, "low");
  expect_json(r.chat.tools,
              "[{'type': 'function', 'function': {'name': 'f', 'description': 'd', 'parameters': {'type': 'object'}, "
              "'strict': false}}, {'type': 'function', 'function': {'name': 'g'}}]");
  assert_string_equal(notes.data, "field other;tool type web_search;tool type custom;tool type image_generation;"
                                  "tool type namespace;");
  assert_non_null(strstr(r.repeated, "\"max_output_tokens\":7,"));
  yk_openai_request_free(&r);
  yk_strbuf_free(&notes);

  r = accept(&yk_protocol_responses,
             "{'input': 'x', 'text': {'format': {'type': 'json_schema', 'name': 's', 'schema': {'type': 'object'}}}}",
             NULL);
  assert_int_equal(r.sampling.constraint_kind, YK_CONSTRAINT_JSON_SCHEMA);
  yk_openai_request_free(&r);
  r = accept(&yk_protocol_responses,
             "{'input': 'x', 'tools': [{'type': 'function', 'name': 'f'}, {'type': 'function', 'name': 'g'}], "
             "'tool_choice': {'type': 'allowed_tools', 'mode': 'auto', 'tools': [{'type': 'function', 'name': 'g'}]}}",
             NULL);
  expect_json(r.chat.tools, "[{'type': 'function', 'function': {'name': 'g'}}]");
  yk_openai_request_free(&r);
  r = accept(&yk_protocol_responses, "{'input': [], 'instructions': 'x'}", NULL);
  assert_true(r.is_empty);
  yk_openai_request_free(&r);
}

/* The last item that changes a setting counts, before the body. */
static void changed_settings(void **state)
{
  (void)state;
#define UPDATE(settings) "{'type': 'configuration_update', " settings "}"
  yk_openai_request r = accept(
      &yk_protocol_responses,
      "{'reasoning': {'effort': 'low'}, 'text': {'format': {'type': 'json_object'}}, 'input': [" USER("x") ", " UPDATE(
          "'reasoning': {'effort': 'high'}") ", " UPDATE("'text': {'format': {'type': 'text'}}") "]}",
      NULL);
  assert_string_equal(r.chat.reasoning_effort, "high");
  assert_int_equal(r.sampling.constraint_kind, YK_CONSTRAINT_NONE);
  yk_openai_request_free(&r);
  static const refusal rows[] = {
      {"{'input': [" USER("x") ", " UPDATE("'text': 5") "]}", "text", "an object"},
      {"{'input': [" USER("x") ", " UPDATE("'reasoning': {'effort': 5}") "]}", "reasoning.effort", "a string"},
  };
  check_refusals(&yk_protocol_responses, rows, sizeof rows / sizeof *rows);
}

static void refused_responses(void **state)
{
  (void)state;
  static const refusal rows[] = {
      {"[]", "", "expected an object"},
      {"{}", "input", "input: expected"},
      {"{'input': 5}", "input", "a string or an array of items"},
      {INPUT("5"), "input[0]", "an object"},
      {INPUT("{'role': 'robot', 'content': 'x'}"), "input[0].role", "\"robot\""},
      {INPUT("{'role': 'user'}"), "input[0].content", "nothing"},
      {INPUT("{'role': 'user', 'content': [{'type': 'input_image', 'image_url': 'x'}]}"), "input[0].content[0]",
       "input_image"},
      {INPUT("{'role': 'user', 'content': [{'type': 'input_text', 'text': 5}]}"), "input[0].content[0]", "a string"},
      {INPUT("{'type': 'function_call_output', 'call_id': 'c', 'output': 'x'}"), "input[0].call_id",
       "No tool call found for function call output with call_id c"},
      {INPUT("{'type': 'function_call', 'call_id': 'c', 'name': 'f', 'arguments': {}}"), "input[0].arguments",
       "a string"},
      {INPUT("{'type': 'item_reference', 'id': 'r1'}"), "input[0].id", "Item with id 'r1' not found"},
      {INPUT("{'type': 'nonsense'}"), "input[0].type", "nonsense"},
      {"{'input': 'x', 'previous_response_id': 'r1'}", "previous_response_id", "Previous response with id 'r1' not"},
      {"{'input': 'x', 'max_output_tokens': 0}", "max_output_tokens", "max_output_tokens"},
      {"{'input': 'x', 'temperature': 'hot'}", "temperature", "a number"},
      {"{'input': 'x', 'tools': [{'type': 'mcp'}]}", "tools[0]", "mcp"},
      {"{'input': 'x', 'tools': [{'type': 'function'}]}", "tools[0]", "name"},
      {"{'input': 'x', 'tool_choice': {'type': 'web_search'}}", "tool_choice", "allowed_tools"},
      {"{'input': 'x', 'tool_choice': 'required'}", "tool_choice", "tools"},
      {"{'input': 'x', 'text': {'format': {'type': 'json_schema', 'schema': {}, 'strict': 1}}}", "text.format.strict",
       "expected true or false, found integer"},
      {"{'input': 'x', 'tool_choice': 5}", "tool_choice", "found integer"},
      {"{'input': 'x', 'tool_choice': {'type': 'function'}}", "tool_choice.name", "expected a string, found nothing"},
      {"{'input': 'x', 'tools': [{'type': 'function', 'name': 'f', 'strict': 'yes'}]}", "tools[0].strict",
       "expected true or false, found string"},
      {"{'input': 'x', 'text': {'format': {'type': 'xml'}}}", "text.format", "xml"},
      {"{'input': 'x', 'text': {'format': {'type': 'json_schema'}}}", "text.format.schema", "an object"},
      {"{'input': 'x', 'include': ['message.output_text.logprobs']}", "include", "not supported"},
      {"{'input': 'x', 'background': true}", "background", "not supported"},
      {"{'input': 'x', 'moderation': {'model': 'm'}}", "moderation", "not supported"},
      {"{'input': 'x', 'metadata': 'm'}", "metadata", "an object, found string"},
      {"{'input': 'x', 'store': 1}", "store", "true or false, found integer"},
      {"{'input': 'x', 'user': {}}", "user", "a string, found object"},
      {"{'input': 'x', 'max_tool_calls': '1'}", "max_tool_calls", "a number, found string"},
      {INPUT("{'type': 'local_shell_call', 'call_id': 'c', 'action': 5}"), "input[0].action", "an object"},
      {INPUT("{'type': 'local_shell_call_output', 'id': 'c', 'output': 'x'}"), "input[0].id", "No tool call found"},
      {"{'input': 'x', 'conversation': 'c'}", "conversation", "not supported"},
      {"{'input': 'x', 'truncation': 'auto'}", "truncation", "disabled"},
      {"{'input': 'x', 'reasoning': {'effort': 5}}", "reasoning.effort", "a string"},
  };
  check_refusals(&yk_protocol_responses, rows, sizeof rows / sizeof *rows);
}

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

#define TURNS(turns) "{'max_tokens': 9, 'messages': [" turns "]}"
#define CALL_TURN    "{'role': 'assistant', 'content': [" CALL_BLOCK "]}"
#define CALL_BLOCK   "{'type': 'tool_use', 'id': 'c1', 'name': 'f', 'input': {'a': 1}}"

static void turns_become_messages(void **state)
{
  (void)state;
  static const row rows[] = {
      {"{'max_tokens': 9, 'system': 'S', 'messages': [" USER("x") "]}",
       "[{'role': 'system', 'content': 'S'}, " USER("x") "]"},
      {"{'max_tokens': 9, 'system': [{'type': 'text', 'text': 'x-anthropic-billing-header: a; cch=1'}, {'type': "
       "'text', 'text': 'S', 'cache_control': {'type': 'ephemeral'}}], 'messages': [" USER("x") "]}",
       "[{'role': 'system', 'content': 'S'}, " USER("x") "]"},
      {"{'max_tokens': 9, 'system': 'x-anthropic-billing-header: a\\nS\\nT', 'messages': [" USER("x") "]}",
       "[{'role': 'system', 'content': 'S\\nT'}, " USER("x") "]"},
      {TURNS(USER("x") ", {'role': 'system', 'content': 'S'}, " USER("y")),
       "[" USER("x") ", {'role': 'system', 'content': 'S'}, " USER("y") "]"},
      {TURNS(USER("x") ", {'role': 'assistant', 'content': [{'type': 'thinking', 'thinking': 'so', 'signature': 's'}, "
                       "{'type': 'redacted_thinking', 'data': 'd'}, {'type': 'text', 'text': 'y'}, {'type': "
                       "'tool_use', 'id': 'c1', 'name': 'f', 'input': {'a': 1}}]}, {'role': 'user', 'content': "
                       "[{'type': 'tool_result', 'tool_use_id': 'c1', 'content': [{'type': 'text', 'text': 'ok'}]}, "
                       "{'type': 'text', 'text': 'on'}]}"),
       "[" USER("x") ", {'role': 'assistant', 'content': 'y', 'reasoning': 'so', " CALLED
                     "}, {'role': 'tool', 'content': 'ok', 'tool_call_id': 'c1'}, " USER("on") "]"},
      {TURNS(CALL_TURN ", {'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': 'c1', 'is_error': "
                       "true}]}"),
       "[{'role': 'assistant', 'content': null, " CALLED "}, {'role': 'tool', 'content': '', 'tool_call_id': 'c1'}]"},
      {TURNS(CALL_TURN ", {'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': 'c1', 'content': "
                       "[{'type': 'tool_reference', 'tool_name': 'g'}]}]}"),
       "[{'role': 'assistant', 'content': null, " CALLED "}, {'role': 'tool', 'content': 'g', 'tool_call_id': 'c1'}]"},
      {TURNS("{'role': 'assistant', 'content': [{'type': 'compaction', 'content': 'S', 'signature': 's'}]}, "
             "{'role': 'user', 'content': [{'type': 'compaction', 'content': null}, {'type': 'text', 'text': 'x'}]}"),
       "[{'role': 'assistant', 'content': 'S'}, " USER("x") "]"},
      {TURNS(USER("x") ", {'role': 'assistant', 'content': [{'type': 'server_tool_use', 'id': 's', 'name': 'advisor', "
                       "'input': {}}, {'type': 'advisor_tool_result', 'tool_use_id': 's', 'content': {}}, {'type': "
                       "'fallback', 'from': {}, 'to': {}}, {'type': 'text', 'text': 'y'}]}, " USER("z")),
       "[" USER("x") ", {'role': 'assistant', 'content': 'y'}, " USER("z") "]"},
      {TURNS(USER("x") ", {'role': 'system', 'clear_at': 'next_user_message', 'content': 'S'}, " USER(
           "y") ", {'role': "
                "'system', 'clear_at': 'next_user_message', 'content': [{'type': 'text', 'text': 'T'}, {'type': "
                "'tool_addition', 'tool': {}}]}, {'role': 'system', 'output_config': {'effort': 'low'}}"),
       "[{'role': 'user', 'content': [{'type': 'text', 'text': 'x'}, {'type': 'text', 'text': 'y'}]}, {'role': "
       "'system', 'content': 'T'}]"},
      {TURNS(USER("a") ", " USER("b")),
       "[{'role': 'user', 'content': [{'type': 'text', 'text': 'a'}, {'type': 'text', 'text': 'b'}]}]"},
  };
  check_messages(&yk_protocol_messages, rows, sizeof rows / sizeof *rows);
}

#define CONTENT(blocks) "{'role': 'user', 'content': [" blocks "]}"
#define RESULT(blocks)  CONTENT("{'type': 'tool_result', 'tool_use_id': 'c1', 'content': [" blocks "]}")
#define FOUND                                                                                                          \
  "{'type': 'search_result', 'source': 'https://a', 'title': 'T', 'citations': {'enabled': true}, 'content': "         \
  "[{'type': 'text', 'text': 'a'}, {'type': 'text', 'text': 'b'}]}"
#define FOUND_TEXT                                                                                                     \
  "<search_result>\\n<source>https://a</source>\\n<title>T</title>\\n<content>\\na\\nb\\n</content>\\n</"              \
  "search_result>"

static void documents_become_texts(void **state)
{
  (void)state;
  static const row rows[] = {
      {TURNS(CONTENT("{'type': 'document', 'title': 'T', 'context': 'C', 'cache_control': {}, 'citations': {}, "
                     "'source': {'type': 'text', 'media_type': 'text/plain', 'data': 'x\\ny'}}")),
       "[" USER("<document>\\n<title>T</title>\\n<context>C</context>\\n<document_content>\\nx\\ny\\n"
                "</document_content>\\n</document>") "]"},
      {TURNS(CONTENT("{'type': 'text', 'text': 'x'}, {'type': 'document', 'title': null, 'source': {'type': 'content', "
                     "'content': [{'type': 'text', 'text': 'y'}, {'type': 'text', 'text': 'z'}]}}")),
       "[{'role': 'user', 'content': [{'type': 'text', 'text': 'x'}, {'type': 'text', 'text': "
       "'<document>\\n<document_content>\\ny\\nz\\n</document_content>\\n</document>'}]}]"},
      {TURNS(CONTENT("{'type': 'document', 'source': {'type': 'content', 'content': 'y'}}")),
       "[" USER("<document>\\n<document_content>\\ny\\n</document_content>\\n</document>") "]"},
      {TURNS(CONTENT(FOUND)), "[" USER(FOUND_TEXT) "]"},
      {TURNS(CALL_TURN ", " RESULT(FOUND ", {'type': 'text', 'text': 'x'}")),
       "[{'role': 'assistant', 'content': null, " CALLED
       "}, {'role': 'tool', 'content': [{'type': 'text', 'text': '" FOUND_TEXT
       "'}, {'type': 'text', 'text': 'x'}], 'tool_call_id': 'c1'}]"},
  };
  check_messages(&yk_protocol_messages, rows, sizeof rows / sizeof *rows);
  check_messages(&yk_protocol_messages_count, rows, sizeof rows / sizeof *rows);
}

static void refused_documents(void **state)
{
  (void)state;
#define DOCUMENT(source) TURNS(CONTENT("{'type': 'document', 'source': " source "}"))
  static const refusal rows[] = {
      {DOCUMENT("{'type': 'base64', 'media_type': 'application/pdf', 'data': 'JVBERi0='}"),
       "messages[0].content[0].source", "PDF files and other sources of type \"base64\" are not"},
      {DOCUMENT("{'type': 'file', 'file_id': 'f'}"), "messages[0].content[0].source", "\"file\""},
      {DOCUMENT("{'type': 'url', 'url': 'https://a'}"), "messages[0].content[0].source", "\"url\""},
      {DOCUMENT("'x'"), "messages[0].content[0].source", "\"type\""},
      {DOCUMENT("{'type': 'text'}"), "messages[0].content[0].source.data", "a string"},
      {DOCUMENT("{'type': 'content', 'content': {}}"), "messages[0].content[0].source.content", "an array of texts"},
      {DOCUMENT("{'type': 'content', 'content': [{'type': 'image'}]}"), "messages[0].content[0].source.content[0]",
       "\"image\""},
      {DOCUMENT("{'type': 'content', 'content': [5]}"), "messages[0].content[0].source.content[0]", "\"text\""},
      {TURNS(CONTENT("{'type': 'document', 'title': 5}")), "messages[0].content[0].title", "a string"},
      {TURNS(CONTENT("{'type': 'search_result', 'title': 'T', 'content': []}")), "messages[0].content[0].source",
       "a string"},
      {TURNS(CALL_TURN ", " RESULT("{'type': 'search_result', 'source': 's', 'title': 'T', 'content': 'x'}")),
       "messages[1].content[0].content[0].content", "an array of texts"},
  };
  check_refusals(&yk_protocol_messages, rows, sizeof rows / sizeof *rows);
}

/* A tool that a message of the system defines is offered like those of "tools". */
static void tools_in_messages(void **state)
{
  (void)state;
#define ADDITION(definition)                                                                                           \
  TURNS(USER("x") ", {'role': 'system', 'content': [{'type': 'tool_addition', 'tool': {'type': 'tool_definition', "    \
                  "'definition': " definition "}}]}")
  yk_openai_request r =
      accept(&yk_protocol_messages, ADDITION("{'name': 'f', 'input_schema': {'type': 'object'}}"), NULL);
  expect_json(r.chat.tools, "[{'type': 'function', 'function': {'name': 'f', 'parameters': {'type': 'object'}}}]");
  yk_openai_request_free(&r);
  static const row changes[] = {
      {TURNS(CONTENT("{'type': 'tool_removal', 'tool': {'type': 'tool_reference', 'name': 'f'}}, {'type': 'text', "
                     "'text': 'x'}")),
       "[" USER("x") "]"}};
  check_messages(&yk_protocol_messages, changes, sizeof changes / sizeof *changes);
  static const refusal rows[] = {
      {ADDITION("{'name': 'f'}"), "messages[1].content[0].tool.definition", "input_schema"},
      {ADDITION("{'type': 'bash_20250124', 'name': 'f'}"), "messages[1].content[0].tool.definition", "bash_20250124"},
  };
  check_refusals(&yk_protocol_messages, rows, sizeof rows / sizeof *rows);
}

static void fields_of_messages(void **state)
{
  (void)state;
  yk_strbuf notes = YK_STRBUF_INIT;
  yk_openai_request r = accept(
      &yk_protocol_messages,
      "{'max_tokens': 9, 'messages': [" USER(
          "x") "], 'stop_sequences': ['a', 'b'], 'top_k': 3, 'metadata': "
               "{'user_id': 'u'}, 'thinking': {'type': 'enabled', 'budget_tokens': 1024}, 'tools': [{'name': 'f', "
               "'description': 'd', 'input_schema': {'type': 'object'}, 'cache_control': {'type': 'ephemeral'}}, "
               "{'type': "
               "'web_search_20250305', 'name': 'web_search'}], 'tool_choice': {'type': 'auto', "
               "'disable_parallel_tool_use': "
               "true}, 'context_management': {'edits': []}, 'output_config': {'effort': 'high'}, 'other': {}}",
      &notes);
  assert_int_equal(r.sampling.max_tokens, 9);
  assert_int_equal(r.sampling.n_stop_strings, 2);
  assert_int_equal(r.sampling.top_k, 3);
  assert_int_equal(r.sampling.max_reasoning_tokens, -1); /* the model has no tags of reasoning */
  assert_false(r.chat.parallel_tool_calls);
  assert_true(r.include_reasoning && r.chat.add_generation_prompt);
  assert_string_equal(r.chat.reasoning_effort, "high");
  expect_json(r.chat.template_kwargs, "{'enable_thinking': true}");
  expect_json(r.chat.tools, "[{'type': 'function', 'function': {'name': 'f', 'description': 'd', 'parameters': "
                            "{'type': 'object'}}}]");
  assert_string_equal(notes.data, "field other;tool type web_search_20250305;");
  yk_openai_request_free(&r);
  yk_strbuf_free(&notes);

  r = accept(&yk_protocol_messages,
             "{'max_tokens': 9, 'messages': [" USER(
                 "x") ", {'role': 'assistant', 'content': 'The'}], 'thinking': "
                      "{'type': 'disabled'}, 'chat_template_kwargs': {'a': 1}, 'output_config': {'format': {'type': "
                      "'json_schema', 'schema': {'type': 'object'}}}}",
             NULL);
  assert_true(r.chat.continue_final_message && !r.chat.add_generation_prompt && !r.include_reasoning);
  expect_json(r.chat.template_kwargs, "{'a': 1, 'enable_thinking': false}");
  assert_int_equal(r.sampling.constraint_kind, YK_CONSTRAINT_JSON_SCHEMA);
  yk_openai_request_free(&r);
  r = accept(&yk_protocol_messages_count, "{'messages': [" USER("x") "]}", NULL);
  yk_openai_request_free(&r);
}

/* A model whose reasoning is a message with a channel ignores a budget, like a model without reasoning. */
static void budget_without_tags(void **state)
{
  (void)state;
  yk_openai_defaults defaults = openai_defaults(YK_TOOLS_OPENAI);
  defaults.style.reasoning = yk_reasoning_find("openai_gptoss");
  char *json = double_quoted(
      "{'max_tokens': 9, 'thinking': {'type': 'enabled', 'budget_tokens': 1024}, 'messages': [" USER("x") "]}");
  yk_openai_request request;
  yk_err err = YK_ERR_INIT;
  yk_status status =
      yk_protocol_parse(&yk_protocol_messages, json, strlen(json), MAX_BODY_BYTES, &defaults, &request, &err);
  free(json);
  if (status != YK_OK) fail_msg("%s", err.message);
  assert_int_equal(request.sampling.max_reasoning_tokens, -1);
  yk_openai_request_free(&request);
}

static void refused_messages(void **state)
{
  (void)state;
  static const refusal rows[] = {
      {"5", "", "expected an object"},
      {"{'messages': [" USER("x") "]}", "max_tokens", "max_tokens: expected, but missing"},
      {"{'max_tokens': '9', 'messages': [" USER("x") "]}", "max_tokens", "max_tokens"},
      {"{'max_tokens': 9}", "messages", "an array of messages"},
      {TURNS(""), "messages", "at least one"},
      {TURNS("'x'"), "messages[0]", "an object"},
      {TURNS("{'role': 'tool', 'content': 'x'}"), "messages[0].role", "\"tool\""},
      {TURNS("{'role': 'user', 'content': 5}"), "messages[0].content", "a string or an array"},
      {TURNS("{'role': 'user', 'content': ['x']}"), "messages[0].content[0]", "\"type\""},
      {TURNS("{'role': 'user', 'content': [{'type': 'image', 'source': {}}]}"), "messages[0].content[0]", "\"image\""},
      {TURNS("{'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': 'c'}]}"),
       "messages[0].content[0].tool_use_id", "unexpected `tool_use_id`"},
      {TURNS(CALL_TURN ", {'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': 'c1', 'content': "
                       "[{'type': 'image'}]}]}"),
       "messages[1].content[0].content[0]", "\"image\""},
      {TURNS("{'role': 'assistant', 'content': [{'type': 'tool_use', 'id': 'c', 'name': 'f', 'input': 'x'}]}"),
       "messages[0].content[0].input", "an object"},
      {TURNS(USER("x") ", " CALL_TURN), "messages", "results"},
      {"{'max_tokens': 9, 'system': 5, 'messages': [" USER("x") "]}", "system", "a string or an array"},
      {"{'max_tokens': 9, 'stop_sequences': 'x', 'messages': [" USER("x") "]}", "stop_sequences", "an array"},
      {"{'max_tokens': 9, 'tools': [{'name': 'f'}], 'messages': [" USER("x") "]}", "tools[0]", "input_schema"},
      {"{'max_tokens': 9, 'tools': [{'type': 'bash_20250124', 'name': 'bash'}], 'messages': [" USER("x") "]}",
       "tools[0]", "bash_20250124"},
      {"{'max_tokens': 9, 'tool_choice': 'auto', 'messages': [" USER("x") "]}", "tool_choice", "an object"},
      {"{'max_tokens': 9, 'thinking': {'type': 'deep'}, 'messages': [" USER("x") "]}", "thinking", "deep"},
      {"{'max_tokens': 9, 'thinking': {'type': 'enabled', 'budget_tokens': 0}, 'messages': [" USER("x") "]}",
       "thinking.budget_tokens", "1 to"},
      {"{'max_tokens': 9, 'thinking': {'type': 'enabled', 'budget_tokens': '9'}, 'messages': [" USER("x") "]}",
       "thinking.budget_tokens", "an integer"},
      {"{'max_tokens': 9, 'tool_choice': {'type': 'auto', 'disable_parallel_tool_use': 'x'}, 'messages': [" USER(
           "x") "]}",
       "tool_choice.disable_parallel_tool_use", "expected true or false, found string"},
      {"{'max_tokens': 9, 'tools': [{'name': 'f', 'input_schema': {}, 'strict': 'yes'}], 'messages': [" USER("x") "]}",
       "tools[0].strict", "expected true or false, found string"},
      {"{'max_tokens': 9, 'mcp_servers': [{}], 'messages': [" USER("x") "]}", "mcp_servers", "not supported"},
      {"{'max_tokens': 9, 'thread': {'type': 'continue', 'previous_message_id': 'm'}, 'messages': [" USER("x") "]}",
       "thread", "not stored here"},
      {"{'max_tokens': 9, 'compaction': {'type': 'c'}, 'messages': [" USER("x") "]}", "compaction", "not supported"},
      {"{'max_tokens': 9, 'metadata': [], 'messages': [" USER("x") "]}", "metadata", "an object, found array"},
      {TURNS("{'role': 'system', 'clear_at': 5, 'content': 'S'}"), "messages[0].clear_at", "next_user_message"},
      {TURNS(CALL_TURN ", {'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': 'c1', 'content': "
                       "[{'type': 'tool_reference'}]}]}"),
       "messages[1].content[0].content[0]", "tool_name"},
  };
  check_refusals(&yk_protocol_messages, rows, sizeof rows / sizeof *rows);
}

static void embeddings(void **state)
{
  (void)state;
  yk_strbuf notes = YK_STRBUF_INIT;
  yk_openai_request r = accept(&yk_protocol_embeddings,
                               "{'input': ['a', ''], 'model': 'm', 'dimensions': 7, 'encoding_format': 'base64', "
                               "'user': 'u', 'n': 3, 'messages': [5]}",
                               &notes);
  assert_int_equal(yk_openai_request_choices(&r), 2);
  assert_string_equal(r.prompts[0].text, "a");
  assert_true(r.is_base64 && r.add_special_tokens && !r.stream);
  assert_int_equal(r.n_dimensions, 7);
  assert_string_equal(notes.data, "field n;field messages;");
  yk_openai_request_free(&r);
  yk_strbuf_free(&notes);
  r = accept(&yk_protocol_embeddings, "{'input': [[5, 6], [7]], 'encoding_format': null}", NULL);
  yk_request_options options;
  yk_openai_request_options_of(&r, 1, 100, &options);
  assert_true(options.embeds && options.n_ids == 1 && options.ids[0] == 7 && options.embedding_size == 0);
  yk_openai_request_free(&r);
  static const refusal rows[] = {
      {"{}", "input", "missing"},
      {"{'input': null}", "input", "missing"},
      {"{'input': {'a': 1}}", "input", "a string"},
      {"{'input': ['a', [5]]}", "input", "found both"},
      {"{'input': 'a', 'dimensions': 0}", "dimensions", "expected 1"},
      {"{'input': 'a', 'encoding_format': 'int8'}", "encoding_format", "\"int8\""},
      {"{'input': 'a', 'truncate_prompt_tokens': 0}", "truncate_prompt_tokens", "at least 1, or -1"},
      {"{'input': 'a', 'truncate_prompt_tokens': '3'}", "truncate_prompt_tokens", "an integer"},
      {"{'input': 'a', 'truncation_side': 'top'}", "truncation_side", "\"left\" or \"right\""},
      {"{'input': 'a', 'truncation_side': 1}", "truncation_side", "a string"}};
  check_refusals(&yk_protocol_embeddings, rows, sizeof rows / sizeof *rows);
}

/* Agents request the same number of tokens from a model of any size, and shorten a conversation when the error has
 * Anthropic's message. */
static void lengths(void **state)
{
  (void)state;
  static const struct {
    const yk_protocol *protocol;
    const char *body;
    int32_t expected; /* with 99 tokens of context for the output */
  } rows[] = {{&yk_protocol_messages, "{'max_tokens': 32000, 'messages': [" USER("x") "]}", 99},
              {&yk_protocol_messages, "{'max_tokens': 9, 'messages': [" USER("x") "]}", 9},
              {&yk_protocol_responses, "{'max_output_tokens': 32000, 'input': 'x'}", 99},
              {&yk_protocol_chat, "{'max_tokens': 32000, 'messages': [" USER("x") "]}", 32000}};
  for (size_t i = 0; each_case(i, i < sizeof rows / sizeof *rows); i++) {
    yk_openai_request r = accept(rows[i].protocol, rows[i].body, NULL);
    yk_request_options options;
    r.prompts[0].n_ids = 1;
    yk_openai_request_options_of(&r, 0, 100, &options);
    assert_int_equal(options.sampling.max_tokens, rows[i].expected);
    yk_openai_request_free(&r);
  }
  static const struct {
    const char *found, *shown;
  } texts[] = {{"prompt: expected at most 511 tokens, found 608: this model's maximum context length is 512",
                "prompt is too long: 608 tokens > 511 maximum"},
               {"prompt: expected at most 512 tokens, found more in a text of 9999 bytes: this model's maximum",
                "prompt is too long: more than 512 tokens > 512 maximum"}};
  for (size_t i = 0; each_case(i, i < sizeof texts / sizeof *texts); i++) {
    yk_err err = YK_ERR_INIT;
    yk_openai_error error;
    yk_err_set(&err, YK_E_CAPACITY, "%s", texts[i].found);
    yk_protocol_error_of(&yk_protocol_messages, &err, NULL, &error);
    assert_string_equal(error.message, texts[i].shown);
    yk_protocol_error_of(&yk_protocol_responses, &err, NULL, &error);
    assert_int_equal(strncmp(error.message, "input: expected at most", 23), 0);
  }
}

/* Errors about messages that have been translated, and about schemas of tools, name the place in the client's body. */
static void places(void **state)
{
  (void)state;
  static const struct {
    const yk_protocol *protocol;
    const char *body, *message, *expected, *param;
  } rows[] = {{&yk_protocol_responses,
               "{'instructions': 'I', 'input': [" USER("x") ", {'type': 'reasoning', 'summary': []}, " USER("y") "]}",
               "messages[2].role: no", "input[2].role: no", "input[2].role"},
              {&yk_protocol_responses, "{'instructions': 'I', 'input': [" USER("x") "]}", "messages[0]: no",
               "instructions: no", ""},
              {&yk_protocol_responses, "{'input': [" USER("x") "]}", "chat template: no", "chat template: no", "input"},
              {&yk_protocol_messages, "{'max_tokens': 9, 'system': 'S', 'messages': [" USER("x") ", " USER("y") "]}",
               "messages[1].content: no", "messages[0].content: no", "messages[0].content"},
              {&yk_protocol_chat, "{'messages': [" USER("x") "]}", "messages[0].role: no", "messages[0].role: no",
               "messages[0].role"},
              {&yk_protocol_chat, "{'messages': [" USER("x") "]}", "tool_choice: tools[1].function.parameters/a: no",
               "tools[1].function.parameters/a: no", "tools[1].function.parameters"},
              {&yk_protocol_responses, "{'input': 'x'}", "tool_choice: input[1].tools[0].parameters/a: no",
               "input[1].tools[0].parameters/a: no", "input[1].tools[0].parameters"}};
  for (size_t i = 0; each_case(i, i < sizeof rows / sizeof *rows); i++) {
    yk_openai_request r = accept(rows[i].protocol, rows[i].body, NULL);
    yk_err err = YK_ERR_INIT;
    yk_openai_error error;
    yk_err_set(&err, YK_E_INVAL, "%s", rows[i].message);
    yk_openai_request_place(&r, &err);
    yk_protocol_error_of(rows[i].protocol, &err, NULL, &error);
    assert_string_equal(error.message, rows[i].expected);
    assert_string_equal(error.param, rows[i].param);
    yk_openai_request_free(&r);
  }
}

/* Results are assigned to their calls, for any number of calls. */
static void many_calls(void **state)
{
  (void)state;
  enum { N_CALLS = 3000 };
  yk_strbuf body = YK_STRBUF_INIT;
  yk_strbuf_append_str(&body, "{'input': [");
  for (int i = 0; i < N_CALLS; i++)
    yk_strbuf_append_fmt(&body, "{'type': 'function_call', 'call_id': 'c%d', 'name': 'f', 'arguments': '{}'}, ", i);
  for (int i = 0; i < N_CALLS; i++)
    yk_strbuf_append_fmt(&body, "{'type': 'function_call_output', 'call_id': 'c%d', 'output': ''}, ", i);
  yk_strbuf_append_str(&body, USER("x") "]}");
  yk_openai_request r = accept(&yk_protocol_responses, body.data, NULL);
  assert_int_equal(yk_json_size(r.chat.messages), N_CALLS + 2);
  yk_openai_request_free(&r);
  yk_strbuf_free(&body);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(items_become_messages),
                                     cmocka_unit_test(fields_of_responses),
                                     cmocka_unit_test(changed_settings),
                                     cmocka_unit_test(refused_responses),
                                     cmocka_unit_test(turns_become_messages),
                                     cmocka_unit_test(documents_become_texts),
                                     cmocka_unit_test(refused_documents),
                                     cmocka_unit_test(tools_in_messages),
                                     cmocka_unit_test(fields_of_messages),
                                     cmocka_unit_test(budget_without_tags),
                                     cmocka_unit_test(refused_messages),
                                     cmocka_unit_test(embeddings),
                                     cmocka_unit_test(lengths),
                                     cmocka_unit_test(places),
                                     cmocka_unit_test(many_calls)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
