/* Enforced calls in every form, from the request to the parser: a random answer within the masks parses as calls whose
 * arguments satisfy the tool's schema. Skipped without the grammar library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json_write.h"
#include "base/rng.h"
#include "each_case.h"
#include "grammar/grammars.h"
#include "grammar/library.h"
#include "kernels/device.h"
#include "openai/parse/answer_parser.h"
#include "openai_fixture.h"
#include "text/token_bytes.h"
#include "unit/single_quotes.h"

/* Ids 0 to 255 are bytes, then the end, then tags. */
enum { END = 256, FIRST_TAG, MAX_TAGS = 8, MAX_TOKENS = 4000, N_WALKS = 3 };

#define N_ROWS(list) (sizeof(list) / sizeof(list)[0])

#define DEEPSEEK_TAGS                                                                                                  \
  {                                                                                                                    \
    "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>",                  \
        "<｜tool▁sep｜>", NULL                                                                                         \
  }

/* A form, and the tags that are special tokens of its models. */
static const struct {
  yk_tool_format format;
  const char *tags[MAX_TAGS];
  const char *beginning; /* of an answer with a call */
} forms[] = {
    {YK_TOOLS_HERMES, {NULL}, "Hi <tool_call>"},
    {YK_TOOLS_HERMES, {"<tool_call>", "</tool_call>", NULL}, "Hi <tool_call>"},
    {YK_TOOLS_LLAMA3_JSON, {NULL}, "{\"name\": "},
    {YK_TOOLS_GRANITE, {"<|tool_call|>", NULL}, "Hi <|tool_call|>"},
    {YK_TOOLS_HUNYUAN_A13B, {NULL}, "Hi <tool_calls>"},
    {YK_TOOLS_PHI4_MINI, {"<|tool_call|>", "<|/tool_call|>", NULL}, "Hi <|tool_call|>"},
    {YK_TOOLS_PHI4_MINI, {NULL}, "Hi functools["},
    {YK_TOOLS_GLM4, {NULL}, "f\n{"},
    {YK_TOOLS_NEMOTRON_JSON, {NULL}, "Hi <TOOLCALL>"},
    {YK_TOOLS_NEMOTRON_JSON, {"<TOOLCALL>", "</TOOLCALL>", NULL}, "Hi <TOOLCALL>"},
    {YK_TOOLS_MISTRAL, {"[TOOL_CALLS]", "[ARGS]", NULL}, "Hi [TOOL_CALLS]"},
    {YK_TOOLS_MISTRAL, {"[TOOL_CALLS]", "[ARGS]", NULL}, "[TOOL_CALLS] ["},
    {YK_TOOLS_DEEPSEEK_V3, DEEPSEEK_TAGS, "Hi <｜tool▁calls▁begin｜>"},
    {YK_TOOLS_DEEPSEEK_V31, DEEPSEEK_TAGS, "Hi <｜tool▁calls▁begin｜>"},
    {YK_TOOLS_KIMI_K2,
     {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>", "<|tool_call_end|>",
      "<|tool_call_argument_begin|>", NULL},
     "Hi <|tool_calls_section_begin|>"},
    {YK_TOOLS_GEMMA4, {"<|tool_call>", "<tool_call|>", "<|\"|>", NULL}, "Hi <|tool_call>"},
    {YK_TOOLS_GEMMA4, {NULL}, "Hi <|tool_call>"},
    {YK_TOOLS_FUNCTIONGEMMA,
     {"<start_function_call>", "<end_function_call>", "<escape>", NULL},
     "Hi <start_function_call>"},
    {YK_TOOLS_FUNCTIONGEMMA, {NULL}, "Hi <start_function_call>"},
    {YK_TOOLS_QWEN3_CODER, {NULL}, "Hi <tool_call>"},
    {YK_TOOLS_SEED_OSS, {"<seed:tool_call>", "</seed:tool_call>", NULL}, "Hi <seed:tool_call>"},
    {YK_TOOLS_MINIMAX_M2, {"<minimax:tool_call>", "</minimax:tool_call>", NULL}, "Hi <minimax:tool_call>"},
    {YK_TOOLS_GLM45, {NULL}, "Hi <tool_call>"},
    {YK_TOOLS_DEEPSEEK_V32, {NULL}, "Hi <｜DSML｜function_calls>"},
    {YK_TOOLS_PYTHONIC, {NULL}, "["},
    {YK_TOOLS_OLMO3, {NULL}, "Hi <function_calls>"},
    {YK_TOOLS_OLMO3, {"<function_calls>", "</function_calls>", NULL}, "Hi <function_calls>"},
};

/* Strings that look like other values, or like parts of a form. */
#define ODD_TEXTS                                                                                                      \
  "'', ' a ', '\\nb', 'c\\td', '<b>', '\\u00e9', '5', 'true', 'null', '[1]', '{}', 'x]', '}', 'a,b', 'k=v', "          \
  "'\\u201c', "                                                                                                        \
  "'`', 'a\\\\b'"

#define PARAMETERS                                                                                                     \
  "{'type': 'object', 'properties': {'x': {'enum': [1, 22]}, 'w': {'enum': ['p q', 'r']}, 'b': {'type': 'boolean'}, "  \
  "'s': {'type': 'string', 'pattern': '^[a-c]{1,3}$'}, 'l': {'type': 'array', 'items': {'enum': ['k', 'm']}, "         \
  "'maxItems': 2}, 'o': {'type': 'object', 'properties': {'i': {'$ref': '#/$defs/i'}}, 'required': ['i'], "            \
  "'additionalProperties': false}, 'z': {'type': 'null'}, 'c': {'const': false}, 'v': {'anyOf': [{'enum': ['k', "      \
  "'null']}, {'type': 'integer', 'minimum': 5, 'maximum': 7}]}, 'e': {'type': 'string', 'maxLength': 0}, 'y': "        \
  "{'type': 'string', 'minLength': 2, 'maxLength': 3}, 'q': {'enum': [" ODD_TEXTS                                      \
  "]}}, 'required': ['x', 'w', 's', 'l', 'o', 'c', 'v', 'e', 'y', 'q'], "                                              \
  "'additionalProperties': false, '$defs': {'i': {'type': 'integer', 'minimum': 0, 'maximum': 40}}}"
#define TOOL(name)                                                                                                     \
  "{'type': 'function', 'function': {'name': '" name "', 'strict': true, 'parameters': " PARAMETERS "}}"
#define EMPTY_TOOL                                                                                                     \
  "{'type': 'function', 'function': {'name': 'none', 'strict': true, 'parameters': {'type': 'object', 'properties': "  \
  "{}, 'additionalProperties': false}}}"
#define BODY(rest)                                                                                                     \
  "{'messages': [{'role': 'user', 'content': 'x'}], 'tools': [" TOOL("f") ", " TOOL("g-2") ", " EMPTY_TOOL "]" rest "}"

/* ---- A model's vocabulary ---------------------------------------------------------------------------------------- */

/* The character that stands for a byte in byte-level vocabularies. */
static int character_of(int byte)
{
  bool is_shown = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
  int n_hidden = 0;
  for (int i = 0; i < byte; i++) n_hidden += !((i > 32 && i < 127) || (i > 160 && i != 173));
  return is_shown ? byte : 256 + n_hidden;
}

static yk_tokenizer *make_tokenizer(const char *const *tags)
{
  yk_strbuf json = YK_STRBUF_INIT;
  yk_err err = YK_ERR_INIT;
  yk_tokenizer *tokenizer;
  yk_strbuf_append_str(&json, "{\"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\": {");
  for (int i = 0; i < 256; i++) yk_strbuf_append_fmt(&json, "%s\"\\u%04x\": %d", i ? ", " : "", character_of(i), i);
  yk_strbuf_append_str(&json,
                       "}}, \"decoder\": {\"type\": \"ByteLevel\"}, \"pre_tokenizer\": {\"type\": \"ByteLevel\", "
                       "\"add_prefix_space\": false}, \"added_tokens\": [{\"id\": 256, \"content\": \"<end>\", "
                       "\"special\": true}");
  for (int i = 0; tags[i]; i++) {
    yk_strbuf_append_fmt(&json, ", {\"id\": %d, \"special\": true, \"content\": ", FIRST_TAG + i);
    yk_json_append_string(&json, tags[i], strlen(tags[i]));
    yk_strbuf_append_str(&json, "}");
  }
  yk_strbuf_append_str(&json, "]}");
  if (yk_tokenizer_parse("tokenizer", json.data, json.length, &tokenizer, &err) != YK_OK) fail_msg("%s", err.message);
  yk_strbuf_free(&json);
  return tokenizer;
}

/* ---- Random answers ---------------------------------------------------------------------------------------------- */

typedef struct walk {
  yk_matcher *matcher;
  const char *const *tags;
  int32_t n_ids;
  uint32_t counter;
  yk_strbuf text;
  yk_text_span special[MAX_TOKENS];
  size_t n_special;
} walk;

static uint32_t draw(walk *w, uint32_t n)
{
  uint32_t counter[4] = {w->counter++, 0, 0, 0};
  yk_philox(counter, 7, 9);
  return counter[0] % n;
}

static void take(walk *w, int32_t id)
{
  if (!yk_matcher_accept(w->matcher, id)) fail_msg("id %d behind %s", id, w->text.data ? w->text.data : "");
  if (id == END) return;
  if (id < END) {
    yk_strbuf_append(&w->text, &(char){(char)id}, 1);
    return;
  }
  size_t begin = w->text.length;
  yk_strbuf_append_str(&w->text, w->tags[id - FIRST_TAG]);
  assert_true(w->n_special < N_ROWS(w->special));
  w->special[w->n_special++] = (yk_text_span){begin, w->text.length};
}

/* The tag at the beginning of a text as a token, else a byte. */
static size_t take_text(walk *w, const char *text)
{
  for (int i = 0; w->tags[i]; i++) {
    if (strncmp(text, w->tags[i], strlen(w->tags[i])) != 0) continue;
    take(w, FIRST_TAG + i);
    return strlen(w->tags[i]);
  }
  take(w, (unsigned char)text[0]);
  return 1;
}

/* Whether a character may begin with the byte that is no text: the library permits surrogates and overlong forms. */
static bool may_be_no_text(int32_t id)
{
  return id == 0xc0 || id == 0xc1 || (id >= 0xe0 && id < END);
}

/* White space is rare, as in answers of models. */
static int32_t draw_id(walk *w, const int32_t *found, int32_t n)
{
  int32_t id = found[draw(w, (uint32_t)n)];
  for (int i = 0; (i < 8 && id < END && strchr(" \t\r\n", id)) || (n > 60 && may_be_no_text(id)); i++)
    id = found[draw(w, (uint32_t)n)];
  return id;
}

/* Ends where the mask permits an end, unless the draw continues with further calls. */
static void go(walk *w)
{
  uint32_t words[(FIRST_TAG + MAX_TAGS) / 32 + 1];
  yk_err err = YK_ERR_INIT;
  for (int n = 0; n < MAX_TOKENS; n++) {
    int32_t found[FIRST_TAG + MAX_TAGS], n_found = 0;
    if (yk_matcher_fill(w->matcher, words, &err) != YK_OK) fail_msg("%s", err.message);
    for (int32_t id = 0; id < w->n_ids; id++)
      if (words[id / 32] >> id % 32 & 1 && id != END) found[n_found++] = id;
    bool may_end = words[END / 32] >> END % 32 & 1;
    if (may_end && (n_found == 0 || n_found > 60 || draw(w, 2))) {
      take(w, END);
      return;
    }
    if (n_found == 0)
      fail_msg("nothing may follow %s", w->text.data);
    else
      take(w, draw_id(w, found, n_found));
  }
  fail_msg("no end: %s", w->text.data);
}

/* ---- The calls of an answer -------------------------------------------------------------------------------------- */

typedef struct calls {
  yk_strbuf name, arguments, content, all; /* all: of every call, one after the other */
  int n;
} calls;

static bool is_text_of(yk_json value, const char *letters, size_t most)
{
  size_t n = yk_json_length(value);
  return yk_json_is(value, YK_JSON_STRING) && n <= most && strspn(yk_json_string(value), letters) == n;
}

static size_t n_characters(yk_json value)
{
  size_t n = 0;
  for (size_t i = 0; i < yk_json_length(value); i++) n += (yk_json_text(value)[i] & 0xc0) != 0x80;
  return n;
}

static bool fits_union(yk_json value)
{
  int64_t number;
  if (yk_json_to_i64(value, &number)) return number >= 5 && number <= 7;
  return yk_json_equals(value, "k") || yk_json_equals(value, "null");
}

static bool is_odd_text(yk_json value)
{
  yk_json_doc *document;
  char *texts = double_quoted("[" ODD_TEXTS "]");
  yk_json_rules rules = {.max_depth = 2, .max_values = 99};
  bool found = false;
  assert_int_equal(yk_json_parse("texts", texts, strlen(texts), &rules, &document, NULL), YK_OK);
  YK_JSON_EACH(one, yk_json_root(document))
  found |= yk_json_is(value, YK_JSON_STRING) && strcmp(yk_json_string(one), yk_json_string(value)) == 0;
  yk_json_free(document);
  free(texts);
  return found;
}

static bool fits(const calls *c)
{
  yk_json_doc *document;
  yk_json_rules rules = {.max_depth = 9, .max_values = 99};
  int64_t x, i;
  if (yk_json_parse("arguments", c->arguments.data, c->arguments.length, &rules, &document, NULL) != YK_OK)
    return false;
  yk_json a = yk_json_root(document), l = yk_json_get(a, "l"), o = yk_json_get(a, "o");
  yk_json b = yk_json_get(a, "b"), z = yk_json_get(a, "z"), y = yk_json_get(a, "y");
  bool fit = yk_json_is(a, YK_JSON_OBJECT);
  if (c->name.length == 4) {
    fit &= strncmp(c->name.data, "none", 4) == 0 && yk_json_size(a) == 0;
  } else {
    fit &= (c->name.length == 1 && c->name.data[0] == 'f') || (c->name.length == 3 && !strncmp(c->name.data, "g-2", 3));
    fit &= yk_json_to_i64(yk_json_get(a, "x"), &x) && (x == 1 || x == 22);
    fit &= yk_json_equals(yk_json_get(a, "w"), "p q") || yk_json_equals(yk_json_get(a, "w"), "r");
    fit &= is_text_of(yk_json_get(a, "s"), "abc", 3) && yk_json_is(l, YK_JSON_ARRAY) && yk_json_size(l) <= 2;
    fit &= yk_json_size(o) == 1 && yk_json_to_i64(yk_json_get(o, "i"), &i) && i >= 0 && i <= 40;
    fit &= yk_json_is(yk_json_get(a, "c"), YK_JSON_FALSE) && fits_union(yk_json_get(a, "v"));
    fit &= yk_json_is(y, YK_JSON_STRING) && n_characters(y) >= 2 && n_characters(y) <= 3;
    fit &= is_odd_text(yk_json_get(a, "q")) && yk_json_equals(yk_json_get(a, "e"), "") &&
           yk_json_size(a) == 10u + (b.doc != NULL) + (z.doc != NULL) && (!b.doc || yk_json_is_bool(b));
    fit &= !z.doc || yk_json_is(z, YK_JSON_NULL);
    YK_JSON_EACH(one, l) fit &= yk_json_equals(one, "k") || yk_json_equals(one, "m");
  }
  yk_json_free(document);
  return fit;
}

static void take_event(void *user, const yk_answer_event *event)
{
  calls *c = user;
  switch (event->kind) {
  case YK_EVENT_CONTENT: yk_strbuf_append(&c->content, event->text, event->n_bytes); break;
  case YK_EVENT_REASONING: break;
  case YK_EVENT_CALL:
    c->name.length = c->arguments.length = 0;
    yk_strbuf_append(&c->name, event->text, event->n_bytes);
    break;
  case YK_EVENT_ARGUMENTS: yk_strbuf_append(&c->arguments, event->text, event->n_bytes); break;
  case YK_EVENT_CALL_END:
    c->n++;
    yk_strbuf_append(&c->all, c->name.data, c->name.length);
    yk_strbuf_append(&c->all, c->arguments.data, c->arguments.length);
    if (!event->is_whole || !fits(c))
      fail_msg("%.*s: %.*s", (int)c->name.length, c->name.data, (int)c->arguments.length, c->arguments.data);
  }
}

/* The bytes of the answer's piece at a byte: the token. */
static size_t piece_at(const walk *w, size_t at)
{
  for (size_t i = 0; i < w->n_special; i++)
    if (w->special[i].begin == at) return w->special[i].end - at;
  return 1;
}

/* Parses the answer, in one piece, or token by token as in a stream. */
static calls calls_of(const yk_openai_request *request, const walk *w, bool is_stream)
{
  calls c = {0};
  yk_answer_parser *parser;
  const yk_answer_parser_options options = {
      .tools = request->tools, .schemas = request->schemas, .hides_special = true, .take = take_event, .user = &c};
  assert_int_equal(yk_answer_parser_create(&options, &parser, NULL), YK_OK);
  for (size_t at = 0, n = 0; is_stream && at < w->text.length; at += n) {
    n = piece_at(w, at);
    const yk_text_span special = {0, n};
    const yk_output output = {
        .has_token = true, .text = w->text.data + at, .text_bytes = n, .special = &special, .n_special = n > 1};
    assert_int_equal(yk_answer_parser_push(parser, &output, NULL), YK_OK);
  }
  const yk_output end = {.has_token = true,
                         .text = w->text.data,
                         .text_bytes = is_stream ? 0 : w->text.length,
                         .special = w->special,
                         .n_special = is_stream ? 0 : w->n_special,
                         .finish = YK_FINISH_STOP};
  assert_int_equal(yk_answer_parser_push(parser, &end, NULL), YK_OK);
  yk_answer_parser_free(parser);
  return c;
}

/* Tags that are special tokens are written as these, not as bytes. */
static void check_tags(const walk *w)
{
  for (int i = 0; w->tags[i]; i++)
    for (const char *at = w->text.data; (at = strstr(at, w->tags[i])); at++) {
      size_t begin = (size_t)(at - w->text.data), n = 0;
      while (n < w->n_special && w->special[n].begin != begin) n++;
      if (n == w->n_special) fail_msg("%s as bytes: %s", w->tags[i], w->text.data);
    }
}

static void free_calls(calls *c)
{
  yk_strbuf_free(&c->name);
  yk_strbuf_free(&c->arguments);
  yk_strbuf_free(&c->content);
  yk_strbuf_free(&c->all);
}

/* Returns the number of calls. */
static int check_answer(const yk_openai_request *request, const walk *w, const char *content)
{
  calls c = calls_of(request, w, false), streamed = calls_of(request, w, true);
  bool fit = content ? c.content.length >= strlen(content) && !memcmp(c.content.data, content, strlen(content))
                     : c.content.length == 0;
  if (!fit || c.n == 0)
    fail_msg("%d calls, and content %.*s: %s", c.n, (int)c.content.length, c.content.data, w->text.data);
  bool is_same = streamed.n == c.n && streamed.all.length == c.all.length &&
                 streamed.content.length == c.content.length && !memcmp(streamed.all.data, c.all.data, c.all.length);
  if (!is_same) fail_msg("streamed, other calls: %s", w->text.data);
  free_calls(&c);
  free_calls(&streamed);
  return c.n;
}

/* One form's model. */
typedef struct fixture {
  yk_tool_format format;
  const char *const *tags;
  int32_t n_ids;
  yk_tokenizer *tokenizer;
  yk_grammars *grammars;
} fixture;

static fixture fixture_of(size_t i)
{
  static const int32_t end = END;
  yk_err err = YK_ERR_INIT;
  fixture f = {.format = forms[i].format, .tags = forms[i].tags, .n_ids = FIRST_TAG};
  while (f.tags[f.n_ids - FIRST_TAG]) f.n_ids++;
  f.tokenizer = make_tokenizer(f.tags);
  const yk_grammars_options options = {.tokenizer = f.tokenizer,
                                       .n_ids = f.n_ids,
                                       .end_ids = &end,
                                       .n_end_ids = 1,
                                       .python = "python3",
                                       .time_limit_s = 60,
                                       .memory_limit_bytes = 1 << 30,
                                       .cache_bytes = 1 << 24};
  assert_int_equal(yk_grammars_create(&options, &f.grammars, &err), YK_OK);
  return f;
}

/* Returns the number of calls in answers that begin with this text. */
static int check_answers(const fixture *f, const char *body, const char *beginning, int n_walks)
{
  static const int32_t end = END;
  static walk w;
  yk_err err = YK_ERR_INIT;
  yk_openai_defaults defaults = openai_defaults(f->format);
  yk_openai_request request;
  int n_calls = 0;
  assert_int_equal(openai_parse_with(&defaults, YK_FORM_CHAT, body, &request, &err), YK_OK);
  const yk_sampling *s = &request.sampling;
  for (int n = 0; n < n_walks; n++) {
    w = (walk){.tags = f->tags, .n_ids = f->n_ids, .counter = w.counter};
    if (yk_grammars_match(f->grammars, s->constraint_kind, s->constraint, s->constraint_bytes, &end, 1, &w.matcher,
                          &err))
      fail_msg("%s: %s", err.message, s->constraint);
    for (const char *at = beginning; *at;) at += take_text(&w, at);
    go(&w);
    check_tags(&w);
    n_calls += check_answer(&request, &w, strncmp(beginning, "Hi", 2) == 0 ? "Hi" : NULL);
    yk_strbuf_free(&w.text);
    yk_matcher_free(w.matcher);
  }
  yk_openai_request_free(&request);
  return n_calls;
}

static bool has_library(void)
{
  yk_grammar_library *library;
  bool found = yk_grammar_library_load(NULL, &library, NULL) == YK_OK;
  yk_grammar_library_free(library);
  return found;
}

static void enforced_calls_of_every_form(void **state)
{
  int n_required = 0;
  (void)state;
  if (!has_library()) skip();
  for (size_t i = 0; each_case(i, i < N_ROWS(forms)); i++) {
    fixture f = fixture_of(i);
    n_required += check_answers(&f, BODY(", 'tool_choice': 'required'"), "", N_WALKS);
    assert_int_equal(check_answers(&f, BODY(", 'tool_choice': {'type': 'function', 'function': {'name': 'f'}}"), "", 1),
                     1);
    check_answers(&f, BODY(""), forms[i].beginning, N_WALKS);
    yk_grammars_free(f.grammars);
    yk_tokenizer_free(f.tokenizer);
  }
  assert_true(n_required > N_WALKS * (int)N_ROWS(forms)); /* some answers have several */
}

#define ONE_TOOL(name, parameters, rest)                                                                               \
  "{'messages': [{'role': 'user', 'content': 'x'}], 'tools': [{'type': 'function', 'function': {'name': '" name        \
  "', 'strict': true, 'parameters': " parameters "}}]" rest "}"
#define REQUIRED ", 'tool_choice': 'required'"

/* In every format: a request is refused, or has a constraint; none is without a form of calls to write. */
static void calls_that_cannot_be_enforced_are_refused(void **state)
{
  static const struct {
    const char *body, *message; /* NULL: the request is taken, except in formats without enforced calls */
  } cases[] = {
      {ONE_TOOL("f", "{'type': 'object'}", REQUIRED), NULL},
      {ONE_TOOL("f", "{'properties': {}}", REQUIRED), NULL},
      {ONE_TOOL("f", "{'type': 'object'}", ", 'response_format': {'type': 'json_object'}"), NULL},
      {ONE_TOOL("f", "{'type': 'string'}", REQUIRED), "expected parameters of the type \"object\""},
      {ONE_TOOL("f", "{'type': ['object', 'null']}", ""), "expected parameters of the type \"object\""},
      {ONE_TOOL("f", "{'const': 5}", REQUIRED), "expected parameters of the type \"object\""},
      {ONE_TOOL("a\\u0000b", "{}", REQUIRED), "without NUL"},
      {ONE_TOOL("a", "{}", ", 'tool_choice': {'type': 'function', 'function': {'name': 'a\\u0000b'}}"), "without NUL"},
  };
  (void)state;
  for (yk_tool_format format = YK_TOOLS_HERMES; format < YK_N_TOOL_FORMATS; format++)
    for (size_t i = 0; each_case(i, i < N_ROWS(cases)); i++) {
      yk_err err = YK_ERR_INIT;
      yk_openai_defaults defaults = openai_defaults(format);
      yk_openai_request request;
      yk_status status = openai_parse_with(&defaults, YK_FORM_CHAT, cases[i].body, &request, &err);
      if (status == YK_OK) {
        bool is_enforced = request.sampling.constraint_kind == YK_CONSTRAINT_STRUCTURAL_TAG;
        assert_true(is_enforced ? !cases[i].message : format == YK_TOOLS_OPENAI);
      } else if (format != YK_TOOLS_OPENAI && (!cases[i].message || !strstr(err.message, cases[i].message))) {
        fail_msg("format %d: %s", (int)format, err.message);
      }
      yk_openai_request_free(&request);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(enforced_calls_of_every_form),
                                     cmocka_unit_test(calls_that_cannot_be_enforced_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
