/* Any text of an answer has the same events however it is cut, in every form of tool calls and of reasoning.
 *
 * The first byte chooses the form, the second the reasoning and the end, the third seeds the cuts; the rest is the
 * text. Calls begin and end alternately, and the arguments of a whole call are JSON. Without tools and reasoning the
 * content is the text. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "openai/parse/answer_parser.h"
#include "openai/parse/json_scan.h"

enum { N_CUTTINGS = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void require(bool condition)
{
  if (!condition) abort();
}

/* The events, with a mark of the kind before each text unless the same kind continues. */
typedef struct record {
  yk_strbuf text, arguments;
  char last;
  int32_t n_calls;
  bool in_call;
} record;

static void mark(record *r, char kind)
{
  if (r->last != kind || kind == 'C' || kind == 'E') yk_strbuf_append(&r->text, &kind, 1);
  r->last = kind;
}

static void take(void *user, const yk_answer_event *event)
{
  record *r = user;
  bool in_call = event->kind == YK_EVENT_ARGUMENTS || event->kind == YK_EVENT_CALL_END;
  require(r->in_call == in_call && (event->n_bytes > 0) == (event->kind != YK_EVENT_CALL_END));
  mark(r, "TRCAE"[event->kind]);
  if (event->kind == YK_EVENT_CALL) {
    require(event->call == r->n_calls++);
    yk_strbuf_append(&r->text, event->id, event->n_id_bytes);
    r->arguments.length = 0;
  }
  if (event->kind == YK_EVENT_CALL_END) {
    const char *arguments = r->arguments.data ? r->arguments.data : "";
    require(!event->is_whole || yk_json_scan_is_value(arguments, r->arguments.length));
    yk_strbuf_append_str(&r->text, event->is_whole ? "+" : "-");
  } else {
    yk_strbuf_append(&r->text, event->text, event->n_bytes);
  }
  if (event->kind == YK_EVENT_ARGUMENTS) yk_strbuf_append(&r->arguments, event->text, event->n_bytes);
  r->in_call = event->kind == YK_EVENT_CALL || event->kind == YK_EVENT_ARGUMENTS;
}

/* Cuts of 1 to most bytes, by a generator with this seed; most 0: whole. */
static record parse(yk_answer_parser_options options, const char *text, size_t n_bytes, bool is_cut, uint32_t seed,
                    size_t most)
{
  record r = {0};
  yk_answer_parser *parser;
  options.take = take;
  options.user = &r;
  require(yk_answer_parser_create(&options, &parser, NULL) == YK_OK);
  for (size_t at = 0, n = n_bytes; at < n_bytes; at += n) {
    seed = seed * 1664525 + 1013904223;
    if (most) n = 1 + (seed >> 8) % most;
    if (n > n_bytes - at) n = n_bytes - at;
    const yk_output output = {.has_token = true, .text = text + at, .text_bytes = n};
    require(yk_answer_parser_push(parser, &output, NULL) == YK_OK);
  }
  const yk_output end = {.finish = is_cut ? YK_FINISH_LENGTH : YK_FINISH_STOP, .text = ""};
  require(yk_answer_parser_push(parser, &end, NULL) == YK_OK);
  require(!r.in_call);
  yk_answer_parser_free(parser);
  return r;
}

static void free_record(record *r)
{
  yk_strbuf_free(&r->text);
  yk_strbuf_free(&r->arguments);
}

static const yk_reasoning *reasoning_of(unsigned choice)
{
  static const char *const names[] = {"none",    "qwen3",    "kimi_k2",      "mistral", "gemma4",
                                      "granite", "seed_oss", "hunyuan_a13b", "ernie45", "minimax_m2_append_think"};
  return yk_reasoning_find(names[choice % (sizeof names / sizeof names[0])]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
  if (n_bytes < 3) return 0;
  const char *text = (const char *)data + 3;
  size_t n_text = yk_utf8_valid_bytes(text, n_bytes - 3);
  bool is_cut = data[1] & 128;
  yk_answer_parser_options options = {.tools = (yk_tool_format)(data[0] % YK_N_TOOL_FORMATS),
                                      .reasoning = reasoning_of(data[1] & 31),
                                      .begins_inside = data[1] & 32,
                                      .only_first = data[1] & 64};
  if (!options.reasoning) options.begins_inside = false;
  record whole = parse(options, text, n_text, is_cut, 0, 0);
  for (size_t i = 0; i < N_CUTTINGS; i++) {
    record pieces = parse(options, text, n_text, is_cut, data[2], (size_t)1 << 2 * i);
    require(pieces.text.length == whole.text.length);
    require(whole.text.length == 0 || memcmp(pieces.text.data, whole.text.data, whole.text.length) == 0);
    free_record(&pieces);
  }
  if (options.tools == YK_TOOLS_NONE && !options.reasoning && n_text > 0)
    require(whole.text.length == n_text + 1 && memcmp(whole.text.data + 1, text, n_text) == 0);
  free_record(&whole);
  return 0;
}
